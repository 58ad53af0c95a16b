"""The requests of nominated pods, summed per node and cached between attempts.

A pod must leave room for pods of at least its priority that are nominated to a node. There may be
thousands of them while victims terminate, and every attempt needs them all, so only the nodes
whose nominations changed since the last attempt are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import numpy as np

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.framework import ClusterVersion, NominatedTotals, Nominator, PodInfo
from kubesched.framework.engine import CPU, EPHEMERAL_STORAGE, MEMORY, NodeTable

__all__ = ["NominatedPods"]

_BUILT_IN: Final = 3
_FIRST_CAPACITY: Final = 64
_FREE: Final = np.iinfo(np.int64).min  # the priority of an entry that holds no pod


class NominatedPods:
    """The nominated pods as columns, one entry per pod."""

    def __init__(
        self, nominator: Callable[[], Nominator], version: Callable[[], ClusterVersion]
    ) -> None:
        self._find_nominator = nominator
        self._version_of_cluster = version
        self._version: ClusterVersion | None = None
        self._totals: dict[int, NominatedTotals] = {}  # by the least priority that counts
        self._forget(_BUILT_IN)

    def totals(self, pod: Pod, table: NodeTable) -> NominatedTotals:
        """Return the sums per node of nominated pods of at least the pod's priority.

        The pod's own nomination is not counted.
        """
        self._catch_up(table)
        priority = pod_priority(pod)
        totals = self._totals.get(priority)
        if totals is None:
            totals = self._totals[priority] = self._add_up(priority)
        own = self._entry_of.get(pod.metadata.uid)
        if own is None or self._priority[own] < priority or self._row[own] < 0:
            return totals
        return self._without(totals, own)

    def by_node(self, table: NodeTable) -> Mapping[str, Collection[PodInfo]]:
        """Return the nominated pods of each node, whatever their priority."""
        self._catch_up(table)
        return self._pods

    def _add_up(self, priority: int) -> NominatedTotals:
        entries = np.flatnonzero((self._priority >= priority) & (self._row >= 0))
        entries = entries[np.argsort(self._row[entries], kind="stable")]
        rows = self._row[entries]
        is_first = np.ones(len(rows), dtype=bool)
        np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
        firsts = is_first.nonzero()[0]
        amounts = self._amounts[:, entries]
        if len(firsts) == len(rows):  # the usual case: one nominated pod per node
            return NominatedTotals(rows, amounts, np.ones(len(rows), dtype=np.int64))
        requested = np.add.reduceat(amounts, firsts, axis=1)
        pod_count = np.diff(firsts, append=len(rows))
        return NominatedTotals(rows[firsts], requested, pod_count)

    def _without(self, totals: NominatedTotals, entry: int) -> NominatedTotals:
        place = int(np.searchsorted(totals.rows, self._row[entry]))
        if totals.pod_count[place] == 1:
            return NominatedTotals(
                np.delete(totals.rows, place),
                np.delete(totals.requested, place, axis=1),
                np.delete(totals.pod_count, place),
            )
        requested, pod_count = totals.requested.copy(), totals.pod_count.copy()
        requested[:, place] -= self._amounts[:, entry]
        pod_count[place] -= 1
        return NominatedTotals(totals.rows, requested, pod_count)

    def _forget(self, resources: int) -> None:
        self._entries: dict[str, list[tuple[str, int]]] = {}  # by node: uid and entry
        self._pods: dict[str, Collection[PodInfo]] = {}  # by node
        self._entry_of: dict[str, int] = {}  # by uid
        self._free = list(range(_FIRST_CAPACITY))
        self._node: list[str] = [""] * _FIRST_CAPACITY
        self._priority = np.full(_FIRST_CAPACITY, _FREE, dtype=np.int64)
        self._row = np.full(_FIRST_CAPACITY, -1, dtype=np.intp)  # -1: there is no such node
        self._amounts = np.zeros((resources, _FIRST_CAPACITY), dtype=np.int64)

    def _catch_up(self, table: NodeTable) -> None:
        nominator = self._find_nominator()
        before, now = self._version, self._version_of_cluster()
        self._version = now
        changed: Collection[str] | None = None
        if before is not None and len(table.requested) == len(self._amounts):
            changed = nominator.changes_since(before.nominations)
        if changed is None:
            self._forget(len(table.requested))
            changed = nominator.nominated_nodes()
            self._totals.clear()
        if before is None or before.membership != now.membership:
            self._row[:] = [table.row_of.get(name, -1) for name in self._node]
            self._totals.clear()
        for name in changed:
            if name:
                self._replace(name, nominator.nominated_pods(name), table)

    def _replace(self, node_name: str, pods: Collection[PodInfo], table: NodeTable) -> None:
        self._totals.clear()
        for uid, entry in self._entries.pop(node_name, ()):
            self._priority[entry] = _FREE
            self._node[entry] = ""
            self._row[entry] = -1
            self._free.append(entry)
            # A pod whose nomination moved may have an entry for its new node already.
            if self._entry_of.get(uid) == entry:
                del self._entry_of[uid]
        self._pods.pop(node_name, None)
        if pods:
            self._pods[node_name] = pods
        for pod_info in pods:
            entry = self._take_entry()
            self._entries.setdefault(node_name, []).append((pod_info.uid, entry))
            self._entry_of[pod_info.uid] = entry
            self._node[entry] = node_name
            self._row[entry] = table.row_of.get(node_name, -1)
            self._priority[entry] = pod_priority(pod_info.pod)
            self._write_amounts(entry, pod_info, table)

    def _write_amounts(self, entry: int, pod_info: PodInfo, table: NodeTable) -> None:
        amounts, wanted = self._amounts, pod_info.requested
        amounts[:, entry] = 0
        amounts[CPU, entry] = wanted.milli_cpu
        amounts[MEMORY, entry] = wanted.memory
        amounts[EPHEMERAL_STORAGE, entry] = wanted.ephemeral_storage
        for name, amount in wanted.scalar.items():
            place = table.resource_column(name)
            # No node offers a resource without a column, so it needs no room anywhere.
            if 0 <= place < len(amounts):
                amounts[place, entry] = amount

    def _take_entry(self) -> int:
        if not self._free:
            size = len(self._priority)
            self._free = list(range(size, 2 * size))
            self._node += [""] * size
            self._priority = np.pad(self._priority, (0, size), constant_values=_FREE)
            self._row = np.pad(self._row, (0, size), constant_values=-1)
            self._amounts = np.pad(self._amounts, ((0, 0), (0, size)))
        return self._free.pop()
