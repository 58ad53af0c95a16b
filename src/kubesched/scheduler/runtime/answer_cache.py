"""The answer cache: verdicts and scores of plugins, reused for pods with the same key.

A cacheable plugin (`Reads.is_cacheable`) answers from the pod and the node's own row. For two pods
with the same key its answers differ only on rows that changed in between, and the table's change
log lists those. So answers are stored by key, and only changed rows are refreshed. The cache
decides nothing: a cached answer is the plugin's own answer for that row.

What invalidates an entry:

- A row changes: the node itself, or a pod on it is added, updated or removed. That row is
  refreshed; plugins that read no pods are called only if the node itself changed.
- An object changes of a kind that one of its plugins reads: the whole entry is invalidated.
- A plugin's `cache_version` changes, or other plugins skip the pod: the whole entry is invalidated.
- The table grows, or too many other keys were used since: the entry is evicted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import (
    MAX_NODE_SCORE,
    ClusterVersion,
    CycleState,
    NodeInfo,
    NodeView,
    Plugin,
    overrides,
)
from kubesched.framework.engine import TotalIndex
from kubesched.scheduler.runtime.cached_answers import (
    CachedAnswers,
    CachedFilters,
    CachedScores,
    Weighted,
    pod_key_function,
)
from kubesched.scheduler.runtime.plugin_calls import (
    add_in_range,
    add_normalized,
    call_filter,
    call_score,
    call_score_of_node,
    checked_score,
    first_rejection,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics
from kubesched.scheduler.runtime.services import Services

__all__ = ["MOST_BYTES", "MOST_ENTRIES", "AnswerCache"]

MOST_BYTES = 128 << 20
# In a small cluster the byte limit would allow thousands of keys, most of which are never used
# again.
MOST_ENTRIES = 1_000
# After its first uses an entry rarely grows, so its size is computed only at every n-th use.
_COUNTED_USES = 8
# Up to this number of nodes, one-node calls are faster than the fixed cost of NumPy.
_FEW_NODES = 12
# Up to this number of changes since the last pod with a key, its index is updated row by row.
_FEW_CHANGES = 16
# An index is built after this number of consecutive pods with a key found few changes.
_STEADY = 2
# A plugin may return a different text for every node: the number of statuses stored beyond one per
# row.
_MAX_STATUSES = 256


class AnswerCache:
    """The cached answers of one profile, by key. The least recently used entry is evicted.

    Filters are cached up to the first one in the profile's order that is not cacheable: the
    verdict on a node is that of the first plugin that rejects it, so the order matters.
    """

    def __init__(
        self,
        plugins: ProfilePlugins,
        services: Services,
        metrics: PointMetrics,
        version: Callable[[], ClusterVersion],
    ) -> None:
        """`version` returns the present version of the cluster."""
        self._version = version
        self._metrics = metrics
        self._services = services
        self._objects = services.object_versions
        weights = plugins.score_weights
        self._filters = tuple(takewhile(lambda each: each.reads.is_cacheable, plugins.filters))
        self.uncached_filters = plugins.filters[len(self._filters) :]
        self._uncached_names = frozenset(plugin.name for plugin in self.uncached_filters)
        cached = [plugin for plugin in plugins.scores if plugin.reads.is_cacheable]
        self.uncached_scores = tuple(each for each in plugins.scores if each not in cached)
        self._summed, self._normalizing = _by_normalization(cached, weights)
        not_summed = (*(plugin for plugin, _ in self._normalizing), *self.uncached_scores)
        # Any: a plugin may return any kind of number.
        self._not_summed: list[tuple[str, Any]] = [(each.name, each) for each in not_summed]
        self._total_type = _type_of_totals(self._summed)
        cached_plugins = {plugin.name: plugin for plugin in (*self._filters, *cached)}
        self._names = frozenset(cached_plugins)
        self._versioned = [
            each for each in cached_plugins.values() if overrides(each, "cache_version")
        ]
        self._key_of = pod_key_function([plugin.reads for plugin in cached_plugins.values()])
        self._entries: OrderedDict[bytes, CachedAnswers] = OrderedDict()
        self._bytes = 0
        self._latest: CachedAnswers | None = None  # the most recently used entry

    def __len__(self) -> int:
        """The number of keys with an entry."""
        return len(self._entries)

    def uncached_filters_of(self, state: CycleState) -> Sequence[Plugin]:
        """Return the filters that are not cached and do not skip the pod."""
        skipped = state.skip_filter
        if self._uncached_names <= skipped:  # the usual case
            return ()
        return [plugin for plugin in self.uncached_filters if plugin.name not in skipped]

    def entry_of(self, state: CycleState, pod: Pod, nodes: NodeView) -> CachedAnswers | None:
        """Return the entry of the pod's key, which may be stale; None if the pod is not cached.

        The entry is stored in the state, for Score of the same attempt.
        """
        entry = state.cached_answers
        if not isinstance(entry, CachedAnswers):
            entry = state.cached_answers = self._find(pod, nodes)
        return entry

    def _find(self, pod: Pod, nodes: NodeView) -> CachedAnswers | None:
        key = self._key_of(pod)
        if key is None:
            return None
        capacity = nodes.table.capacity
        versions = tuple([plugin.cache_version(nodes) for plugin in self._versioned])
        entry = self._entries.get(key)
        if entry is not None and entry.capacity != capacity:
            self._drop(key)
            entry = None
        if entry is None:
            names = [plugin.name for plugin, _ in self._normalizing]
            entry = self._entries[key] = CachedAnswers(capacity, names, self._total_type)
        elif entry.plugin_versions != versions:
            entry.invalidate()
        entry.plugin_versions = versions
        if entry is not self._latest:
            self._latest = entry
            self._entries.move_to_end(key)
        entry.uses += 1
        if entry.uses <= 2 or not entry.uses % _COUNTED_USES:
            self._count(entry)
        return entry

    def _count(self, latest: CachedAnswers) -> None:
        """Update the sum of sizes, and evict entries to bound memory."""
        size = latest.size_bytes
        self._bytes += size - latest.counted_bytes
        latest.counted_bytes = size
        entries = self._entries
        while (self._bytes > MOST_BYTES and len(entries) > 1) or len(entries) > MOST_ENTRIES:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._entries.pop(key).counted_bytes

    def rows_changed_since(
        self, state: CycleState, since: ClusterVersion
    ) -> NDArray[np.intp] | None:
        """Return the rows on which filters may answer otherwise than in that version.

        None means all rows.
        """
        table = self._services.snapshot.nodes.table
        if not self._uncached_names <= state.skip_filter or self._objects.total != since.objects:
            return None
        rows = table.changes.since(since.rows)
        nodes = self._services.nominator().changes_since(since.nominations)
        if rows is None or nodes is None:
            return None
        # There are usually few, so sorting a set is faster than NumPy.
        alive = rows[table.is_live[rows]].tolist()
        return np.array(sorted({*alive, *table.rows_of(nodes).tolist()}), dtype=np.intp)

    def refresh_verdicts(
        self, entry: CachedAnswers, state: CycleState, pod: Pod, nodes: NodeView
    ) -> list[int] | None:
        """Call the cached filters on rows that changed.

        Returns the rows that are missing in the index until they are scored; None if there is
        no index.
        """
        now = self._version()
        filters = self._valid_filters(entry, state, now)
        before = entry.filtered_at
        only_pods = before is not None and before.nodes == now.nodes
        since = None if before is None else nodes.table.changes.recent(before.rows)
        if (
            before is None
            or since is None
            or len(since) > _FEW_CHANGES
            or entry.scored_at is None
            or entry.scored_at.rows != before.rows
        ):
            entry.drop_index()
        missing: list[int] | None = None
        if entry.index is not None and since is not None:
            plugins = filters.to_call(only_pods)
            rows = since.tolist()
            missing = self._refilter_rows(entry, state, pod, nodes, rows, plugins, only_pods)
        else:
            changed = _restricted(nodes, since)
            entry.refreshed = (-1 if before is None else before.rows, changed)
            self._call_filters(entry, state, pod, changed, filters, only_pods)
        entry.filtered_at = now
        return missing

    def _refilter_rows(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        rows: list[int],
        plugins: Sequence[Plugin],
        only_pods: bool,
    ) -> list[int]:
        """Remove changed rows from the index and filter them; return those that pass."""
        assert entry.index is not None
        is_live = nodes.table.is_live
        passing: list[int] = []
        for row in rows if len(rows) == 1 else sorted(set(rows)):
            entry.index.discard(row)
            if not only_pods:
                entry.invalidate_node_scores(row)
            if is_live[row] and self._passes(entry, state, pod, nodes, row, plugins, only_pods):
                passing.append(row)
        return passing

    def _valid_filters(
        self, entry: CachedAnswers, state: CycleState, now: ClusterVersion
    ) -> CachedFilters:
        """Return the filters of an entry; invalidate the entry if their verdicts are stale."""
        skipped = self._names & state.skip_filter
        filters = entry.filters
        if filters is None or skipped != filters.skipped:
            entry.invalidate()
            filters = entry.filters = CachedFilters(self._filters, skipped)
        elif len(entry.statuses) > _MAX_STATUSES + entry.capacity:
            entry.invalidate()  # at most one status per row is in use
        if entry.filtered_at is None or entry.filtered_at.objects != now.objects:
            objects = self._objects.of(filters.kinds)
            if objects != entry.filter_objects:
                entry.invalidate()
                entry.filter_objects = objects
        return filters

    def _call_filters(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        changed: NodeView,
        filters: CachedFilters,
        only_pods: bool,
    ) -> None:
        plugins = filters.to_call(only_pods)
        if len(changed) <= _FEW_NODES:
            for row in dict.fromkeys(changed.rows.tolist()):
                self._passes(entry, state, pod, changed, row, plugins, only_pods)
            return
        if only_pods:
            changed = entry.without_final(changed)
        if entry.statuses:
            entry.codes[changed.selection] = 0
        for plugin in plugins:
            if not len(changed):
                return
            self._metrics.filters[plugin.name].value += len(changed)
            rejections = call_filter(plugin, state, pod, changed)
            if rejections.codes is None or not np.count_nonzero(rejections.codes):
                continue
            is_final = plugin.name in filters.of_node
            codes = [
                entry.code_of(status.blame(plugin.name), is_final=is_final)
                for status in rejections.statuses
            ]
            translate = np.asarray([0, *codes], dtype=np.int32)
            entry.codes[changed.selection] = translate[rejections.codes]
            changed = changed.subset(rejections.codes == 0)

    def _passes(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        row: int,
        plugins: Sequence[Plugin],
        only_pods: bool,
    ) -> bool:
        """Call the filters on the node in one row."""
        if only_pods and entry.is_final(row):
            return False
        status = first_rejection(plugins, state, pod, nodes.info_at(row))
        self._metrics.count_filtered(plugins, status)
        if status is None:
            if entry.statuses:
                entry.codes[row] = 0
            return True
        assert entry.filters is not None
        is_final = status.plugin in entry.filters.of_node
        entry.codes[row] = entry.code_of(status, is_final=is_final)
        return False

    def refresh_scores(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        missing: list[int] | None,
        *,
        is_for_all: bool = True,
    ) -> None:
        """Call the cached plugins on rows that changed and pass.

        `missing` is the result of `refresh_verdicts`: these rows are added to the index. No index
        is built unless the attempt `is_for_all` nodes.
        """
        scores = self._valid_scores(entry, state)
        now, before = entry.filtered_at, entry.scored_at
        assert now is not None, "scores were refreshed before verdicts"
        only_pods = before is not None and before.nodes == now.nodes
        if entry.index is not None and missing is not None:
            for row in missing:
                node = nodes.info_at(row)
                total = self._score_row(entry, state, pod, node, row, scores, only_pods)
                entry.index.put(row, total)
            entry.index_uses += 1
        else:
            self._score_changed(entry, state, pod, nodes, scores, only_pods)
            is_due = entry.steady_pods >= _STEADY and entry.may_have_index
            if entry.index is None and is_due and is_for_all:
                self._build_index(entry, nodes)
        entry.refreshed = (-1, None)
        entry.scored_at = now

    def _score_changed(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        scores: CachedScores,
        only_pods: bool,
    ) -> None:
        """Score the rows that changed since the last scores."""
        before = entry.scored_at
        since = None if before is None else nodes.table.changes.recent(before.rows)
        is_steady = since is not None and len(since) <= _FEW_CHANGES
        entry.steady_pods = entry.steady_pods + 1 if is_steady else 0
        if since is None or len(since):
            entry.index = None
            changed = entry.refreshed_since(-1 if before is None else before.rows)
            if changed is None:
                changed = _restricted(nodes, since)
            self._call_scores(entry, state, pod, changed, scores, only_pods)

    def _valid_scores(self, entry: CachedAnswers, state: CycleState) -> CachedScores:
        """Return the plugins of an entry's scores; invalidate the scores if they are stale."""
        skipped = self._names & state.skip_score
        scores, now = entry.scores, entry.filtered_at
        if scores is None or skipped != scores.skipped:
            entry.invalidate_scores()
            scores = entry.scores = CachedScores(self._summed, self._normalizing, skipped)
        if entry.scored_at is None or now is None or entry.scored_at.objects != now.objects:
            objects = self._objects.of(scores.kinds)
            if objects != entry.score_objects:
                entry.invalidate_scores()
                entry.invalidate_node_scores(slice(None))
                entry.score_objects = objects
        return scores

    def _call_scores(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        changed: NodeView,
        scores: CachedScores,
        only_pods: bool,
    ) -> None:
        if not only_pods:
            entry.invalidate_node_scores(changed.selection)
        if len(changed) <= _FEW_NODES:
            for row in dict.fromkeys(changed.rows.tolist()):
                if entry.is_passing(row):
                    node = changed.info_at(row)
                    self._score_row(entry, state, pod, node, row, scores, only_pods)
            return
        changed = entry.passing(changed)
        rows = changed.selection
        only_pods = only_pods and (entry.all_scored or _all_true(changed.at(entry.is_scored)))
        self._count_scored(scores, only_pods, len(changed))
        total = _weighted_scores(scores.reading_pods, state, pod, changed)
        if not only_pods:
            if scores.of_node or entry.node_total is not None:
                of_nodes = _weighted_scores(scores.of_node, state, pod, changed)
                entry.store_node_total(rows, of_nodes)
                total = total + of_nodes
        elif entry.node_total is not None:
            total = total + changed.at(entry.node_total)
        # To convert first is faster: an assignment by rows converts numbers one by one.
        entry.total[rows] = total.astype(entry.total.dtype)
        for plugin, _ in scores.to_normalize(only_pods):
            entry.store_raw(plugin.name, rows, call_score(plugin, state, pod, changed))
        if not only_pods:  # and no plugin has failed
            entry.is_scored[rows] = True
            entry.all_scored = _all_true(changed.whole.at(entry.is_scored))

    def _score_row(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        row: int,
        scores: CachedScores,
        only_pods: bool,
    ) -> int:
        """Call the cached plugins on the node in one row; return the sum of its scores."""
        only_pods = only_pods and (entry.all_scored or bool(entry.is_scored[row]))
        self._count_scored(scores, only_pods, 1)
        total = 0
        for plugin, weight in scores.reading_pods:
            total += checked_score(plugin, state, pod, node) * weight
        if not only_pods:
            of_node = 0
            for plugin, weight in scores.of_node:
                of_node += checked_score(plugin, state, pod, node) * weight
            entry.store_node_total(row, of_node)
            total += of_node
        elif entry.node_total is not None:
            total += int(entry.node_total[row])
        entry.total[row] = total
        for plugin, _ in scores.to_normalize(only_pods):
            entry.store_raw(plugin.name, row, call_score_of_node(plugin, state, pod, node))
        if not only_pods:  # and no plugin has failed
            entry.is_scored[row] = True
        return total

    def _count_scored(self, scores: CachedScores, only_pods: bool, nodes: int) -> None:
        counters = self._metrics.scores
        for name in scores.names_reading_pods if only_pods else scores.names:
            counters[name].value += nodes

    def _build_index(self, entry: CachedAnswers, nodes: NodeView) -> None:
        """Index the passing rows by total, so that the next pods cost only the changed rows."""
        rows = entry.passing(nodes).rows
        entry.index = TotalIndex(entry.capacity, rows, entry.total[rows])
        entry.index_uses = 0

    def is_fresh(self, entry: CachedAnswers, state: CycleState) -> bool:
        """Whether the verdicts of an entry are up to date and were made with the same skips."""
        filters = entry.filters
        return (
            filters is not None
            and filters.skipped == self._names & state.skip_filter
            and entry.filtered_at is not None
            and entry.filtered_at.rows == self._services.snapshot.nodes.table.changes.position
        )

    def is_summed(self, state: CycleState, pod: Pod, nodes: NodeView) -> bool:
        """Whether the cached sum alone ranks the nodes: all other scores are uniform."""
        skipped = state.skip_score
        for name, plugin in self._not_summed:
            if name not in skipped and plugin.uniform_score(state, pod, nodes) is None:
                return False
        return True

    def total(
        self,
        entry: CachedAnswers,
        state: CycleState,
        pod: Pod,
        feasible: NodeView,
        uniform: int,
    ) -> NDArray[np.int64]:
        """Return the weighted sum of the cached plugins' scores, which must be up to date.

        `uniform` is added to every sum.
        """
        assert entry.scores is not None
        normalizing: list[tuple[Plugin, int]] = []
        for plugin, weight in entry.scores.normalizing:
            score: Any = None
            if entry.raw_scores[plugin.name] is None:
                uniform_score: Any = plugin.uniform_score
                score = uniform_score(state, pod, feasible.whole)
            if score is None:
                normalizing.append((plugin, weight))
            else:
                uniform += int(score) * weight
        # A copy. Adding with a conversion takes longer than one after the other.
        total = feasible.at(entry.total).astype(np.int64)
        if uniform:
            total += uniform
        for plugin, weight in normalizing:
            stored = entry.raw_scores[plugin.name]
            if stored is None:
                raw = np.zeros(len(feasible), dtype=np.int64)
            else:
                raw = np.array(feasible.at(stored))  # a copy: the plugin may normalise in place
            add_normalized(total, weight, plugin, state, pod, feasible, raw)
        return total


