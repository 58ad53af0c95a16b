"""What an explanation consists of: values, documented as JSON in docs/explain.md.

Field names here are the names in `-o json`; fields are only ever added.
"""

from __future__ import annotations

from html import escape
from typing import Any

from kubesched.explain.queue_places import queue_lines
from kubesched.explain.rendering.frames import frame
from kubesched.explain.rendering.html import html_document
from kubesched.explain.rendering.result import Result

__all__ = [
    "Edit",
    "Explanation",
    "NodeScore",
    "Preemption",
    "Rejection",
    "Suggestion",
    "VerdictGroup",
    "Versus",
    "VersusPoint",
    "rejection_row",
]


class Rejection(Result, frozen=True, kw_only=True):
    """One rule that rejects the nodes of a group."""

    plugin: str
    reason: str  # the reference's words
    asked: str = ""
    available: str = ""  # the most there is on any node of the group, and where
    detail: str = ""  # a sentence with names: which taint, which port held by whom
    preemptable: bool = False  # evicting pods might change this verdict
    cause: dict[str, Any] | None = None  # the reason as data: its `type`, and what it is about


class VerdictGroup(Result, frozen=True, kw_only=True):
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
    groups: tuple[VerdictGroup, ...] = ()
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
        return _explanation_frame(self)

    def to_html(self) -> str:
        """One self-contained file."""
        return html_document(f"{self.pod}: {self.verdict}", _explanation_html(self))

    def _repr_html_(self) -> str:
        return _explanation_html(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.pod}: {self.verdict}. {self.summary}>"


def _explanation_frame(explanation: Explanation) -> Any:
    """A row for each node: whether it fits, what rejects it, and the scores of the best."""
    scores = {score.node: score for score in explanation.scores}
    rows: list[dict[str, Any]] = []
    for group in explanation.groups:
        for node in group.nodes:
            row: dict[str, Any] = {
                "node": node,
                "fits": not group.rejections,
                "rejected_by": ", ".join(dict.fromkeys(each.plugin for each in group.rejections)),
                "reasons": ", ".join(each.reason for each in group.rejections),
            }
            if (score := scores.get(node)) is not None:
                row["total"] = score.total
                row |= {each.plugin: each.points for each in score.plugins}
            rows.append(row)
    return frame(rows, ["node", "fits", "rejected_by", "reasons"])


def _explanation_html(explanation: Explanation) -> str:
    """The part of a document that a notebook shows."""
    parts = [
        f'<h1>{escape(explanation.pod)}: <span class="{escape(explanation.verdict)}">'
        f"{escape(explanation.verdict)}</span></h1>"
    ]
    parts.append(f"<p class=first>{escape(explanation.summary)}</p>")
    parts += [
        f"<p>{escape(text)}</p>" for text in (explanation.advice, explanation.breakdown) if text
    ]
    if explanation.suggestions:
        parts.append("<h2>What would help (each tried out)</h2><ol>")
        for each in explanation.suggestions:
            command = f"<br><code>{escape(each.command)}</code>" if each.command else ""
            parts.append(
                f"<li>{escape(each.change)} <span class=dim>→ {escape(each.node)}</span>"
                f"{command}</li>"
            )
        parts.append("</ol>")
    if explanation.preemption is not None and explanation.verdict == "pending":
        words = explanation.preemption.in_words()
        parts.append(f"<h2>Preemption</h2><p>{escape(words)}</p>")
    if explanation.scores:
        parts.append("<h2>Best nodes</h2>" + _scores(explanation.scores))
    if explanation.versus is not None:
        parts.append(_versus(explanation.versus))
    rejecting = [group for group in explanation.groups if group.rejections]
    if rejecting:
        count = sum(group.count for group in rejecting)
        heading = f"Why not ({count} node{'' if count == 1 else 's'})"
        parts.append(f"<h2>{heading}</h2><div class=wide><table>")
        parts += map(rejection_row, rejecting)
        parts.append("</table></div>")
    if explanation.queue:
        places = "".join(f"<li>{escape(line)}</li>" for line in queue_lines(explanation.queue))
        parts.append(f"<h2>Queue</h2><ul>{places}</ul>")
    if explanation.message:
        parts.append(f"<p class=dim>{escape(explanation.message)}</p>")
    return "".join(parts)


def rejection_row(group: VerdictGroup) -> str:
    """Return a group of nodes as a row of an HTML table: how many, one of them, and why not."""
    reasons = []
    for each in group.rejections:
        text = f"<b>{escape(each.plugin)}</b>: {escape(each.reason)}"
        if each.asked:
            text += f"; asks {escape(each.asked)}"
        if each.available:
            text += f", at most {escape(each.available)}"
        if each.detail:
            text += f"; {escape(each.detail)}"
        reasons.append(text)
    return (
        f"<tr><td class=n>{group.count}</td><td class=dim>{escape(group.example)}</td>"
        f"<td>{'<br>'.join(reasons)}</td></tr>"
    )


def _scores(scores: tuple[NodeScore, ...]) -> str:
    """A row for each plugin, a column for each node: plugins have long names."""
    head = "".join(f"<th class=n>{escape(score.node)}</th>" for score in scores)
    totals = "".join(f"<td class=n><b>{score.total}</b></td>" for score in scores)
    rows = "".join(
        f"<tr><td>{escape(plugin.plugin)}</td>"
        + "".join(f"<td class=n>{score.plugins[place].points}</td>" for score in scores)
        + "</tr>"
        for place, plugin in enumerate(scores[0].plugins)
    )
    return (
        f"<div class=wide><table><tr><th></th>{head}</tr>"
        f"<tr><td><b>total</b></td>{totals}</tr>{rows}</table></div>"
    )


def _versus(versus: Versus) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.plugin)}</td><td class=n>{each.chosen}</td>"
        f"<td class=n>{each.other}</td><td class=n>{each.difference:+d}</td></tr>"
        for each in versus.points
    )
    table = ""
    if rows:
        names = f"<th class=n>{escape(versus.node)}</th><th class=n>{escape(versus.other)}</th>"
        table = (
            f"<div class=wide><table><tr><th></th>{names}<th class=n>difference</th></tr>"
            f"{rows}</table></div>"
        )
    heading = escape(f"{versus.node} or {versus.other}")
    return f"<h2>{heading}</h2><p>{escape(versus.summary)}</p>{table}"
