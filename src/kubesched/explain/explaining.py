"""Puts an explanation together: the search's own answer, all verdicts, what would help, scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.details import DetailContext, describe
from kubesched.explain.model import ClusterModel, ExplainError, SearchOutcome
from kubesched.explain.preempting import explain_preemption
from kubesched.explain.results import Explanation, NodeGroup, Rejection
from kubesched.explain.scoring import ScoreTable
from kubesched.explain.suggestions import find_suggestions
from kubesched.explain.summaries import pending_summary, placed_summary
from kubesched.explain.verdicts import AllVerdicts, find_all_verdicts
from kubesched.framework import PodInfo, Status

__all__ = ["explain_pod", "verdict_groups"]

_FINISHED = ("Succeeded", "Failed")
_MOST_SCORES = 10


def explain_pod(
    model: ClusterModel,
    pod: Pod,
    *,
    versus: str = "",
    suggest: bool = True,
    unknown: Sequence[str] = (),
) -> Explanation:
    """Explain a pod: one that waits, one that is placed, or one that does not exist yet.

    A placed pod is looked at as if it were to be placed now, without itself.

    Raises:
        ExplainError: the pod is not this scheduler's to place.
    """
    if pod.status.phase in _FINISHED:
        raise ExplainError(f"{_name(pod)} has finished ({pod.status.phase}): it needs no node")
    current = pod.spec.node_name
    if current:
        waiting = _unplaced(pod)
        with model.without(pod):
            return _explain(model, waiting, current, versus, False, unknown)
    return _explain(model, pod, "", versus, suggest, unknown)


def _explain(
    model: ClusterModel,
    pod: Pod,
    current: str,
    versus: str,
    suggest: bool,
    unknown: Sequence[str],
) -> Explanation:
    framework = model.framework_of(pod)
    held = _held_back(model, pod)
    outcome = model.search(pod)
    pod_info = PodInfo(pod)
    verdicts = find_all_verdicts(framework, pod_info, model.snapshot.nodes)
    groups = verdict_groups(model, pod_info, verdicts, outcome)
    if held is not None or outcome.result is None:
        preemption = suggestions = None
        if suggest:
            suggestions = find_suggestions(model, pod, verdicts) if held is None else ()
            preemption = explain_preemption(model, pod, outcome) if held is None else None
        return Explanation(
            pod=_name(pod),
            verdict="pending",
            summary=pending_summary(pod, outcome, verdicts, groups, suggestions or (), held),
            node=outcome.node_name if held is not None else "",
            current_node=current,
            nodes=len(verdicts.nodes),
            feasible=_feasible_count(groups),
            message=outcome.message if held is None else held.reason,
            groups=groups,
            suggestions=suggestions or (),
            preemption=preemption,
            unknown=tuple(unknown),
        )
    table = ScoreTable(framework, outcome.result)
    scores = table.best(_MOST_SCORES)
    return Explanation(
        pod=_name(pod),
        verdict="fits",
        summary=placed_summary(outcome.node_name, current, scores, table.ties, table.margin),
        node=outcome.node_name,
        current_node=current,
        nodes=len(verdicts.nodes),
        feasible=len(outcome.result.feasible),
        groups=groups,
        scores=scores,
        ties=table.ties,
        margin=table.margin,
        versus=table.versus(versus, groups) if versus else None,
        unknown=tuple(unknown),
    )


def verdict_groups(
    model: ClusterModel, pod_info: PodInfo, verdicts: AllVerdicts, outcome: SearchOutcome
) -> tuple[NodeGroup, ...]:
    """Nodes with the same verdicts together, those nearest to fit first."""
    names = np.array(verdicts.nodes.names, dtype=object)
    statuses = _statuses_of_nominated(model, outcome)
    groups = []
    for positions, verdict in verdicts.groups():
        rejections: list[Rejection] = []
        context = DetailContext(model.objects, pod_info, verdicts.nodes, positions)
        for plugin, status in verdict:
            rejections += describe(context, plugin, status)
        members = sorted(names[positions].tolist())
        known = {(plugin, reason) for plugin, status in verdict for reason in status.all_reasons}
        first = verdict[0][0] if verdict else ""
        crowded = {
            name: found
            for name in members
            if (found := statuses.get(name)) is not None
            and (
                found.plugin != first
                or any((first, reason) not in known for reason in found.all_reasons)
            )
        }
        groups += _crowded_groups(crowded, rejections)
        if len(crowded) < len(members):
            groups.append(_group([n for n in members if n not in crowded], rejections))
    return tuple(groups)


def _statuses_of_nominated(model: ClusterModel, outcome: SearchOutcome) -> dict[str, Status]:
    """What the search says of nodes that pods are nominated to.

    It counts those pods as well, so another rule may come first there than for the node alone.
    """
    nominated = model.nominator.nominated_nodes()
    diagnosis = outcome.diagnosis if outcome.result is None else outcome.result.diagnosis
    if not nominated or diagnosis is None:
        return {}
    statuses = diagnosis.node_statuses()
    return {name: statuses[name] for name in nominated if name in statuses}


def _crowded_groups(
    crowded: Mapping[str, Status], rejections: Sequence[Rejection]
) -> list[NodeGroup]:
    """Nodes that a rule rejects once the pods nominated to them have come."""
    known = {(each.plugin, each.reason) for each in rejections}
    by_status: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, status in crowded.items():
        by_status.setdefault((status.plugin, tuple(status.all_reasons)), []).append(name)
    return [
        _group(
            members,
            [
                *(
                    Rejection(
                        plugin=plugin,
                        reason=reason,
                        detail="once the pods nominated to this node have come",
                    )
                    for reason in reasons
                    if (plugin, reason) not in known
                ),
                *rejections,
            ],
        )
        for (plugin, reasons), members in by_status.items()
    ]


def _group(members: Sequence[str], rejections: Sequence[Rejection]) -> NodeGroup:
    return NodeGroup(
        count=len(members), example=members[0], rejections=tuple(rejections), nodes=tuple(members)
    )


def _feasible_count(groups: Sequence[NodeGroup]) -> int:
    return sum(group.count for group in groups if not group.rejections)


def _held_back(model: ClusterModel, pod: Pod) -> Rejection | None:
    """What keeps the pod out of the queue: a gate, or another plugin's PreEnqueue."""
    for plugin in model.framework_of(pod).pre_enqueue_plugins:
        status = plugin.pre_enqueue(pod)
        if not status.is_success:
            return Rejection(plugin=plugin.name, reason=status.message)
    return None


def _unplaced(pod: Pod) -> Pod:
    return replace(
        pod,
        spec=replace(pod.spec, node_name=""),
        status=replace(pod.status, nominated_node_name=""),
    )


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
