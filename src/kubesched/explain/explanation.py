"""The parts of an explanation: values, documented as JSON in docs/explain.md.

Field names are the names in `-o json`. Fields may be added, but not removed or renamed.
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
    reason: str  # the reference's text
    asked: str = ""
    available: str = ""  # the most that any node of the group has available, and the node
    detail: str = ""  # names, such as that of the taint, or of the pod that uses the port
    preemptable: bool = False  # evicting pods might change this verdict
    cause: dict[str, Any] | None = None  # the reason as data: its `type` and fields


class VerdictGroup(Result, frozen=True, kw_only=True):
    """Nodes that the same rules reject; nodes without rejections fit."""

    count: int
    example: str
    rejections: tuple[Rejection, ...] = ()
    nodes: tuple[str, ...] = ()


class Edit(Result, frozen=True, kw_only=True):
    """A change to one object, for programs that apply a suggestion."""

    action: str  # create, replace, recreate (delete, then create) or delete
    kind: str
    api_version: str
    name: str
    namespace: str = ""
    document: dict[str, Any] | None = None  # the object after the change


class Suggestion(Result, frozen=True, kw_only=True):
    """A change after which the pod fits, as the search confirmed on a copy of the cluster.

    With fewer replicas the pod is not needed any more.
    """

    change: str
    verified: bool  # the search ran with all rules; False: some kinds have not been read
    node: str  # the node that the pod would get; empty if the pod would not be needed
    kind: str  # pod, cluster, or preemption
    parts: tuple[str, ...] = ()  # the single changes, if several are needed together
    command: str = ""  # a shell command that makes the change
    size: float = 1.0  # how large the change is; suggestions come smallest first
    edits: tuple[Edit, ...] = ()


class PluginScore(Result, frozen=True, kw_only=True):
    """The contribution of one plugin to the total of a node."""

    plugin: str
    score: int  # 0 to 100
    weight: int
    points: int  # score times weight


class NodeScore(Result, frozen=True, kw_only=True):
    node: str
    total: int
    plugins: tuple[PluginScore, ...] = ()


class Preemption(Result, frozen=True, kw_only=True):
    """The result of PostFilter: the pods to preempt, or why no pod can be preempted."""

    possible: bool
    node: str = ""
    # namespace/name; the victims at the present priority, or at the needed one
    victims: tuple[str, ...] = ()
    budgets_violated: tuple[str, ...] = ()  # namespace/name
    message: str = ""
    priority_needed: int | None = None  # the lowest priority with which preemption would help
    blocked_by_policy: bool = False  # preemption would help, but preemptionPolicy is Never

    def in_words(self) -> str:
        """Describe the result in one or two sentences."""
        victims = ", ".join(self.victims) or "no pod"
        against = ", ".join(self.budgets_violated)
        who = f"{victims} on {self.node}" + (f", against budget {against}" if against else "")
        if self.possible:
            return f"It makes room by evicting {who}."
        if self.blocked_by_policy:
            return f"Its preemptionPolicy is Never; otherwise it would evict {who}."
        if self.priority_needed is not None:
            return (
                "No pod that could make room is less important. "
                f"From priority {self.priority_needed} on it would evict {who}."
            )
        return "Evicting less important pods does not help."


class VersusPoint(Result, frozen=True, kw_only=True):
    plugin: str
    chosen: int
    other: int
    difference: int


class Versus(Result, frozen=True, kw_only=True):
    """A comparison of the chosen node with another one."""

    node: str
    other: str
    summary: str
    points: tuple[VersusPoint, ...] = ()
    rejections: tuple[Rejection, ...] = ()  # of the other node, if it does not fit


class Explanation(Result, frozen=True, kw_only=True):
    """Why a pod is pending, or which node it gets and why."""

    pod: str  # namespace/name
    verdict: str  # fits, pending, or unknown: it depends on kinds that have not been read
    summary: str  # the headline
    breakdown: str = ""  # how many nodes each reason excludes, if there are several
    advice: str = ""  # the recommended change
    node: str = ""  # the node that it would get, or has
    current_node: str = ""  # the node of a placed pod
    nodes: int = 0  # the number of all nodes
    feasible: int = 0
    message: str = ""  # the reference's message
    groups: tuple[VerdictGroup, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    preemption: Preemption | None = None
    scores: tuple[NodeScore, ...] = ()  # the best nodes, best first
    ties: int = 0  # nodes that share the best total
    margin: int = 0  # points between the best total and the next
    versus: Versus | None = None
    queue: dict[str, Any] | None = None  # its place in the queue of a running scheduler
    unknown: tuple[str, ...] = ()  # kinds that could not be read
    partial: tuple[str, ...] = ()  # kinds of which only one namespace could be read

    @property
    def trials(self) -> str:
        """How the suggestions were verified."""
        if all(each.verified for each in self.suggestions):
            return "each tried out"
        return "each tried out, without the rules about kinds that have not been read"

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each node; needs the extra `pandas`."""
        return _explanation_frame(self)

    def to_html(self) -> str:
        """Return an HTML document that needs no other file."""
        return html_document(f"{self.pod}: {self.verdict}", _explanation_html(self))

    def _repr_html_(self) -> str:
        return _explanation_html(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.pod}: {self.verdict}. {self.summary}>"


def _explanation_frame(explanation: Explanation) -> Any:
    """Return a row for each node: whether it fits, what rejects it, and its scores."""
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
    """Return the body of the document; notebooks show it without the frame."""
    parts = [
        f'<h1>{escape(explanation.pod)}: <span class="{escape(explanation.verdict)}">'
        f"{escape(explanation.verdict)}</span></h1>"
    ]
    parts.append(f"<p class=first>{escape(explanation.summary)}</p>")
    parts += [
        f"<p>{escape(text)}</p>" for text in (explanation.advice, explanation.breakdown) if text
    ]
    if explanation.suggestions:
        items = "".join(map(_suggestion_item, explanation.suggestions))
        parts.append(f"<h2>What would help ({explanation.trials})</h2><ol>{items}</ol>")
    if explanation.preemption is not None and explanation.verdict == "pending":
        words = explanation.preemption.in_words()
        parts.append(f"<h2>Preemption</h2><p>{escape(words)}</p>")
    if explanation.scores:
        parts.append("<h2>Best nodes</h2>" + _scores(explanation.scores))
    if explanation.versus is not None:
        parts.append(_versus(explanation.versus))
    if rejecting := [group for group in explanation.groups if group.rejections]:
        parts.append(_rejection_table(rejecting))
    if explanation.queue:
        places = "".join(f"<li>{escape(line)}</li>" for line in queue_lines(explanation.queue))
        parts.append(f"<h2>Queue</h2><ul>{places}</ul>")
    if explanation.message:
        parts.append(f"<p class=dim>{escape(explanation.message)}</p>")
    return "".join(parts)


def _suggestion_item(suggestion: Suggestion) -> str:
    command = f"<br><code>{escape(suggestion.command)}</code>" if suggestion.command else ""
    where = f"<span class=dim>→ {escape(suggestion.node)}</span>"
    return f"<li>{escape(suggestion.change)} {where}{command}</li>"


def _rejection_table(groups: list[VerdictGroup]) -> str:
    count = sum(group.count for group in groups)
    heading = f"Why not ({count} node{'' if count == 1 else 's'})"
    rows = "".join(map(rejection_row, groups))
    return f"<h2>{heading}</h2><div class=wide><table>{rows}</table></div>"


def rejection_row(group: VerdictGroup) -> str:
    """Return a group of nodes as a row of an HTML table: number, example, and reasons."""
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
    """Return a table with a row for each plugin and a column for each node."""
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
