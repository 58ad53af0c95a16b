"""The plugins' answers, taken from the profile's answer cache where it has them.

The answers are those of `PluginEvaluation`. Plugins are called about nodes that changed since the
last pod with the same key (`runtime/answer_cache.py`), and plugins that are not cacheable about
every node.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import PluginError
from kubesched.framework import Diagnosis, NodeView, Plugin
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.cached_answers import CachedAnswers
from kubesched.scheduler.runtime.search_outcomes import Scores
from kubesched.scheduler.search.node_evaluation import PluginEvaluation
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["CachedEvaluation", "total_scores"]


class CachedEvaluation:
    """A `NodeEvaluation` that answers from the cache, and calls plugins where it cannot."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._plugins = PluginEvaluation()

    def filter(
        self,
        attempt: SearchAttempt,
        nodes: NodeView,
        diagnosis: Diagnosis,
        excluded: NDArray[np.bool_] | None = None,
    ) -> NodeView:
        cache = attempt.framework.answer_cache
        # A group is tried on one placement after another, so the answers about all nodes are used.
        is_cached = nodes.is_whole or nodes is self._snapshot.placement
        entry = cache.entry_of(attempt.state, attempt.pod, nodes) if is_cached else None
        if entry is None:
            return self._plugins.filter(attempt, nodes, diagnosis, excluded)
        if excluded is None:
            return _filter_all(attempt, entry, nodes, diagnosis)
        # An entry is about all nodes, so the excluded ones are dropped from its answers.
        verdicts = Diagnosis(diagnosis.names)
        try:
            feasible = _filter_all(attempt, entry, nodes, verdicts)
        except PluginError:
            # The plugin may have failed on an excluded node.
            return self._plugins.filter(attempt, nodes, diagnosis, excluded)
        diagnosis.merge_except(verdicts, excluded)
        return feasible.subset(~excluded[feasible.rows])

    def score(self, attempt: SearchAttempt, nodes: NodeView) -> Scores:
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        cache, entry = framework.answer_cache, state.cached_answers
        if not isinstance(entry, CachedAnswers) or not cache.is_fresh(entry, state):
            return self._plugins.score(attempt, nodes)
        try:
            is_for_all = self._snapshot.placement is None
            cache.refresh_scores(entry, state, pod, nodes.whole, None, is_for_all=is_for_all)
        except PluginError:
            # The plugin may have failed on a node that other filters rejected.
            return self._plugins.score(attempt, nodes)
        total = total_scores(attempt, entry, nodes)
        return Scores(total, lambda: framework.score_by_plugin(state, pod, nodes))


def _filter_all(
    attempt: SearchAttempt, entry: CachedAnswers, nodes: NodeView, diagnosis: Diagnosis
) -> NodeView:
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    cache = framework.answer_cache
    cache.refresh_verdicts(entry, state, pod, nodes if nodes.is_whole else nodes.whole)
    passing = entry.record_rejections(nodes, diagnosis)
    return framework.filter_by(cache.uncached_filters, state, pod, passing, diagnosis)


def total_scores(
    attempt: SearchAttempt, entry: CachedAnswers, nodes: NodeView
) -> NDArray[np.int64]:
    """Return the weighted sum of all scores. Those in the entry must be up to date."""
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    cache, weights = framework.answer_cache, framework.plugins.score_weights
    skipped, whole = state.skip_score, framework.snapshot.nodes
    uneven: list[Plugin] = []
    uniform = 0
    for plugin in cache.uncached_scores:
        name = plugin.name
        if name in skipped:
            continue
        uniform_score: Any = plugin.uniform_score  # it may return any kind of number
        score = uniform_score(state, pod, whole)
        if score is None:
            uneven.append(plugin)
        elif score:
            uniform += int(score) * weights[name]
    total = cache.total(entry, state, pod, nodes, uniform)
    framework.add_scores(total, uneven, state, pod, nodes)
    return total
