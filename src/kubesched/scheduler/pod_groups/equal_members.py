"""How many members of a group fit each node, if all members are equal.

The workers of a training job usually have equal values in all fields that a filter reads. If the
filters read no more of the pods on a node than their totals, the number of members that fit a node
does not depend on the other nodes. Then a few calls of the filters about all nodes replace one
attempt per member and placement. `equal_members` returns None where that does not hold; members are
then placed one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    CycleState,
    ExtensionPoint,
    NodeView,
    PodInfo,
    QueuedPodInfo,
    TotalsView,
)
from kubesched.framework.engine.node_table import CPU, EPHEMERAL_STORAGE, MEMORY, NodeTable
from kubesched.framework.pod_groups import GroupCycle, enter_group_cycle
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.config.plugin_names import (
    DEFAULT_PREEMPTION,
    DYNAMIC_RESOURCES,
    GANG_SCHEDULING,
    VOLUME_BINDING,
)
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["EqualMembers", "amounts_of", "equal_members"]

# Plugins of these points that do nothing for pods without volumes and claims, and Permit of
# GangScheduling, which only counts. Any other plugin may depend on single pods.
_COUNTING: Final = {
    ExtensionPoint.RESERVE: frozenset({VOLUME_BINDING, DYNAMIC_RESOURCES}),
    ExtensionPoint.PERMIT: frozenset({GANG_SCHEDULING}),
    ExtensionPoint.POST_FILTER: frozenset({DEFAULT_PREEMPTION, DYNAMIC_RESOURCES}),
}


class EqualMembers:
    """Members of a group for which the filters return the same verdicts."""

    def __init__(
        self,
        framework: Framework,
        state: CycleState,
        members: Sequence[QueuedPodInfo],
        nodes: NodeView,
    ) -> None:
        """`state` is that of an attempt at the first member, after PreFilter."""
        self._framework = framework
        self._state = state
        self._pod = members[0].pod
        self._nodes = nodes
        self._count = len(members)
        self._own = amounts_of(members[0].pod_info, nodes.table)
        self._nominated = _nominated_to(framework, members, nodes)

    def room(
        self,
        rows: NDArray[np.intp],
        requested: NDArray[np.int64],
        pod_count: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return how many members fit each node, at most all: int64[node].

        `requested` (int64[resource, node]) and `pod_count` are totals without the members.

        Raises:
            PluginError: a filter failed.
        """
        if self._nominated is not None:
            # Filters are monotonous in the totals, so a node that has room for the nominated pods
            # as well has room without them.
            requested = requested + self._nominated[0][:, rows]
            pod_count = pod_count + self._nominated[1][rows]
        room = np.zeros(len(rows), dtype=np.int64)
        left = np.arange(len(rows))
        own = self._own[:, np.newaxis]
        dry_run, state, pod = self._framework.dry_run, self._state, self._pod
        for placed in range(self._count):
            view = TotalsView(self._nodes, rows[left], requested, pod_count)
            found = dry_run.filter_nodes(state, pod, view, again=placed > 0)
            if found.codes is not None and found.codes.any():
                passing = found.codes == 0
                left = left[passing]
                requested, pod_count = requested[:, passing], pod_count[passing]
                if not len(left):
                    break
            room[left] += 1
            requested, pod_count = requested + own, pod_count + 1
        return room

    def room_now(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return how many members fit each node in addition to its pods."""
        table = self._nodes.table
        return self.room(rows, table.requested[:, rows], table.pod_count[rows])


def equal_members(
    framework: Framework,
    snapshot: ClusterSnapshot,
    members: Sequence[QueuedPodInfo],
    cycle: GroupCycle,
) -> EqualMembers | None:
    """Return the members as equal ones; None if they must be placed one by one."""
    if cycle.calls_extenders or not _only_counts(framework):
        return None
    common: tuple[object, CycleState] | None = None
    for queued in members:
        if not _is_plain(queued.pod):
            return None
        state = CycleState()
        enter_group_cycle(state, cycle)
        try:
            outcome = framework.run_pre_filter(state, queued.pod_info)
        except PluginError:
            return None
        if outcome.status is not SUCCESS or outcome.only_nodes is not None or state.asks_every_node:
            return None
        framework.answer_cache.entry_of(state, queued.pod, snapshot.nodes)
        key = framework.dry_run.cache_key(state)
        if key is None or not framework.dry_run.reads_totals_only(state):
            return None
        if common is None:
            common = key, state
        elif common[0] != key:
            return None
    if common is None:
        return None
    return EqualMembers(framework, common[1], members, snapshot.nodes)


def amounts_of(pod_info: PodInfo, table: NodeTable) -> NDArray[np.int64]:
    """Return the requests of a pod, numbered as in the table: int64[resource]."""
    amounts = np.zeros(len(table.requested), dtype=np.int64)
    wanted = pod_info.requested
    amounts[[CPU, MEMORY, EPHEMERAL_STORAGE]] = (
        wanted.milli_cpu,
        wanted.memory,
        wanted.ephemeral_storage,
    )
    for name, amount in wanted.scalar.items():
        place = table.resource_column(name)
        # No node offers a resource without a column, so filters reject the pod everywhere.
        if 0 <= place < len(amounts):
            amounts[place] = amount
    return amounts


def _nominated_to(
    framework: Framework, members: Sequence[QueuedPodInfo], nodes: NodeView
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return the totals of pods nominated to each row, without the members; None if there are none.

    Members are being placed, so their own nominations reserve nothing.
    """
    if not framework.nominator.nominated_nodes():
        return None
    pod, table = members[0].pod, nodes.table
    totals = framework.dry_run.nominated_totals(pod)
    requested = np.zeros_like(table.requested)
    pod_count = np.zeros_like(table.pod_count)
    requested[:, totals.rows] = totals.requested
    pod_count[totals.rows] = totals.pod_count
    for other in members[1:]:
        name = framework.nominator.node_of(other.pod.metadata.uid)
        row = table.row_of.get(name or "")
        if row is not None and pod_count[row]:
            pod_count[row] -= 1
    return requested, pod_count


def _only_counts(framework: Framework) -> bool:
    return all(
        plugin.name in known
        for point, known in _COUNTING.items()
        for plugin in framework.plugins.at(point)
    )


def _is_plain(pod: Pod) -> bool:
    """Whether Reserve has nothing to do for the pod."""
    return not pod.spec.volumes and not pod.spec.resource_claims
