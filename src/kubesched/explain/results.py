"""What an explanation consists of: values, documented as JSON in docs/explain.md.

Field names here are the names in `-o json`; fields are only ever added.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.explain.frames import explanation_frame
from kubesched.explain.html import explanation_html, explanation_page

__all__ = [
    "Edit",
    "Explanation",
    "NodeGroup",
    "NodeScore",
    "Preemption",
    "Rejection",
    "Suggestion",
    "Versus",
    "VersusPoint",
]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A value that can be printed, shown in a notebook, and turned into plain data."""

    def to_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


class Rejection(Result, frozen=True, kw_only=True):
    """One rule that rejects the nodes of a group."""

    plugin: str
    reason: str  # the reference's words
    asked: str = ""
    available: str = ""  # the most there is on any node of the group, and where
    detail: str = ""  # a sentence with names: which taint, which port held by whom
    preemptable: bool = False  # evicting pods might change this verdict


class NodeGroup(Result, frozen=True, kw_only=True):
    """Nodes that the same rules reject; no rejections: they fit."""

    count: int
    example: str
    rejections: tuple[Rejection, ...] = ()
    nodes: tuple[str, ...] = ()


class Edit(Result, frozen=True, kw_only=True):
    """One object to change, for programs that carry a suggestion out."""

    action: str  # create, replace, or delete; a pod that is replaced has to be made anew
    kind: str
    api_version: str
    name: str
    namespace: str = ""
    document: dict[str, Any] | None = None  # the object as it should be


class Suggestion(Result, frozen=True, kw_only=True):
    """A change with which the pod fits; it was made on a copy and the scheduler was run."""

    change: str
    verified: bool
    node: str  # where the pod would go then
    kind: str  # pod, cluster, or preemption
    parts: tuple[str, ...] = ()  # the single changes, where several are needed together
    command: str = ""  # what to type, where one line does it
    size: float = 1.0  # how large the change is; suggestions come smallest first
    edits: tuple[Edit, ...] = ()


class PluginScore(Result, frozen=True, kw_only=True):
    """What one plugin adds to a node's total."""

    plugin: str
    score: int  # 0 to 100
    weight: int
    points: int  # score times weight


class NodeScore(Result, frozen=True, kw_only=True):
    node: str
    total: int
    plugins: tuple[PluginScore, ...] = ()


class Preemption(Result, frozen=True, kw_only=True):
    """What PostFilter says: who would go, or why nobody may."""

    possible: bool
    node: str = ""
    victims: tuple[str, ...] = ()  # namespace/name; who would go, now or with more priority
    budgets_violated: tuple[str, ...] = ()  # namespace/name; evictions would go against these
    message: str = ""
    priority_needed: int | None = None  # the lowest with which room could be made
    blocked_by_policy: bool = False  # it could, if its preemptionPolicy were not Never

    def in_words(self) -> str:
        """One or two sentences."""
        victims = ", ".join(self.victims) or "nobody"
        against = ", ".join(self.budgets_violated)
        who = f"{victims} on {self.node}" + (f", against budget {against}" if against else "")
        if self.possible:
            return f"It makes room by evicting {who}."
        if self.blocked_by_policy:
            return f"Its preemptionPolicy is Never; otherwise it would evict {who}."
        if self.priority_needed is not None:
            return (
                "Nobody who could make room is less important. "
                f"From priority {self.priority_needed} on it would evict {who}."
            )
        return "Evicting less important pods does not help."


class VersusPoint(Result, frozen=True, kw_only=True):
    plugin: str
    chosen: int
    other: int
    difference: int


class Versus(Result, frozen=True, kw_only=True):
    """Why this node and not that one."""

    node: str
    other: str
    summary: str
    points: tuple[VersusPoint, ...] = ()
    rejections: tuple[Rejection, ...] = ()  # of the other node, if it does not fit


class Explanation(Result, frozen=True, kw_only=True):
    """Why a pod is pending, or where it goes and why there."""

    pod: str  # namespace/name
    verdict: str  # fits or pending
    summary: str  # the sentence that matters
    breakdown: str = ""  # how many nodes are out for what, if for more than one thing
    advice: str = ""  # who has to do what
    node: str = ""  # where it would go; where it is, if it is placed
    current_node: str = ""  # of a pod that is placed
    nodes: int = 0  # how many were looked at
    feasible: int = 0
    message: str = ""  # the reference's own text
    groups: tuple[NodeGroup, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    preemption: Preemption | None = None
    scores: tuple[NodeScore, ...] = ()  # the best nodes, best first
    ties: int = 0  # nodes that share the best total
    margin: int = 0  # points between the best and the next
    versus: Versus | None = None
    queue: dict[str, Any] | None = None  # of a running scheduler
    unknown: tuple[str, ...] = ()  # kinds that could not be read
    partial: tuple[str, ...] = ()  # kinds of which only one namespace could be read

    def to_pandas(self) -> Any:
        """A pandas frame with a row for each node; needs the extra `pandas`."""
        return explanation_frame(self)

    def to_html(self) -> str:
        """One self-contained file."""
        return explanation_page(self)

    def _repr_html_(self) -> str:
        return explanation_html(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.pod}: {self.verdict}. {self.summary}>"
