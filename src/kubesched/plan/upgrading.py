"""Replaces the nodes of a pool, some at a time: rounds of new nodes, drains and removals.

The old nodes are cordoned from the beginning, so that no pod moves from one old node to another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta, Pod
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.plan.draining import DrainLimits, rehearse_drain
from kubesched.plan.plan_results import Drain, Upgrade, UpgradeRound
from kubesched.plan.reading.planning_policy import PlanningPolicy
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS

__all__ = ["plan_upgrade"]

_HOSTNAME: Final = "kubernetes.io/hostname"
_OWN_TAINTS: Final = "node.kubernetes.io/"


def plan_upgrade(
    snapshot: Snapshot,
    pool: Selector,
    *,
    surge: int = 1,
    policy: PlanningPolicy | None = None,
    seconds: float = 60,
    most_pending_s: float = 60,
    wave_pods: int = 200,
    seed: int = 0,
    clock: Clock | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Upgrade:
    """Plan and rehearse the replacement of the nodes with these labels, `surge` at a time.

    Each round adds new nodes that are equal to the old nodes of the round, and empties the old
    ones. The plan ends with the first round that cannot move all pods. A replacement may be without
    a node for `most_pending_s`.

    Raises:
        ExplainError: there is no such node.
        KubeschedError: OR-Tools is not installed, or the cluster cannot be rehearsed.
    """
    old = _in_order(snapshot, pool)
    if not old:
        raise ExplainError("no node has these labels")
    limits = DrainLimits(policy or PlanningPolicy(), seconds, most_pending_s, wave_pods)
    timer = clock or RealClock()
    objects: Iterable[ApiObject] = list(snapshot.model.objects)
    names = {node.metadata.name for node in old}
    replaced: set[str] = set()
    rounds: list[UpgradeRound] = []
    last: Drain | None = None
    for start in range(0, len(old), surge):
        batch = old[start : start + surge]
        added = [_new_node(node) for node in batch]
        cluster = [*_cordoned(_without(objects, replaced), names), *added]
        now = Snapshot(
            cluster,
            configuration=snapshot.model.configuration,
            plugins={**IN_TREE_PLUGINS, **snapshot.out_of_tree_plugins},
            clock=snapshot.model.clock,
        )
        report(f"round {len(rounds) + 1}: {', '.join(node.metadata.name for node in batch)}")
        wanted = [node.metadata.name for node in batch]
        last, outcome = rehearse_drain(now, wanted, limits, seed + len(rounds), timer, report)
        rounds.append(
            UpgradeRound(
                round=len(rounds) + 1,
                add=tuple(node.metadata.name for node in added),
                nodes=last.nodes,
                moves=last.moves,
                waves=last.waves,
                longest_pending_seconds=last.longest_pending_seconds,
            )
        )
        replaced.update(last.nodes)
        objects = outcome.objects
        if not last.verified:
            break
    return Upgrade(
        nodes=len(old),
        upgraded=len(replaced),
        rounds=tuple(rounds),
        verified=last is not None and last.verified,
        blocked=() if last is None else last.blocked,
        longest_pending_seconds=max(each.longest_pending_seconds for each in rounds),
        problems=() if last is None else last.problems,
    )


def _in_order(snapshot: Snapshot, pool: Selector) -> Sequence[Node]:
    """Return the nodes of the pool, those with the fewest pods first."""
    nodes = [
        node for node in snapshot.model.objects.list(Node) if pool.matches(node.metadata.labels)
    ]
    counts = {node.name: len(node.pods) for node in snapshot.model.snapshot.nodes}
    return sorted(nodes, key=lambda node: (counts[node.metadata.name], node.metadata.name))


def _new_node(old: Node) -> Node:
    """Return a node that is equal to the old one, ready and empty."""
    name = f"{old.metadata.name}-new"
    labels = {**old.metadata.labels, _HOSTNAME: name}
    annotations = old.metadata.annotations
    metadata = ObjectMeta(name=name, labels=labels, annotations=annotations, uid=f"node-{name}")
    taints = tuple(taint for taint in old.spec.taints if not taint.key.startswith(_OWN_TAINTS))
    return replace(
        old, metadata=metadata, spec=replace(old.spec, unschedulable=False, taints=taints)
    )


def _cordoned(objects: Iterable[ApiObject], names: Collection[str]) -> Iterable[ApiObject]:
    for each in objects:
        if isinstance(each, Node) and each.metadata.name in names:
            yield replace(each, spec=replace(each.spec, unschedulable=True))
        else:
            yield each


def _without(objects: Iterable[ApiObject], removed: Collection[str]) -> Iterable[ApiObject]:
    """Remove nodes and the pods left on them, such as those of DaemonSets."""
    for each in objects:
        is_gone = isinstance(each, Node) and each.metadata.name in removed
        is_on_it = isinstance(each, Pod) and each.spec.node_name in removed
        if not is_gone and not is_on_it:
            yield each
