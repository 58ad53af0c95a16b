"""Trial placements of a group in a cluster without some pods, for preemption.

docs/reference/09 §10.3. Members that are equal are counted in columns. Other groups are placed in
the cache while the removed pods are hidden there. Both are undone by `restore`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeView, PodInfo, QueuedPodInfo, Status
from kubesched.framework.pod_groups import GroupCycle
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.pod_groups.equal_members import EqualMembers, amounts_of
from kubesched.scheduler.pod_groups.group_algorithm import GroupAlgorithm
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["CountingDryRun", "PlacingDryRun"]


class PlacingDryRun:
    """A `PodGroupDryRun` that places the members one by one, with the removed pods hidden."""

    def __init__(
        self,
        cache: Cache,
        algorithm: GroupAlgorithm,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
    ) -> None:
        self._cache = cache
        self._algorithm = algorithm
        self._framework = framework
        self._members = members
        self._cycle = cycle
        self._hidden: dict[str, PodInfo] = {}
        self._status = Status.unschedulable()

    def remove(self, pods: Sequence[PodInfo]) -> None:
        for pod_info in pods:
            self._cache.hide_pod(pod_info)
            self._hidden[pod_info.uid] = pod_info

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        for pod_info in pods:
            del self._hidden[pod_info.uid]
            self._cache.show_pod(pod_info)

    def fits(self) -> bool:
        outcome = self._algorithm.run(self._framework, self._members, self._cycle, makes_room=False)
        self._status = outcome.status
        return self._status.is_success

    def rejection(self) -> Status:
        return self._status

    def restore(self) -> None:
        """Return all pods that are still removed."""
        self.put_back(list(self._hidden.values()))


class CountingDryRun:
    """A `PodGroupDryRun` for equal members: counts how many fit each node."""

    def __init__(
        self, nodes: NodeView, members: EqualMembers, needed: int, rejection: Status
    ) -> None:
        """`needed` members make the group fit; `rejection` is the verdict if fewer fit."""
        self._table = nodes.table
        self._members = members
        self._needed = needed
        self._rejection = rejection
        self._requested = nodes.table.requested.copy()
        self._pod_count = nodes.table.pod_count.copy()
        self._room = np.zeros(nodes.table.capacity, dtype=np.int64)
        self._stale = np.zeros(nodes.table.capacity, dtype=bool)
        self._stale[nodes.rows] = True
        self._is_live = self._stale.copy()
        # By uid: the number of a pod that was removed once, with its row and its requests.
        self._number: dict[str, int] = {}
        self._rows = np.empty(0, dtype=np.intp)
        self._amounts = np.empty((len(nodes.table.requested), 0), dtype=np.int64)

    def remove(self, pods: Sequence[PodInfo]) -> None:
        self._change(pods, -1)

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        self._change(pods, 1)

    def fits(self) -> bool:
        rows = np.flatnonzero(self._stale)
        if len(rows):
            self._room[rows] = self._members.room(
                rows, self._requested[:, rows], self._pod_count[rows]
            )
            self._stale[rows] = False
        return int(self._room.sum()) >= self._needed

    def rejection(self) -> Status:
        return self._rejection

    def restore(self) -> None:
        """Nothing was changed but this object."""

    def _change(self, pods: Sequence[PodInfo], sign: int) -> None:
        numbers = self._numbers_of(pods)
        rows, amounts = self._rows[numbers], self._amounts[:, numbers]
        for resource, amount in enumerate(amounts):
            np.add.at(self._requested[resource], rows, sign * amount)
        np.add.at(self._pod_count, rows, sign)
        self._stale[rows] = self._is_live[rows]

    def _numbers_of(self, pods: Sequence[PodInfo]) -> NDArray[np.intp]:
        unknown = [pod_info for pod_info in pods if pod_info.uid not in self._number]
        if unknown:
            row_of, table = self._table.row_of, self._table
            for pod_info in unknown:
                self._number[pod_info.uid] = len(self._number)
            rows = [row_of[pod_info.pod.spec.node_name] for pod_info in unknown]
            self._rows = np.concatenate([self._rows, np.array(rows, dtype=np.intp)])
            amounts = [amounts_of(pod_info, table) for pod_info in unknown]
            self._amounts = np.concatenate([self._amounts, np.stack(amounts, axis=1)], axis=1)
        numbers = (self._number[pod_info.uid] for pod_info in pods)
        return np.fromiter(numbers, dtype=np.intp, count=len(pods))
