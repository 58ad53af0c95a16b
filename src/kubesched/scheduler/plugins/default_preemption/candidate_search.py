"""The search for nodes on which evictions make room.

docs/reference/06 §3.5. The search evaluates many nodes at a time by totals. It runs the filters
node by node only where a filter reads single pods and one of the pods to evict matters to it.
Before that, filters that read totals rule out the nodes that are too small even without victims.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.pod_facts import pod_priority
from kubesched.errors import PluginError
from kubesched.framework import (
    Code,
    CycleState,
    Diagnosis,
    Handle,
    NodeInfo,
    PodInfo,
    Rejections,
    Status,
)
from kubesched.scheduler.plugins.default_preemption.dry_run_cache import CachedDryRuns
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import DisruptionBudgets
from kubesched.scheduler.plugins.default_preemption.pod_columns import NOT_STARTED, PodColumns
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import (
    NEGATED_START,
    VIOLATIONS,
    PreemptionCandidate,
    PreemptionCandidates,
)
from kubesched.scheduler.plugins.default_preemption.totals import TotalsDryRun
from kubesched.scheduler.plugins.default_preemption.victim_selection import (
    NO_VICTIMS,
    select_victims,
)

__all__ = ["CandidateSearch", "CandidateSearchResult", "calculate_num_candidates"]

_MIN_CHUNK = 256
_MAX_CHUNK = 2048
_FEW = 3  # up to this many nodes, evaluating them one by one is faster


def calculate_num_candidates(nodes: int, percentage: int, absolute: int) -> int:
    """Return how many candidates are enough among this many potential nodes."""
    return min(max(nodes * percentage // 100, absolute), nodes)


class CandidateSearchResult(NamedTuple):
    """The candidates, and the reasons why the other nodes are not candidates."""

    candidates: PreemptionCandidates
    diagnosis: Diagnosis
    errors: tuple[BaseException, ...]


class CandidateSearch:
    """Searches the nodes for one preemptor."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        preemptor: PodInfo,
        columns: PodColumns,
        budgets: DisruptionBudgets,
        cached: CachedDryRuns | None = None,
    ) -> None:
        """`cached` has the results of dry runs for pods of the preemptor's kind."""
        self._handle = handle
        self._state = state
        self._preemptor = preemptor
        # Budgets change with every eviction, which would invalidate every cached result.
        self._cached = None if budgets else cached
        self._priority = pod_priority(preemptor.pod)
        self._budgets = budgets
        self._now_ns = handle.clock.now_ns()
        self._columns = columns
        self._totals = TotalsDryRun(handle, state, preemptor, columns, budgets, self._now_ns)
        self._reads_totals_only = handle.dry_run.reads_totals_only(state)
        self._is_ignored = handle.dry_run.ignored_pods(state, preemptor.pod)
        # Whether totals were enough for all nodes so far.
        self._uses_totals = self._is_ignored is not None
        self._diagnosis = Diagnosis(handle.snapshot.nodes.table.names)
        self._errors: list[BaseException] = []
        if budgets:
            columns.track_labels()

    def search(self, rows: NDArray[np.intp], wanted: int) -> CandidateSearchResult:
        """Evaluate the rows in order until at least `wanted` candidates are found.

        If any row is a candidate that violates no budget, the result contains one.
        """
        rows = self._with_victims(rows)
        if self._cached is not None:
            candidates = self._search_cached(self._cached, rows, wanted)
            # Without candidates, the diagnosis needs the full search.
            if len(candidates):
                return CandidateSearchResult(candidates, self._diagnosis, ())
        found = _CandidateCollector(wanted)
        start, least = 0, 1
        while start < len(rows) and not found.is_enough:
            size = max(found.missing, 1)
            if self._uses_totals:
                # A larger chunk costs little, another chunk costs much.
                size = min(max(size + size // 4, least), _MAX_CHUNK)
                least = max(_MIN_CHUNK, 2 * least)
            found.add(self._dry_run(rows[start : start + size]))
            start += size
        return CandidateSearchResult(found.candidates(), self._diagnosis, tuple(self._errors))

    def _with_victims(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows with pods of lower priority; record why the others fail.

        If all pods have the same priority, the result is empty and the search ends here.
        """
        self._columns.refresh(self._handle.snapshot.nodes, rows)
        has_victims = self._columns.has_pods_below(rows, self._priority)
        without = rows[~has_victims]
        if not len(without):
            return rows
        self._record_rejections(
            without, Rejections(np.ones(len(without), dtype=np.uint8), (NO_VICTIMS,))
        )
        return rows[has_victims]

    def _search_cached(
        self, cached: CachedDryRuns, rows: NDArray[np.intp], wanted: int
    ) -> PreemptionCandidates:
        """Return the first `wanted` candidates; none if some row cannot be cached."""
        found: list[NDArray[np.intp]] = []
        start, missing = 0, wanted
        while start < len(rows) and missing > 0:
            size = min(max(missing + missing // 4, _MIN_CHUNK), _MAX_CHUNK)
            chunk = rows[start : start + size]
            start += size
            new = chunk[~cached.is_cached[chunk]]
            if len(new) and not self._fill_cache(cached, new):
                return PreemptionCandidates.of((), self._now_ns)
            found.append(chunk[cached.is_candidate[chunk]][:missing])
            missing -= len(found[-1])
        chosen = np.concatenate(found) if found else rows[:0]
        costs = cached.costs[:, chosen]
        started = costs[NEGATED_START]
        started[started == -NOT_STARTED] = -self._now_ns

        return PreemptionCandidates(costs, lambda number: cached.candidate(int(chosen[number])))

    def _fill_cache(self, cached: CachedDryRuns, rows: NDArray[np.intp]) -> bool:
        """Fill the cache for these rows; False if totals cannot decide one of them."""
        if not self._is_decided_by_totals(rows).all():
            return False
        try:
            if len(rows) > _FEW:
                candidates, places, _ = self._totals.dry_run(rows, now_ns=NOT_STARTED)
            else:
                candidates, places = self._select(rows)
        except PluginError:
            return False
        cached.store(rows, places, candidates)
        return True

    def _select(self, rows: NDArray[np.intp]) -> tuple[PreemptionCandidates, NDArray[np.intp]]:
        """Evaluate a few rows one by one, which is faster than by totals."""
        found: list[PreemptionCandidate] = []
        places: list[int] = []
        for place, node in enumerate(self._handle.snapshot.nodes.at_rows(rows)):
            answer = select_victims(
                self._handle, self._state, self._preemptor, node, self._budgets, NOT_STARTED
            )
            if isinstance(answer, PreemptionCandidate):
                found.append(answer)
                places.append(place)
        return PreemptionCandidates.of(found, NOT_STARTED), np.array(places, dtype=np.intp)

    def _dry_run(self, rows: NDArray[np.intp]) -> PreemptionCandidates:
        """Return the candidates among the rows, in their order."""
        by_totals = self._is_decided_by_totals(rows)
        self._uses_totals = self._uses_totals and bool(by_totals.all())
        together, one_by_one = np.flatnonzero(by_totals), np.flatnonzero(~by_totals)
        candidates, places = self._dry_run_by_totals(rows[together])
        if not len(one_by_one):
            return candidates
        others, other_places = self._dry_run_one_by_one(rows[one_by_one])
        joined = PreemptionCandidates.joined(
            [(part, np.arange(len(part))) for part in (candidates, others)],
        )
        order = np.argsort(np.concatenate([together[places], one_by_one[other_places]]))
        return joined.reordered(order)

    def _is_decided_by_totals(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Per row, whether every filter ignores its possible victims and nominated pods."""
        nodes = self._handle.snapshot.nodes
        self._columns.refresh(nodes, rows)
        if self._is_ignored is None or self._columns.latest_start_ns > self._now_ns:
            # Columns would sort a pod wrongly whose start time is in the future.
            return np.zeros(len(rows), dtype=bool)
        if self._reads_totals_only:
            return np.ones(len(rows), dtype=bool)
        return np.fromiter(
            (
                all(map(self._is_ignored, self._victims_and_nominated(node)))
                for node in nodes.at_rows(rows)
            ),
            dtype=bool,
            count=len(rows),
        )

    def _victims_and_nominated(self, node: NodeInfo) -> Iterator[PodInfo]:
        for other in node.pods:
            if pod_priority(other.pod) < self._priority:
                yield other
        yield from self._handle.nominator.nominated_pods(node.name)

    def _dry_run_by_totals(
        self, rows: NDArray[np.intp]
    ) -> tuple[PreemptionCandidates, NDArray[np.intp]]:
        """Return the candidates, and their positions among the rows."""
        if not len(rows):
            return PreemptionCandidates.of((), self._now_ns), rows
        try:
            candidates, places, verdicts = self._totals.dry_run(
                rows, in_full=not self._reads_totals_only
            )
        except PluginError:
            # Evaluating one node at a time finds the node for which the plugin fails.
            self._is_ignored, self._uses_totals = None, False
            return self._dry_run_one_by_one(rows)
        self._record_rejections(rows, verdicts)
        return candidates, places

    def _dry_run_one_by_one(
        self, rows: NDArray[np.intp]
    ) -> tuple[PreemptionCandidates, NDArray[np.intp]]:
        """Return the candidates and their positions; totals rule out many rows first."""
        found: list[PreemptionCandidate] = []
        places: list[int] = []
        left = self._screen(rows)
        nodes = self._handle.snapshot.nodes.at_rows(rows[left])
        for place, node in zip(left.tolist(), nodes, strict=True):
            answer = select_victims(
                self._handle, self._state, self._preemptor, node, self._budgets, self._now_ns
            )
            if isinstance(answer, PreemptionCandidate):
                found.append(answer)
                places.append(place)
                continue
            self._diagnosis.add_node_status(node.name, answer)
            self._record_error(answer)
        return PreemptionCandidates.of(found, self._now_ns), np.array(places, dtype=np.intp)

    def _screen(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions of the rows that totals do not rule out."""
        everywhere = np.arange(len(rows))
        try:
            verdicts = self._totals.screen(self._totals.emptied(rows))
        except PluginError:
            return everywhere
        if verdicts.codes is None:
            return everywhere
        self._record_rejections(rows, verdicts)
        return np.flatnonzero(verdicts.codes == 0)

    def _record_rejections(self, rows: NDArray[np.intp], verdicts: Rejections) -> None:
        codes = verdicts.codes
        if codes is None or not codes.any():
            return
        rejected = codes != 0
        self._diagnosis.add_verdicts(rows[rejected], codes[rejected], verdicts.statuses)
        for number, status in enumerate(verdicts.statuses, start=1):
            if status.code is Code.ERROR and (codes == number).any():
                self._record_error(status)

    def _record_error(self, status: Status) -> None:
        if status.code is Code.ERROR:
            error = status.as_error()
            assert error is not None
            self._errors.append(error)


class _CandidateCollector:
    """Collects candidates: those that violate no budget, and the others."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._harmless: list[tuple[PreemptionCandidates, NDArray[np.intp]]] = []
        self._violating: list[tuple[PreemptionCandidates, NDArray[np.intp]]] = []
        self._harmless_count = 0
        self._violating_count = 0

    @property
    def missing(self) -> int:
        return self._wanted - self._harmless_count - self._violating_count

    @property
    def is_enough(self) -> bool:
        return self._harmless_count > 0 and self.missing <= 0

    def add(self, candidates: PreemptionCandidates) -> None:
        """Add candidates, in order, until there are enough; each list has its limit."""
        violates = candidates.costs[VIOLATIONS] > 0
        harmless = self._harmless_count + np.cumsum(~violates)
        violating = np.minimum(self._violating_count + np.cumsum(violates), self._wanted)
        enough = np.flatnonzero((harmless > 0) & (harmless + violating >= self._wanted))
        end = int(enough[0]) + 1 if len(enough) else len(candidates)
        kept = np.flatnonzero(~violates[:end])
        room = self._wanted - self._violating_count
        doubtful = np.flatnonzero(violates[:end])[:room]
        self._harmless.append((candidates, kept))
        self._violating.append((candidates, doubtful))
        self._harmless_count += len(kept)
        self._violating_count += len(doubtful)

    def candidates(self) -> PreemptionCandidates:
        return PreemptionCandidates.joined([*self._harmless, *self._violating])
