"""The cached search: the same decision as the full search, with as few calls as possible.

The profile's answer cache (`runtime/answer_cache.py`) stores verdicts and scores of earlier
attempts, so plugins are called only about nodes that changed since the last pod with the same key.
Filters that are not cacheable are often called only about the best nodes. `FullSearch` defines the
result; it also runs where the best node cannot be found in the cache.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    Code,
    CycleState,
    Diagnosis,
    FitError,
    NodeView,
    Plugin,
    PodInfo,
)
from kubesched.framework.engine.total_index import TotalIndex
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.cached_answers import CachedAnswers
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import first_rejection
from kubesched.scheduler.runtime.search_outcomes import (
    DeferredRejections,
    PreFilterOutcome,
    Scores,
)
from kubesched.scheduler.search.cached_evaluation import CachedEvaluation, total_scores
from kubesched.scheduler.search.full_search import FullSearch
from kubesched.scheduler.search.nominated_filter import nominated_totals
from kubesched.scheduler.search.schedule_result import Ranking, ScheduleResult, ranking
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["CachedSearch"]

_SUCCESS = Code.SUCCESS  # an attribute of an enum takes longer to look up than to compare
_FEWEST_TO_SCORE: Final = 2  # a single feasible node is chosen without being scored
_NO_REJECTIONS: Final = DeferredRejections()  # stays empty
_TRIES: Final = 32  # number of nodes that are filtered one by one before all are filtered at once


class _Filtered(msgspec.Struct, frozen=True, eq=False):
    """The nodes that pass all filters: by verdicts in the cache, and by calls of other filters."""

    nodes: NodeView  # all nodes
    entry: CachedAnswers
    # The filters that are not cached and do not skip the pod.
    filters: Sequence[Plugin]
    # Rows that pass and are missing in the entry's index until they are scored; None: no index.
    missing: list[int] | None
    feasible: NodeView  # with an index, computed when it is read
    rejections: DeferredRejections  # by `filters`; complete once `feasible` is computed
    is_scored: bool  # there may be several feasible nodes


class _Best(msgspec.Struct, frozen=True, eq=False):
    """The best row, and a function that returns some of the best nodes."""

    row: int
    rank: Callable[[int], Ranking]


class CachedSearch:
    """Chooses a node for one pod at a time, in the current snapshot."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        rng: random.Random,
        percentage: int | None = None,
        *,
        extenders_choose: bool = False,
    ) -> None:
        """Arguments are those of `FullSearch`."""
        self._snapshot = snapshot
        self._evaluation = CachedEvaluation(snapshot)
        self._full = FullSearch(
            snapshot,
            rng,
            percentage,
            extenders_choose=extenders_choose,
            evaluation=self._evaluation,
        )
        # The steps of the search, for callers that run them one by one.
        self.sampling = self._full.sampling
        self.filtering = self._full.filtering
        self.scoring = self._full.scoring

    def use_percentage(self, percentage: int) -> None:
        """Search other shares of the nodes from now on; 0 means all nodes."""
        self.sampling.percentage = percentage

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node for the pod.

        Raises:
            NoNodesError: there is no node.
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        attempt = SearchAttempt(framework, state, pod_info)
        outcome = self.filtering.pre_filter(attempt)
        if self._is_for_cache(attempt, outcome):
            result = self._search_cache(attempt)
            if result is not None:
                return result
        return self._full.search(attempt, outcome)

    def _is_for_cache(self, attempt: SearchAttempt, outcome: PreFilterOutcome) -> bool:
        """Whether every node is a candidate, and no room must be left for nominated pods."""
        framework, count = attempt.framework, len(self._snapshot.table.row_of)
        return (
            outcome.status is SUCCESS
            and outcome.only_nodes is None
            and self._snapshot.placement is None
            and not attempt.state.asks_every_node
            and not attempt.pod_info.pod.status.nominated_node_name
            and self.sampling.nodes_to_find(framework, count) >= count
            and not (framework.nominator.nominated_nodes() and len(nominated_totals(attempt).rows))
        )

    def _search_cache(self, attempt: SearchAttempt) -> ScheduleResult | None:
        """Choose a node by the answers in the cache; None if a full search has to run.

        Raises:
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod_info.pod
        metrics = framework.point_metrics
        started_ns = metrics.now_ns()
        filtered = self._filter(attempt)
        if filtered is None:
            metrics.observe_hint(False, metrics.now_ns() - started_ns)
            return None
        if not filtered.is_scored:
            metrics.observe_hint(False, metrics.now_ns() - started_ns)
            metrics.observe("Filter", _SUCCESS, started_ns)
            return self._without_scores(filtered)
        pre_score_ns = metrics.observe("Filter", _SUCCESS, started_ns)
        try:
            framework.run_pre_score(state, attempt.pod_info, filtered.feasible)
            score_ns = metrics.observe("PreScore", _SUCCESS, pre_score_ns)
            framework.answer_cache.refresh_scores(
                filtered.entry, state, pod, filtered.nodes, filtered.missing
            )
            best = self._best(attempt, filtered)
        except PluginError:
            if not filtered.filters:
                raise
            # The plugin may have failed on a node that the full search does not score.
            metrics.observe_hint(False, metrics.now_ns() - started_ns)
            state.skip_score.clear()
            return None
        if best is None:
            metrics.observe_hint(False, metrics.now_ns() - started_ns)
            return self._without_scores(filtered)
        chosen_ns = metrics.observe("Score", _SUCCESS, score_ns)
        metrics.observe_hint(filtered.missing is not None, chosen_ns - started_ns)
        return self._result(attempt, filtered, best)

    def _filter(self, attempt: SearchAttempt) -> _Filtered | None:
        """Filter all nodes; None if the pod is not cached."""
        framework, state, pod = attempt.framework, attempt.state, attempt.pod_info.pod
        nodes, cache = self._snapshot.nodes, framework.answer_cache
        entry = cache.entry_of(state, pod, nodes)
        if entry is None:
            return None
        missing = cache.refresh_verdicts(entry, state, pod, nodes)
        filters = cache.uncached_filters_of(state)
        rejections = DeferredRejections() if filters else _NO_REJECTIONS
        if entry.index is None or missing is None:
            passing = entry.passing(nodes)
            feasible = framework.filter_by(filters, state, pod, passing, rejections)
            most_feasible = len(feasible)
        else:
            feasible = nodes.deferred(
                lambda: (
                    framework.filter_by(
                        filters, state, pod, entry.passing(nodes), rejections
                    ).selection
                )
            )
            most_feasible = len(entry.index) + len(missing)
        is_scored = most_feasible >= _FEWEST_TO_SCORE
        return _Filtered(nodes, entry, filters, missing, feasible, rejections, is_scored)

    def _best(self, attempt: SearchAttempt, filtered: _Filtered) -> _Best | None:
        """Return the best of the feasible nodes; None if no node fits.

        Computes the feasible nodes only if the index cannot give the best one.
        """
        framework, state = attempt.framework, attempt.state
        ties = framework.own_ties or self.scoring.random_ties
        entry, nodes, feasible = filtered.entry, filtered.nodes, filtered.feasible
        is_summed = framework.answer_cache.is_summed(state, attempt.pod_info.pod, nodes)
        if is_summed and entry.index is not None:
            index = entry.index

            def rank(count: int) -> Ranking:
                return _ranked(index, attempt, filtered, count)

            if not filtered.filters:
                return _Best(ties.best_in(index, nodes.table), rank)
            accepts = _acceptance(attempt, filtered)
            row = ties.best_accepted(index, nodes.table, accepts, _TRIES)
            if row is not None:
                return _Best(row, rank)
        if not len(feasible):
            return None
        if is_summed:
            total: NDArray[np.signedinteger] = feasible.at(entry.total)
        else:
            total = total_scores(attempt, entry, feasible)
        row = feasible.row(ties.best_of(total, feasible))
        return _Best(row, lambda count: ranking(total, feasible, count))

    def _result(self, attempt: SearchAttempt, filtered: _Filtered, best: _Best) -> ScheduleResult:
        nodes, feasible = filtered.nodes, filtered.feasible

        def diagnose() -> Diagnosis:
            diagnosis = Diagnosis(nodes.table.names)
            self._evaluation.filter(attempt, nodes, diagnosis)
            return diagnosis

        def score() -> Scores | None:
            return None if len(feasible) == 1 else self._evaluation.score(attempt, feasible)

        name = nodes.info_at(best.row).name
        return ScheduleResult(name, feasible, len(nodes), score, diagnose, best.rank)

    def _without_scores(self, filtered: _Filtered) -> ScheduleResult:
        """Return the result for a pod that fits at most one node.

        Raises:
            FitError: the pod fits no node.
        """
        nodes, feasible = filtered.nodes, filtered.feasible
        count = len(feasible)  # first of all, because it completes the rejections
        diagnosis = Diagnosis(nodes.table.names)
        filtered.entry.record_rejections(nodes, diagnosis)
        filtered.rejections.add_to(diagnosis)
        if not count:
            raise FitError(len(nodes), diagnosis)
        name = feasible.info(0).name
        return ScheduleResult(name, feasible, len(nodes), lambda: None, lambda: diagnosis)


def _ranked(index: TotalIndex, attempt: SearchAttempt, filtered: _Filtered, count: int) -> Ranking:
    """Return some of the best rows of the index that the uncached filters accept."""
    nodes, filters = filtered.nodes, filtered.filters
    names = nodes.table.names
    if not filters:
        return [(names[row], total) for row, total in index.top(count)]
    fitting = (
        (names[row], total)
        for row, total in index.top(_TRIES)
        if first_rejection(filters, attempt.state, attempt.pod, nodes.info_at(row)) is None
    )
    return list(itertools.islice(fitting, count))


def _acceptance(attempt: SearchAttempt, filtered: _Filtered) -> Callable[[int], bool]:
    """Return a predicate: whether the uncached filters accept the node in a row."""
    state, pod = attempt.state, attempt.pod_info.pod
    filters, nodes = filtered.filters, filtered.nodes
    metrics = attempt.framework.point_metrics

    def accepts(row: int) -> bool:
        rejection = first_rejection(filters, state, pod, nodes.info_at(row))
        metrics.count_filtered(filters, rejection)
        return rejection is None

    return accepts
