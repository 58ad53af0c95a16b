"""What dry runs found out about rows, kept for the next preemptor of the same kind.

Often many pods that are alike have to fight for their places, one after the other, and between
two of them little happens: some pods go, some nominations come. Only the rows that this was
about have to be looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api.pod_facts import pod_priority
from kubesched.framework import ClusterVersion, CycleState, Handle, PodInfo
from kubesched.scheduler.plugins.default_preemption.pod_columns import PodColumns
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import (
    COSTS,
    PreemptionCandidate,
    PreemptionCandidates,
)

__all__ = ["Knowledge", "KnownRows"]

_MOST_KINDS: Final = 8  # each takes some 200 bytes per row


class KnownRows:
    """For preemptors of one kind: which rows were looked at, and what victims there would cost."""

    def __init__(self, columns: PodColumns, version: ClusterVersion) -> None:
        self._columns = columns
        self._restarts = columns.restarts
        self._version = version
        table = columns.table
        self.is_known = np.zeros(table.capacity, dtype=bool)
        self.is_candidate = np.zeros(table.capacity, dtype=bool)
        self._sources: list[tuple[PreemptionCandidates, int] | None] = [None] * table.capacity
        self.costs = np.zeros((COSTS, table.capacity), dtype=np.int64)

    def is_about(self, columns: PodColumns) -> bool:
        """Whether the places in the columns still mean what they meant."""
        is_same = columns is self._columns and columns.restarts == self._restarts
        return is_same and len(self.is_known) == columns.table.capacity

    def candidate(self, row: int) -> PreemptionCandidate:
        """Whom to evict there; the row is a candidate."""
        source = self._sources[row]
        assert source is not None, "candidates are kept with their costs"
        candidates, number = source
        return candidates[number]

    def catch_up(self, handle: Handle) -> None:
        """Forget the rows that something happened to."""
        before, now, table = self._version, handle.dry_run.version, self._columns.table
        changed = table.changes.since(before.rows)
        replaced = table.pod_changes.since(before.pods)
        nominated = handle.nominator.changes_since(before.nominations)
        if changed is None or replaced is None or nominated is None:
            self.is_known[:] = False
        else:
            self.is_known[changed] = False
            self.is_known[replaced] = False
            self.is_known[table.rows_of(nominated)] = False
        self._version = now

    def note(
        self, rows: NDArray[np.intp], places: NDArray[np.intp], candidates: PreemptionCandidates
    ) -> None:
        """These rows were looked at; the candidates are those at `places`."""
        self.is_known[rows] = True
        self.is_candidate[rows] = False
        found = rows[places]
        self.is_candidate[found] = True
        self.costs[:, found] = candidates.costs
        for number, row in enumerate(found.tolist()):
            self._sources[row] = candidates, number


class Knowledge:
    """What is known for the kinds of preemptors that were there last."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._kinds: OrderedDict[Hashable, KnownRows] = OrderedDict()

    def about(self, state: CycleState, preemptor: PodInfo, columns: PodColumns) -> KnownRows | None:
        """What is known for pods like this one and still holds; None: there are none like it."""
        handle = self._handle
        key = handle.dry_run.cache_key(state)
        if key is None or not handle.dry_run.reads_totals_only(state):
            return None
        if handle.nominator.node_of(preemptor.uid):
            return None  # it alone need not leave room for itself there
        kind = key, pod_priority(preemptor.pod)
        known = self._kinds.get(kind)
        if known is None or not known.is_about(columns):
            known = self._kinds[kind] = KnownRows(columns, handle.dry_run.version)
        known.catch_up(handle)
        self._kinds.move_to_end(kind)
        while len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return known
