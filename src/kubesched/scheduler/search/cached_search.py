"""The same search, with answers from the cache: what usually places a pod.

`FullSearch` defines the result. Here verdicts and scores come from the profile's answer cache
(`runtime/answer_cache.py`), and plugins are called only about nodes that changed since the last pod
that looked the same to them. Plugins whose answers are not cached are called as ever, filters often
only about the best nodes. Where the cache cannot answer, the full search does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    ClusterVersion,
    Code,
    CycleState,
    Diagnosis,
    NodeView,
    Plugin,
    PodInfo,
)
from kubesched.framework.engine.total_index import TotalIndex
from kubesched.scheduler.runtime.cached_answers import CachedAnswers
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import first_rejection
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome, Scores
from kubesched.scheduler.search.full_search import FullSearch
from kubesched.scheduler.search.schedule_result import Ranking, ScheduleResult, ranking

__all__ = ["CachedSearch"]

_SUCCESS = Code.SUCCESS  # found once: looking for it takes longer than comparing with it
_FEWEST_TO_SCORE = 2  # a single node is taken without being scored
_TRIES = 32  # so many nodes are filtered one by one before all are at once


class _Choice(msgspec.Struct, frozen=True, eq=False):
    """A node that was found with plugins called about no more nodes than changed."""

    row: int
    is_from_index: bool  # it was the next best, and the others were not looked at
    feasible: NodeView  # the nodes that fit, worked out when someone looks
    rank: Callable[[int], Ranking]  # some of the best of them
    chosen_ns: int  # of the metrics' clock


class _Best(msgspec.Struct, frozen=True, eq=False):
    """The best row, and how to find others that are nearly as good."""

    row: int
    rank: Callable[[int], Ranking]


class CachedSearch(FullSearch):
    """Comes to the result of the full search, with as few calls of plugins as possible."""

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        outcome = self.pre_filter(framework, state, pod_info)
        result = self._from_cache(framework, state, pod_info, outcome)
        return result or self.search(framework, state, pod_info, outcome)

    def run_filter(
        self,
        framework: Framework,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        diagnosis: Diagnosis,
    ) -> NodeView:
        cache = framework.answer_cache
        entry = cache.entry_of(state, pod, nodes) if nodes.is_whole else None
        if entry is None:
            return super().run_filter(framework, state, pod, nodes, diagnosis)
        left = cache.filter(entry, state, pod, nodes, diagnosis)
        return framework.filter_by(cache.uncached_filters, state, pod, left, diagnosis)

    def run_score(
        self, framework: Framework, state: CycleState, pod: Pod, nodes: NodeView
    ) -> Scores:
        cache, entry = framework.answer_cache, state.cached_answers
        if not isinstance(entry, CachedAnswers) or not cache.is_fresh(entry, state):
            return super().run_score(framework, state, pod, nodes)
        try:
            cache.refresh_scores(entry, state, pod, nodes.whole, None)
        except PluginError:
            # Perhaps about a node that other filters rejected, which is not to be scored.
            return super().run_score(framework, state, pod, nodes)
        total = _total(framework, entry, state, pod, nodes)
        return Scores(total, lambda: framework.score_by_plugin(state, pod, nodes))

    def may_have_changed(
        self, framework: Framework, state: CycleState, since: ClusterVersion
    ) -> NodeView:
        nodes = self._snapshot.nodes
        changed = framework.answer_cache.rows_changed_since(state, since)
        return nodes if changed is None else nodes.at_rows(changed)

    def _from_cache(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        outcome: PreFilterOutcome,
    ) -> ScheduleResult | None:
        """The result if the best of all nodes is found in the cache; None: not from cache."""
        nodes = self._snapshot.nodes
        count = len(nodes)
        if (
            outcome.status is not SUCCESS
            or outcome.only_nodes is not None
            or state.asks_every_node
            or pod_info.pod.status.nominated_node_name
            or self._nodes_wanted(framework, count) < count
            or (
                framework.nominator.nominated_nodes()
                and len(self._nominated(framework, pod_info).rows)
            )
        ):
            return None
        metrics = framework.point_metrics
        started_ns = metrics.now_ns()
        choice = self._choose(framework, state, pod_info, nodes, started_ns)
        if choice is None:
            metrics.observe_hint(False, metrics.now_ns() - started_ns)
            return None
        metrics.observe_hint(choice.is_from_index, choice.chosen_ns - started_ns)

        def diagnose() -> Diagnosis:
            diagnosis = Diagnosis(self._snapshot.table.names)
            self.run_filter(framework, state, pod_info.pod, nodes, diagnosis)
            return diagnosis

        def score() -> Scores | None:
            if len(choice.feasible) == 1:
                return None
            return self.run_score(framework, state, pod_info.pod, choice.feasible)

        return ScheduleResult(
            nodes.info_at(choice.row).name,
            choice.feasible,
            count,
            score,
            diagnose,
            choice.rank,
        )

    def _choose(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        nodes: NodeView,
        filter_ns: int,
    ) -> _Choice | None:
        """The best of all nodes. None: the pod is not cached, or hardly a node fits."""
        pod, metrics, cache = pod_info.pod, framework.point_metrics, framework.answer_cache
        entry = cache.entry_of(state, pod, nodes)
        if entry is None:
            return None
        missing = cache.refresh_verdicts(entry, state, pod, nodes)
        others = cache.filters_to_ask(state)
        if entry.index is None or missing is None:
            feasible = framework.filter_by(others, state, pod, entry.passing(nodes), None)
            fitting = len(feasible)
        else:
            feasible = nodes.deferred(
                lambda: (
                    framework.filter_by(others, state, pod, entry.passing(nodes), None).selection
                )
            )
            fitting = len(entry.index) + len(missing)
        if fitting < _FEWEST_TO_SCORE:
            return None
        pre_score_ns = metrics.observe("Filter", _SUCCESS, filter_ns)
        best: _Best | None = None
        try:
            framework.run_pre_score(state, pod_info, feasible)
            score_ns = metrics.observe("PreScore", _SUCCESS, pre_score_ns)
            cache.refresh_scores(entry, state, pod, nodes, missing)
            best = self._best_row(framework, entry, state, pod, nodes, feasible, others)
        except PluginError:
            # Perhaps about nodes, or a lack of them, that a full search does not come to.
            if not others:
                raise
        if best is None:
            state.skip_score.clear()
            return None
        chosen_ns = metrics.observe("Score", _SUCCESS, score_ns)
        return _Choice(best.row, missing is not None, feasible, best.rank, chosen_ns)

    def _best_row(
        self,
        framework: Framework,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        whole: NodeView,
        feasible: NodeView,
        other_filters: Sequence[Plugin],
    ) -> _Best | None:
        """The best of the feasible nodes by scores that are up to date; None: there is none.

        Looks at all of them only if something else than the cached sum tells them apart.
        """
        ties = self._ties_of(framework)
        is_summed = framework.answer_cache.is_summed(state, pod, whole)
        if is_summed and entry.index is not None:
            index = entry.index

            def rank(count: int) -> Ranking:
                return _ranked(index, whole, count, other_filters, state, pod)

            if not other_filters:
                return _Best(ties.best_in(index, whole.table), rank)
            accepts = _acceptance(framework, other_filters, state, pod, whole)
            row = ties.best_accepted(index, whole.table, accepts, _TRIES)
            if row is not None:
                return _Best(row, rank)
        if not len(feasible):
            return None
        if is_summed:
            total: NDArray[np.signedinteger] = feasible.at(entry.total)
        else:
            total = _total(framework, entry, state, pod, feasible)
        row = int(feasible.rows[ties.best_of(total, feasible)])
        return _Best(row, lambda count: ranking(total, feasible, count))


def _ranked(
    index: TotalIndex,
    nodes: NodeView,
    count: int,
    filters: Sequence[Plugin],
    state: CycleState,
    pod: Pod,
) -> Ranking:
    """Some of the best rows of an index that the filters let pass."""
    names = nodes.table.names
    if not filters:
        return [(names[row], total) for row, total in index.top(count)]
    fitting = (
        (names[row], total)
        for row, total in index.top(_TRIES)
        if first_rejection(filters, state, pod, nodes.info_at(row)) is None
    )
    return list(itertools.islice(fitting, count))


def _total(
    framework: Framework, entry: CachedAnswers, state: CycleState, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    """The weighted sum of all scores: cached ones, which are up to date, and others."""
    cache, weights = framework.answer_cache, framework.plugins.score_weights
    total = cache.total(entry, state, pod, nodes)
    uneven: list[Plugin] = []
    for plugin in cache.uncached_scores:
        if plugin.name in state.skip_score:
            continue
        uniform = plugin.uniform_score(state, pod, framework.snapshot.nodes)
        if uniform is None:
            uneven.append(plugin)
        elif uniform:
            total += uniform * weights[plugin.name]
    framework.add_scores(total, uneven, state, pod, nodes)
    return total


def _acceptance(
    framework: Framework, plugins: Sequence[Plugin], state: CycleState, pod: Pod, nodes: NodeView
) -> Callable[[int], bool]:
    """Tells whether filters let the node in a row pass."""

    def accepts(row: int) -> bool:
        rejection = first_rejection(plugins, state, pod, nodes.info_at(row))
        framework.point_metrics.count_filtered(plugins, rejection)
        return rejection is None

    return accepts
