"""A cache of dry-run results by row, for the next preemptor of the same kind.

Often many similar pods preempt one after another, and little changes between two of them: some
pods terminate, some nominations are added. Only the rows that changed need another dry run.
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

__all__ = ["CachedDryRuns", "DryRunCache"]

_MOST_KINDS: Final = 8  # each takes some 200 bytes per row


class CachedDryRuns:
    """Dry-run results for preemptors of one kind: the candidate rows and their victims' costs."""

    def __init__(self, columns: PodColumns, version: ClusterVersion) -> None:
        self._columns = columns
        self._restarts = columns.restarts
        self._version = version
        table = columns.table
        # bool[row]: the result is cached and up to date, and there is a candidate.
        self.is_cached = np.zeros(table.capacity, dtype=bool)
        self.is_candidate = np.zeros(table.capacity, dtype=bool)
        self._sources: list[tuple[PreemptionCandidates, int] | None] = [None] * table.capacity
        self.costs = np.zeros((COSTS, table.capacity), dtype=np.int64)

    def matches(self, columns: PodColumns) -> bool:
        """Whether the columns are those that the results were computed from."""
        is_same = columns is self._columns and columns.restarts == self._restarts
        return is_same and len(self.is_cached) == columns.table.capacity

    def candidate(self, row: int) -> PreemptionCandidate:
        """Return the victims on a row that is a candidate."""
        source = self._sources[row]
        assert source is not None, "a candidate is stored with its costs"
        candidates, number = source
        return candidates[number]

    def invalidate_changed(self, handle: Handle) -> None:
        """Invalidate the rows that changed since the last call."""
        before, now, table = self._version, handle.dry_run.version, self._columns.table
        changed = table.changes.since(before.rows)
        replaced = table.pod_changes.since(before.pods)
        nominated = handle.nominator.changes_since(before.nominations)
        if changed is None or replaced is None or nominated is None:
            self.is_cached[:] = False
        else:
            self.is_cached[changed] = False
            self.is_cached[replaced] = False
            self.is_cached[table.rows_of(nominated)] = False
        self._version = now

    def store(
        self, rows: NDArray[np.intp], places: NDArray[np.intp], candidates: PreemptionCandidates
    ) -> None:
        """Store the results of these rows; the candidates are `rows[places]`."""
        self.is_cached[rows] = True
        self.is_candidate[rows] = False
        found = rows[places]
        self.is_candidate[found] = True
        self.costs[:, found] = candidates.costs
        for number, row in enumerate(found.tolist()):
            self._sources[row] = candidates, number


class DryRunCache:
    """Dry-run results for the most recent kinds of preemptors."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._kinds: OrderedDict[Hashable, CachedDryRuns] = OrderedDict()

    def entry_of(
        self, state: CycleState, preemptor: PodInfo, columns: PodColumns
    ) -> CachedDryRuns | None:
        """Return the entry for pods of this kind, up to date.

        The result is None if the pod is not cached.
        """
        handle = self._handle
        key = handle.dry_run.cache_key(state)
        if key is None or not handle.dry_run.reads_totals_only(state):
            return None
        if handle.nominator.node_of(preemptor.uid):
            # other pods of this kind fit there without evictions, so it is no candidate
            return None
        kind = key, pod_priority(preemptor.pod)
        entry = self._kinds.get(kind)
        if entry is None or not entry.matches(columns):
            entry = self._kinds[kind] = CachedDryRuns(columns, handle.dry_run.version)
        entry.invalidate_changed(handle)
        self._kinds.move_to_end(kind)
        while len(self._kinds) > _MOST_KINDS:
            self._kinds.popitem(last=False)
        return entry
