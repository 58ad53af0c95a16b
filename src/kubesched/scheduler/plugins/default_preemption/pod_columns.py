"""The pods on the nodes as columns: for every row, the most important pod first.

A row is updated on request, if its node or one of its pods changed since. The entries of a row
are contiguous in long arrays, in a range with spare capacity. A row that outgrows its range moves
to the end.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.pod_facts import pod_priority
from kubesched.api.resource_amounts import Resources
from kubesched.api.time import parse_time
from kubesched.framework import NodeView, PodInfo
from kubesched.framework.engine import CPU, EPHEMERAL_STORAGE, MEMORY, NodeTable
from kubesched.framework.engine.interning import Interner

__all__ = ["NOT_STARTED", "PodColumns", "PodMatrix"]

NOT_STARTED: Final = np.iinfo(np.int64).max
_BUILT_IN: Final = 3
_NO_POD: Final = np.iinfo(np.int64).max
_FIRST_ROOM: Final = 1024

Label = tuple[str, frozenset[tuple[str, str]]]


class PodMatrix(NamedTuple):
    """Pods of some rows, one row each; the first `number` entries of a row are valid."""

    entry: NDArray[np.intp]  # [row, place]: index into the columns
    is_pod: NDArray[np.bool_]  # [row, place]
    number: NDArray[np.intp]  # [row]

    def subset(self, keep: NDArray[np.intp]) -> PodMatrix:
        return PodMatrix(self.entry[keep], self.is_pod[keep], self.number[keep])


class PodColumns:
    """Priorities, start times and requests of all pods on a table's nodes."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._with_labels = False
        self.latest_start_ns = 0  # of all pods so far
        self.restarts = 0  # indexes into the columns are valid until the next restart
        self._reset()

    def _reset(self) -> None:
        self.restarts += 1
        capacity = self.table.capacity
        self.label_sets: Interner[Label] = Interner()  # (namespace, labels) of pods
        self._stale = np.ones(capacity, dtype=bool)
        self._position = self.table.changes.position
        self._facts_position = self.table.pod_changes.position
        self._offset = np.zeros(capacity, dtype=np.intp)
        self._length = np.zeros(capacity, dtype=np.intp)
        self._room = np.zeros(capacity, dtype=np.intp)
        self._end = 0
        self._abandoned = 0  # entries in ranges that rows have outgrown
        self._pods: list[list[PodInfo]] = [[] for _ in range(capacity)]
        self._lowest = np.full(capacity, _NO_POD, dtype=np.int64)  # lowest priority on the row
        self.priority = np.zeros(_FIRST_ROOM, dtype=np.int64)
        self.start_ns = np.zeros(_FIRST_ROOM, dtype=np.int64)  # or NOT_STARTED
        self.label_set = np.zeros(_FIRST_ROOM, dtype=np.int32)
        self.amounts = np.zeros((len(self.table.resources), _FIRST_ROOM), dtype=np.int64)

    def track_labels(self) -> None:
        """Maintain the numbers of the pods' label sets, too, from now on."""
        if not self._with_labels:
            self._with_labels = True
            self._stale[:] = True

    def compact(self) -> None:
        """Start over if more entries are abandoned than in use.

        Do not call it during a search: indexes into the columns become invalid.
        """
        if (
            self._abandoned > self._end // 2 + _FIRST_ROOM
            or len(self.label_sets) > self._end + _FIRST_ROOM
        ):
            self._reset()

    def refresh(self, nodes: NodeView, rows: NDArray[np.intp]) -> None:
        """Update these rows if they are stale."""
        self._mark_stale_rows()
        stale = rows[self._stale[rows]]
        if len(stale):
            for row, node in zip(stale.tolist(), nodes.at_rows(stale), strict=True):
                self._write(row, node.pods)
            self._stale[stale] = False

    def has_pods_below(self, rows: NDArray[np.intp], priority: int) -> NDArray[np.bool_]:
        """Return which of these rows have a pod below this priority; refresh them first."""
        return self._lowest[rows] < priority

    def pods_below(self, rows: NDArray[np.intp], priority: int) -> PodMatrix:
        """Return the pods of these rows below this priority; refresh the rows first."""
        length = self._length[rows]
        width = int(length.max(initial=0))
        offset = self._offset[rows][:, None]
        place = np.arange(width)
        index = np.minimum(offset + place, len(self.priority) - 1)
        above = (self.priority[index] >= priority) & (place < length[:, None])
        skipped = above.sum(axis=1)
        number = length - skipped
        place = place[: int(number.max(initial=0))]
        entry = np.minimum(offset + skipped[:, None] + place, len(self.priority) - 1)
        return PodMatrix(entry, place < number[:, None], number)

    def pod(self, row: int, entry: int) -> PodInfo:
        """Return the pod of a row by its index in the columns."""
        return self._pods[row][entry - int(self._offset[row])]

    def entry_of(self, row: int, uid: str) -> int | None:
        """Return the index in the columns of a pod of a row, or None."""
        for place, pod_info in enumerate(self._pods[row]):
            if pod_info.uid == uid:
                return int(self._offset[row]) + place
        return None

    def _mark_stale_rows(self) -> None:
        table = self.table
        if table.capacity != len(self._stale):
            self._reset()
            return
        changed = table.changes.since(self._position)
        replaced = table.pod_changes.since(self._facts_position)
        if changed is None or replaced is None:
            self._stale[:] = True
        else:
            self._stale[changed] = True
            self._stale[replaced] = True
        self._position = table.changes.position
        self._facts_position = table.pod_changes.position
        missing = len(table.resources) - len(self.amounts)
        if missing > 0:
            self.amounts = np.pad(self.amounts, ((0, missing), (0, 0)))

    def _write(self, row: int, pods: list[PodInfo]) -> None:
        ranked = sorted(
            ((-pod_priority(each.pod), _start_ns(each), place) for place, each in enumerate(pods))
        )
        ordered = [pods[place] for _, _, place in ranked]
        self._pods[row] = ordered
        self._length[row] = count = len(ordered)
        self._lowest[row] = -ranked[-1][0] if ranked else _NO_POD
        if count > self._room[row]:
            self._move(row, count)
        start = int(self._offset[row])
        here = slice(start, start + count)
        self.priority[here] = [-priority for priority, _, _ in ranked]
        starts = [started for _, started, _ in ranked]
        self.start_ns[here] = starts
        actual = (each for each in starts if each != NOT_STARTED)
        self.latest_start_ns = max(self.latest_start_ns, max(actual, default=0))
        self._write_amounts(start, [each.requested for each in ordered])
        if self._with_labels:
            self.label_set[here] = [self._label_number(each) for each in ordered]

    def _write_amounts(self, start: int, requests: list[Resources]) -> None:
        here = slice(start, start + len(requests))
        self.amounts[CPU, here] = [each.milli_cpu for each in requests]
        self.amounts[MEMORY, here] = [each.memory for each in requests]
        self.amounts[EPHEMERAL_STORAGE, here] = [each.ephemeral_storage for each in requests]
        if len(self.amounts) <= _BUILT_IN:
            return
        self.amounts[_BUILT_IN:, here] = 0
        for index, each in enumerate(requests, start=start):
            for name, amount in each.scalar.items():
                # No column: no node has the resource, so evicting the pod frees none.
                if (column := self.table.resource_column(name)) >= 0:
                    self.amounts[column, index] = amount

    def _move(self, row: int, count: int) -> None:
        room = 4 * -(-(count + 1) // 4)
        self._abandoned += int(self._room[row])
        self._offset[row], self._room[row] = self._end, room
        self._end += room
        extra = max(self._end - len(self.priority), 0)
        if extra:
            extra = max(extra, len(self.priority))
            self.priority = np.pad(self.priority, (0, extra))
            self.start_ns = np.pad(self.start_ns, (0, extra))
            self.label_set = np.pad(self.label_set, (0, extra))
            self.amounts = np.pad(self.amounts, ((0, 0), (0, extra)))

    def _label_number(self, pod_info: PodInfo) -> int:
        metadata = pod_info.pod.metadata
        return self.label_sets.intern((metadata.namespace, frozenset(metadata.labels.items())))


def _start_ns(pod_info: PodInfo) -> int:
    started = pod_info.pod.status.start_time
    return NOT_STARTED if started is None else parse_time(started)
