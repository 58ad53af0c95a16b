"""The sentence that matters, first."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api import Pod
from kubesched.explain.model import SearchOutcome
from kubesched.explain.results import NodeGroup, NodeScore, Rejection, Suggestion
from kubesched.explain.verdicts import AllVerdicts

__all__ = ["pending_summary", "placed_summary"]

_GROUPS_SHOWN = 3


def pending_summary(
    pod: Pod,
    outcome: SearchOutcome,
    verdicts: AllVerdicts,
    groups: Sequence[NodeGroup],
    suggestions: Sequence[Suggestion],
    held: Rejection | None,
) -> str:
    """Why the pod waits, from the nodes that come nearest to fitting."""
    if held is not None:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        what = f"scheduling gates {gates}" if gates else held.reason
        return f"It is held back before scheduling by {held.plugin}: {what}"
    if not len(verdicts.nodes):
        return "There are no nodes"
    about_pod = [each for each in verdicts.by_plugin if each.is_about_pod]
    if about_pod:
        reasons = ", ".join(each.statuses[0].message for each in about_pod)
        return f"No node is even looked at: {reasons}"
    if outcome.diagnosis is None:
        return f"The attempt ends in an error: {outcome.message}"
    total = len(verdicts.nodes)
    nearest = sorted(groups, key=lambda group: (len(_plugins(group)), -group.count))
    parts = [f"{group.count} of {total}: {_why(group)}" for group in nearest[:_GROUPS_SHOWN]]
    if len(nearest) == 1:
        parts = [f"all {total}: {_why(nearest[0])}"]
    sentence = f"No node fits. {'; '.join(parts)}"
    left = sum(group.count for group in nearest[_GROUPS_SHOWN:])
    if left:
        sentence += f"; {left} more for further reasons"
    if not suggestions:
        sentence += ". No single change or pair of changes was found that would help"
    return sentence


def _plugins(group: NodeGroup) -> set[str]:
    return {each.plugin for each in group.rejections}


def _why(group: NodeGroup) -> str:
    parts = []
    for each in group.rejections:
        text = each.reason
        if each.asked and each.available:
            text += f" (asks {each.asked}; at most {each.available})"
        elif each.detail:
            text += f" ({each.detail})"
        parts.append(text)
    return ", and ".join(parts)


def placed_summary(
    node: str, current: str, scores: Sequence[NodeScore], ties: int, margin: int
) -> str:
    """Where the pod goes, and how clear the choice is."""
    points = f" with {scores[0].total} points" if scores and scores[0].plugins else ""
    if ties > 1:
        close = f"; {ties} nodes are equally good"
    elif margin:
        close = f", {margin} ahead of the next"
    else:
        close = "; it is the only node that fits" if len(scores) == 1 else ""
    if not current:
        return f"It fits: it would go to {node}{points}{close}"
    if current == node:
        return f"It runs on {current}, which is where it would go today as well{points}{close}"
    return f"It runs on {current}; placed today it would go to {node}{points}{close}"