def _by_normalization(
    plugins: Iterable[Plugin], weights: Mapping[str, int]
) -> tuple[Weighted, Weighted]:
    """Split plugins, with their weights, into those that do not normalise and those that do."""
    summed: list[tuple[Plugin, int]] = []
    normalizing: list[tuple[Plugin, int]] = []
    for plugin in plugins:
        part = normalizing if overrides(plugin, "normalize_score") else summed
        part.append((plugin, weights[plugin.name]))
    return tuple(summed), tuple(normalizing)


def _type_of_totals(summed: Weighted) -> type[np.signedinteger]:
    """Return the smallest type for sums of scores: all entries exceed a processor's cache."""
    highest = MAX_NODE_SCORE * sum(abs(weight) for _, weight in summed)
    types: tuple[type[np.signedinteger], ...] = (np.int16, np.int32, np.int64)
    return next(kind for kind in types if highest <= np.iinfo(kind).max)


def _weighted_scores(
    plugins: Weighted, state: CycleState, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    """Return the weighted sum of scores that are not normalised."""
    total: NDArray[np.int64] = np.zeros(len(nodes), dtype=np.int64)
    for plugin, weight in plugins:
        add_in_range(total, weight, plugin, call_score(plugin, state, pod, nodes))
    return total


def _all_true(holds: NDArray[np.bool_]) -> bool:
    # For few values several times faster than `all`.
    return bool(np.count_nonzero(holds) == len(holds))


def _restricted(nodes: NodeView, rows: NDArray[np.intp] | None) -> NodeView:
    """Return the nodes in these rows; all nodes if there is no list of rows, or a long one."""
    if rows is None or 2 * len(rows) > len(nodes):
        return nodes
    table = nodes.table
    if not isinstance(table.live_rows, slice):
        rows = rows[table.is_live[rows]]
    return nodes.at_rows(rows)
