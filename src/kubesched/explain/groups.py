"""Groups of nodes with the same verdicts; nominated pods are taken into account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kubesched.explain.clusters.cluster_model import ClusterModel, SearchOutcome
from kubesched.explain.explanation import Rejection, VerdictGroup
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.verdicts import AllVerdicts
from kubesched.framework import PodInfo, RejectedNodes, Status

__all__ = ["verdict_groups"]


def verdict_groups(
    model: ClusterModel,
    pod_info: PodInfo,
    verdicts: AllVerdicts,
    outcome: SearchOutcome,
    explanations: PluginExplanations,
) -> tuple[VerdictGroup, ...]:
    """Return groups of nodes with the same verdicts, those with fewest rejections first."""
    names = np.array(verdicts.nodes.names, dtype=object)
    statuses = _statuses_of_nominated(model, outcome)
    groups = []
    for positions, verdict in verdicts.groups():
        rejections: list[Rejection] = []
        rejected = RejectedNodes(model.objects, pod_info, verdicts.nodes, positions)
        for plugin, status in verdict:
            rejections += explanations.rejections(plugin, rejected, status)
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
    """Return the search's statuses of nodes with nominated pods.

    The search counts nominated pods, so another rule may be the first to reject the node.
    """
    nominated = model.nominator.nominated_nodes()
    diagnosis = outcome.diagnosis if outcome.result is None else outcome.result.diagnosis
    if not nominated or diagnosis is None:
        return {}
    statuses = diagnosis.node_statuses()
    return {name: statuses[name] for name in nominated if name in statuses}


def _crowded_groups(
    crowded: Mapping[str, Status], rejections: Sequence[Rejection]
) -> list[VerdictGroup]:
    """Return groups of nodes that a rule rejects only because of the pods nominated to them."""
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


def _group(members: Sequence[str], rejections: Sequence[Rejection]) -> VerdictGroup:
    return VerdictGroup(
        count=len(members), example=members[0], rejections=tuple(rejections), nodes=tuple(members)
    )
