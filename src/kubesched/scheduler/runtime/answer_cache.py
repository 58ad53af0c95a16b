"""The answer cache: verdicts and scores of plugins, reused for pods that look the same to them.

A cached plugin (`Reads.is_cacheable`) answers from the pod and the node's own row. For two pods
with the same key its answers differ only on rows that changed in between, and the table's change
log says which. So answers are stored by key, and only changed rows are refreshed. Nothing here
decides: a cached answer is what the plugin itself said about that very row.

What invalidates an entry:

- a row changes (a node, or a pod on it comes, goes or changes): that row is refreshed, by plugins
  that read no pods only if the node itself changed;
- an object changes of a kind that one of its plugins reads: the whole entry;
- a plugin's `cache_version` changes, or other plugins skip the pod: the whole entry;
- the table grows, or too many other keys were used since: the entry is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import takewhile

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
    key_of_parts,
)
from kubesched.scheduler.runtime.plugin_calls import (
    call_filter,
    call_normalize,
    call_score,
    call_score_of_node,
    check_range,
    checked_score,
    first_rejection,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics
from kubesched.scheduler.runtime.services import Services

__all__ = ["AnswerCache"]

_MAX_BYTES = 128 << 20
# In a small cluster that would be thousands of keys, most of which never come again.
_MAX_ENTRIES = 1_000
# After its first uses an entry seldom grows: its size is looked at once in so many.
_COUNTED_USES = 8
# Up to here the one-node form is quicker than starting up NumPy for a handful of rows.
_FEW_NODES = 12
# So many changes since the last pod with a key are worked into its index one by one.
_FEW_CHANGES = 16
# An index is made when so many pods with a key in a row found few changes.
_STEADY = 2
# A plugin may word every verdict differently: so many are stored besides one for every row.
_MAX_STATUSES = 256


class AnswerCache:
    """The cached answers of one profile, by key; the least recently used are dropped.

    Filters are cached as far as the profile's order begins with cacheable ones: a node is told
    the verdict of the first plugin that rejects it, so none may be called out of turn.
    """

    def __init__(
        self,
        plugins: ProfilePlugins,
        services: Services,
        metrics: PointMetrics,
        version: Callable[[], ClusterVersion],
    ) -> None:
        """`version` is that of the cluster at any time."""
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
        self._summed = tuple(
            (plugin, weights[plugin.name])
            for plugin in cached
            if not overrides(plugin, "normalize_score")
        )
        self._normalizing = tuple(
            (plugin, weights[plugin.name])
            for plugin in cached
            if overrides(plugin, "normalize_score")
        )
        not_summed = (*(plugin for plugin, _ in self._normalizing), *self.uncached_scores)
        self._not_summed = [(plugin.name, plugin) for plugin in not_summed]
        highest = MAX_NODE_SCORE * sum(abs(weight) for _, weight in self._summed)
        # As small as possible: many entries together are more than a processor's caches hold.
        self._total_type = next(
            kind for kind in (np.int16, np.int32, np.int64) if highest <= np.iinfo(kind).max
        )
        everyone = {plugin.name: plugin for plugin in (*self._filters, *cached)}
        self._names = frozenset(everyone)
        self._versioned = [each for each in everyone.values() if overrides(each, "cache_version")]
        self._key_of = key_of_parts([plugin.reads for plugin in everyone.values()])
        self._entries: OrderedDict[bytes, CachedAnswers] = OrderedDict()
        self._bytes = 0
        self._latest: CachedAnswers | None = None  # the last of the entries

    def __len__(self) -> int:
        """How many keys there are answers for."""
        return len(self._entries)

    def filters_to_ask(self, state: CycleState) -> Sequence[Plugin]:
        """The filters that are not cached and do not skip the pod."""
        skipped = state.skip_filter
        if self._uncached_names <= skipped:  # as is mostly so
            return ()
        return [plugin for plugin in self.uncached_filters if plugin.name not in skipped]

    def entry_of(self, state: CycleState, pod: Pod, nodes: NodeView) -> CachedAnswers | None:
        """The entry of pods like this one, which may be stale; None: the pod is not cached.

        It is noted in the state, for Score of the same attempt.
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
        """Keep the sum of sizes, and with it memory, within bounds."""
        size = latest.size_bytes
        self._bytes += size - latest.counted_bytes
        latest.counted_bytes = size
        entries = self._entries
        while (self._bytes > _MAX_BYTES and len(entries) > 1) or len(entries) > _MAX_ENTRIES:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= self._entries.pop(key).counted_bytes

    def rows_changed_since(
        self, state: CycleState, since: ClusterVersion
    ) -> NDArray[np.intp] | None:
        """Rows on which filters may answer otherwise than in that version; None: on any."""
        table = self._services.snapshot.nodes.table
        if not self._uncached_names <= state.skip_filter or self._objects.total != since.objects:
            return None
        rows = table.changes.since(since.rows)
        nodes = self._services.nominator().changes_since(since.nominations)
        if rows is None or nodes is None:
            return None
        # Mostly few: sorting a set then beats starting up NumPy.
        alive = rows[table.is_live[rows]].tolist()
        return np.array(sorted({*alive, *table.rows_of(nodes).tolist()}), dtype=np.intp)

    def refresh_verdicts(
        self, entry: CachedAnswers, state: CycleState, pod: Pod, nodes: NodeView
    ) -> list[int] | None:
        """Call the cached filters on rows that changed.

        Returns the rows that are missing in the index until they are scored; None if there is
        no index.
        """
        now, table = self._version(), nodes.table
        filters = self._valid_filters(entry, state, now)
        before = entry.filtered_at
        only_pods = before is not None and before.nodes == now.nodes
        since = None if before is None else table.changes.recent(before.rows)
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
            missing = []
            plugins = filters.to_call(only_pods)
            rows = since.tolist()
            for row in rows if len(rows) == 1 else sorted(set(rows)):
                entry.index.discard(row)
                if not only_pods:
                    entry.invalidate_node_scores(row)
                if table.is_live[row] and self._passes(
                    entry, state, pod, nodes, row, plugins, only_pods
                ):
                    missing.append(row)
        else:
            changed = _among(nodes, since)
            entry.refreshed = (-1 if before is None else before.rows, changed)
            self._call_filters(entry, state, pod, changed, filters, only_pods)
        entry.filtered_at = now
        return missing

    def _valid_filters(
        self, entry: CachedAnswers, state: CycleState, now: ClusterVersion
    ) -> CachedFilters:
        """The filters of an entry; it is invalidated unless their verdicts may still be right."""
        skipped = self._names & state.skip_filter
        filters = entry.filters
        if filters is None or skipped != filters.skipped:
            entry.invalidate()
            filters = entry.filters = CachedFilters(self._filters, skipped)
        elif len(entry.statuses) > _MAX_STATUSES + entry.capacity:
            entry.invalidate()  # no more are in use than there are rows
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
    ) -> None:
        """Call the cached plugins on rows that changed and pass.

        `missing` is what `refresh_verdicts` returned: these rows are put into the index.
        """
        scores, table = self._valid_scores(entry, state), nodes.table
        now, before = entry.filtered_at, entry.scored_at
        assert now is not None, "verdicts are refreshed first"
        only_pods = before is not None and before.nodes == now.nodes
        if entry.index is not None and missing is not None:
            for row in missing:
                node = nodes.info_at(row)
                total = self._score_row(entry, state, pod, node, row, scores, only_pods)
                entry.index.put(row, total)
            entry.index_uses += 1
        else:
            since = None if before is None else table.changes.recent(before.rows)
            is_steady = since is not None and len(since) <= _FEW_CHANGES
            entry.steady = entry.steady + 1 if is_steady else 0
            if since is None or len(since):
                entry.index = None
                changed = entry.refreshed_since(-1 if before is None else before.rows)
                if changed is None:
                    changed = _among(nodes, since)
                self._call_scores(entry, state, pod, changed, scores, only_pods)
            if entry.index is None and entry.steady >= _STEADY and entry.may_have_index:
                self._build_index(entry, nodes)
        entry.refreshed = (-1, None)
        entry.scored_at = now

    def _valid_scores(self, entry: CachedAnswers, state: CycleState) -> CachedScores:
        """The scores of an entry; they are invalidated unless they may still be right."""
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
        only_pods = only_pods and (entry.all_scored or _are_all(changed.at(entry.is_scored)))
        self._count_scored(scores, only_pods, len(changed))
        total = _weighted_scores(scores.reading_pods, state, pod, changed)
        if not only_pods:
            of_nodes = _weighted_scores(scores.of_node, state, pod, changed)
            entry.store_node_total(rows, of_nodes)
            total = total + of_nodes
        elif entry.node_total is not None:
            total = total + changed.at(entry.node_total)
        entry.total[rows] = total
        for plugin, _ in scores.to_normalize(only_pods):
            entry.store_raw(plugin.name, rows, call_score(plugin, state, pod, changed))
        if not only_pods:  # and no plugin has failed
            entry.is_scored[rows] = True
            entry.all_scored = _are_all(changed.whole.at(entry.is_scored))

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
        """Call the cached plugins on the node in one row; returns what is in its sum."""
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
        """Pods with this key come one after another: from now on only changed rows cost."""
        rows = entry.passing(nodes).rows
        entry.index = TotalIndex(entry.capacity, rows, entry.total[rows])
        entry.index_uses = 0

    def is_fresh(self, entry: CachedAnswers, state: CycleState) -> bool:
        """Whether the verdicts of an entry are those of this attempt, and nothing has changed."""
        filters = entry.filters
        return (
            filters is not None
            and filters.skipped == self._names & state.skip_filter
            and entry.filtered_at is not None
            and entry.filtered_at.rows == self._services.snapshot.nodes.table.changes.position
        )

    def is_summed(self, state: CycleState, pod: Pod, nodes: NodeView) -> bool:
        """Whether the cached sum alone tells nodes apart: all other scores are uniform."""
        skipped = state.skip_score
        for name, plugin in self._not_summed:
            if name not in skipped and plugin.uniform_score(state, pod, nodes) is None:
                return False
        return True

    def total(
        self, entry: CachedAnswers, state: CycleState, pod: Pod, feasible: NodeView
    ) -> NDArray[np.int64]:
        """The weighted sum of the cached plugins' scores, which are up to date."""
        assert entry.scores is not None
        total = feasible.at(entry.total).astype(np.int64)
        for plugin, weight in entry.scores.normalizing:
            stored = entry.raw_scores[plugin.name]
            if stored is None:
                uniform = plugin.uniform_score(state, pod, feasible.whole)
                if uniform is not None:
                    total += uniform * weight
                    continue
                raw = np.zeros(len(feasible), dtype=np.int64)
            else:
                raw = np.array(feasible.at(stored))  # a plugin may write its answer over them
            total += call_normalize(plugin, state, pod, feasible, raw) * weight
        return total


def _weighted_scores(
    plugins: Weighted, state: CycleState, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    """The weighted sum of scores that are not normalised."""
    total: NDArray[np.int64] | None = None
    for plugin, weight in plugins:
        scores = call_score(plugin, state, pod, nodes)
        check_range(plugin, scores)
        weighted = scores if weight == 1 else scores * weight
        total = weighted if total is None else total + weighted
    return np.zeros(len(nodes), dtype=np.int64) if total is None else total


def _are_all(holds: NDArray[np.bool_]) -> bool:
    # Several times faster than `all` for a few.
    return bool(np.count_nonzero(holds) == len(holds))


def _among(nodes: NodeView, rows: NDArray[np.intp] | None) -> NodeView:
    """Those of all nodes that are in these rows; None: all."""
    if rows is None or 2 * len(rows) > len(nodes):
        return nodes
    table = nodes.table
    if not isinstance(table.live_rows, slice):
        rows = rows[table.is_live[rows]]
    return nodes.at_rows(rows)
