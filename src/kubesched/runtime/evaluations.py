"""Verdicts and scores that are kept between pods of the same shape.

A node-local plugin answers from the pod and the node's own row. For two pods that look the
same to such plugins its answers differ only on rows that changed in between, and the table's
change log says which. So answers are kept per shape, and only changed rows are asked again.
Nothing here decides: a kept answer is what the plugin itself said about that very row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.engine import TotalIndex
from kubesched.framework import (
    MAX_NODE_SCORE,
    CycleState,
    Diagnosis,
    NodeInfo,
    NodeView,
    Plugin,
    overrides,
)
from kubesched.runtime.asking import (
    ask_filter,
    ask_score,
    ask_score_of_node,
    ask_to_normalize,
    checked_score,
    first_rejection,
)
from kubesched.runtime.cache_key import key_of_parts
from kubesched.runtime.evaluation import Evaluation
from kubesched.runtime.local_plugins import LocalFilters, LocalScores, weighted_scores
from kubesched.runtime.object_versions import ObjectVersions
from kubesched.runtime.point_metrics import PointMetrics

__all__ = ["Evaluations"]

_MAX_BYTES = 128 << 20
# In a small cluster that would be thousands of shapes, most of which never come again.
_MAX_SHAPES = 1_000
# Up to here the one-node form is quicker than starting up NumPy for a handful of rows.
_FEW_NODES = 4
# So many changes since the last pod of a shape are worked into its index one by one.
_FEW_CHANGES = 16
# An index is made when so many pods of a shape in a row found few changes.
_STEADY = 2
# A plugin may word every verdict differently: so many are kept besides one for every row.
_MAX_STATUSES = 256


class Evaluations:
    """The evaluations of one profile, by shape; the least recently used are dropped.

    Filters are kept as far as the profile's order begins with node-local ones: a node is told
    the verdict of the first plugin that rejects it, so none may be asked out of turn.
    """

    def __init__(
        self,
        filter_plugins: Sequence[Plugin],
        score_plugins: Sequence[Plugin],
        weights: Mapping[str, int],
        points: PointMetrics,
        object_versions: ObjectVersions,
    ) -> None:
        self._points = points
        self._object_versions = object_versions
        self.filters = tuple(takewhile(lambda plugin: plugin.reads.is_cacheable, filter_plugins))
        local = [plugin for plugin in score_plugins if plugin.reads.is_cacheable]
        self.static = tuple(
            (plugin, weights[plugin.name])
            for plugin in local
            if not overrides(plugin, "normalize_score")
        )
        self.normalizing = tuple(
            (plugin, weights[plugin.name])
            for plugin in local
            if overrides(plugin, "normalize_score")
        )
        highest = MAX_NODE_SCORE * sum(abs(weight) for _, weight in self.static)
        # As small as possible: many shapes together are more than a processor's caches hold.
        self._total_type = next(
            kind for kind in (np.int16, np.int32, np.int64) if highest <= np.iinfo(kind).max
        )
        self._versioned = [
            plugin
            for plugin in {plugin.name: plugin for plugin in (*self.filters, *local)}.values()
            if overrides(plugin, "cache_version")
        ]
        self._local_names = frozenset(plugin.name for plugin in (*self.filters, *local))
        reads = [plugin.reads for plugin in (*self.filters, *local)]
        self._key_of = key_of_parts(reads)
        # An entry for each set of kinds that some plugin reads; None: any kind.
        self._kinds = list({each.objects for each in reads} - {()})
        self._entries: OrderedDict[bytes, Evaluation] = OrderedDict()
        self._bytes = 0

    def find(self, pod: Pod, nodes: NodeView) -> Evaluation | None:
        """What is known for pods like this one; None if the pod is one of a kind."""
        shape = self._key_of(pod)
        if shape is None:
            return None
        capacity = nodes.table.capacity
        versions = (
            *[plugin.cache_version(nodes) for plugin in self._versioned],
            *[self._object_versions.of(kinds) for kinds in self._kinds],
        )
        entry = self._entries.get(shape)
        if entry is not None and entry.capacity != capacity:
            self._drop(shape)
            entry = None
        if entry is None:
            names = [plugin.name for plugin, _ in self.normalizing]
            entry = self._entries[shape] = Evaluation(capacity, names, self._total_type)
        elif entry.versions != versions:
            entry.forget()
        entry.versions = versions
        self._entries.move_to_end(shape)
        self._count(entry)
        return entry

    def _count(self, latest: Evaluation) -> None:
        """Keep the sum of sizes, and with it memory, within bounds."""
        size = latest.size_bytes
        self._bytes += size - latest.counted_bytes
        latest.counted_bytes = size
        entries = self._entries
        while (self._bytes > _MAX_BYTES and len(entries) > 1) or len(entries) > _MAX_SHAPES:
            self._drop(next(iter(self._entries)))

    def _drop(self, shape: bytes) -> None:
        self._bytes -= self._entries.pop(shape).counted_bytes

    # -- filter ------------------------------------------------------------------------

    def filter(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Those of all nodes that the local filters let pass; the others are noted."""
        self.refresh_verdicts(known, state, pod, nodes)
        codes = nodes.at(known.codes)
        if not known.statuses or not codes.any():
            return nodes
        rejected = codes != 0
        diagnosis.add_verdicts(nodes.rows[rejected], codes[rejected], tuple(known.statuses))
        return nodes.subset(~rejected)

    def refresh_verdicts(
        self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView
    ) -> list[int] | None:
        """Ask the local filters about rows that changed.

        Returns the rows that are missing in the index until they are scored; None if there is
        no index.
        """
        skipped = self._local_names & state.skip_filter
        filters = known.filters
        if filters is None or skipped != filters.skipped:
            known.forget()
            filters = known.filters = LocalFilters(self.filters, skipped)
        elif len(known.statuses) > _MAX_STATUSES + known.capacity:
            known.forget()  # no more are in use than there are rows
        table = nodes.table
        only_pods = known.filter_version == table.node_version
        since = table.changes.recent(known.filter_position)
        if (
            since is None
            or len(since) > _FEW_CHANGES
            or known.score_position != known.filter_position
        ):
            known.drop_index()
        missing: list[int] | None = None
        if known.index is not None and since is not None:
            missing = []
            plugins = filters.to_ask(only_pods)
            for row in sorted(set(since.tolist())):
                known.index.discard(row)
                if not only_pods:
                    known.node_changed(row)
                if table.is_live[row] and self._passes(
                    known, state, pod, nodes, row, plugins, only_pods
                ):
                    missing.append(row)
        else:
            changed = _among(nodes, since)
            known.judged = (known.filter_position, changed)
            self._ask_filters(known, state, pod, changed, filters, only_pods)
        known.filter_position = table.changes.position
        known.filter_version = table.node_version
        return missing

    def _ask_filters(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        changed: NodeView,
        filters: LocalFilters,
        only_pods: bool,
    ) -> None:
        plugins = filters.to_ask(only_pods)
        if len(changed) <= _FEW_NODES:
            for row in changed.rows.tolist():
                self._passes(known, state, pod, changed, row, plugins, only_pods)
            return
        if only_pods:
            changed = known.without_final(changed)
        if known.statuses:
            known.codes[changed.selection] = 0
        for plugin in plugins:
            if not len(changed):
                return
            self._points.filters[plugin.name].value += len(changed)
            rejections = ask_filter(plugin, state, pod, changed)
            if rejections.codes is None or not rejections.codes.any():
                continue
            is_final = plugin.name in filters.of_node
            numbers = [
                known.number_of(status.blame(plugin.name), is_final=is_final)
                for status in rejections.statuses
            ]
            translate = np.asarray([0, *numbers], dtype=np.int32)
            known.codes[changed.selection] = translate[rejections.codes]
            changed = changed.subset(rejections.codes == 0)

    def _passes(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        row: int,
        plugins: Sequence[Plugin],
        only_pods: bool,
    ) -> bool:
        """Ask about the node in one row."""
        if only_pods and known.is_final(row):
            return False
        status = first_rejection(plugins, state, pod, nodes.info_at(row))
        self._points.count_filtered(plugins, status)
        if status is None:
            known.codes[row] = 0
            return True
        assert known.filters is not None
        is_final = status.plugin in known.filters.of_node
        known.codes[row] = known.number_of(status, is_final=is_final)
        return False

    # -- score -------------------------------------------------------------------------

    def refresh_scores(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        missing: list[int] | None,
    ) -> None:
        """Ask the local plugins about rows that changed and pass.

        `missing` is what `refresh_verdicts` returned: these rows are put into the index.
        """
        skipped = self._local_names & state.skip_score
        scores, table = known.scores, nodes.table
        if scores is None or skipped != scores.skipped:
            known.forget_scores()
            scores = known.scores = LocalScores(self.static, self.normalizing, skipped)
        only_pods = known.score_version == table.node_version
        if known.index is not None and missing is not None:
            for row in missing:
                self._score_row(known, state, pod, nodes.info_at(row), row, scores, only_pods)
                known.index.put(row, int(known.static_total[row]))
            known.index_uses += 1
        else:
            since = table.changes.recent(known.score_position)
            is_steady = since is not None and len(since) <= _FEW_CHANGES
            known.steady = known.steady + 1 if is_steady else 0
            if since is None or len(since):
                known.index = None
                changed = known.judged_since(known.score_position)
                if changed is None:
                    changed = _among(nodes, since)
                self._ask_scores(known, state, pod, changed, scores, only_pods)
            if known.index is None and known.steady >= _STEADY and known.may_have_index:
                self._build_index(known, nodes)
        known.judged = (-1, None)
        known.score_position = table.changes.position
        known.score_version = table.node_version

    def _ask_scores(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        changed: NodeView,
        scores: LocalScores,
        only_pods: bool,
    ) -> None:
        if not only_pods:
            known.node_changed(changed.selection)
        changed = known.passing(changed)
        if len(changed) <= _FEW_NODES:
            for row, node in zip(changed.rows.tolist(), changed, strict=True):
                self._score_row(known, state, pod, node, row, scores, only_pods)
            return
        rows = changed.selection
        only_pods = only_pods and (known.all_scored or bool(changed.at(known.is_scored).all()))
        self._count_scored(scores, only_pods, len(changed))
        total = weighted_scores(scores.by_pods, state, pod, changed)
        if not only_pods:
            of_nodes = weighted_scores(scores.by_node, state, pod, changed)
            known.note_node_total(rows, of_nodes)
            total = total + of_nodes
        elif known.node_total is not None:
            total = total + changed.at(known.node_total)
        known.static_total[rows] = total
        for plugin, _ in scores.to_normalize(only_pods):
            known.note_raw(plugin.name, rows, ask_score(plugin, state, pod, changed))
        if not only_pods:  # and no plugin has failed
            known.is_scored[rows] = True
            known.all_scored = bool(changed.whole.at(known.is_scored).all())

    def _score_row(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        row: int,
        scores: LocalScores,
        only_pods: bool,
    ) -> None:
        only_pods = only_pods and bool(known.is_scored[row])
        self._count_scored(scores, only_pods, 1)
        total = 0
        for plugin, weight in scores.by_pods:
            total += checked_score(plugin, state, pod, node) * weight
        if not only_pods:
            of_node = 0
            for plugin, weight in scores.by_node:
                of_node += checked_score(plugin, state, pod, node) * weight
            known.note_node_total(row, of_node)
            total += of_node
        elif known.node_total is not None:
            total += int(known.node_total[row])
        known.static_total[row] = total
        for plugin, _ in scores.to_normalize(only_pods):
            known.note_raw(plugin.name, row, ask_score_of_node(plugin, state, pod, node))
        known.is_scored[row] = True

    def _count_scored(self, scores: LocalScores, only_pods: bool, nodes: int) -> None:
        counters = self._points.scores
        for plugin, _ in scores.by_pods:
            counters[plugin.name].value += nodes
        for plugin, _ in scores.to_normalize(only_pods):
            counters[plugin.name].value += nodes
        if not only_pods:
            for plugin, _ in scores.by_node:
                counters[plugin.name].value += nodes

    def _build_index(self, known: Evaluation, nodes: NodeView) -> None:
        """Pods of this shape come one after another: from now on only changed rows cost."""
        rows = known.passing(nodes).rows
        known.index = TotalIndex(known.capacity, rows, known.static_total[rows])
        known.index_uses = 0

    def total(
        self, known: Evaluation, state: CycleState, pod: Pod, feasible: NodeView
    ) -> NDArray[np.int64]:
        """The weighted sum of the local plugins' scores, which are up to date."""
        assert known.scores is not None
        total = feasible.at(known.static_total).astype(np.int64)
        for plugin, weight in known.scores.normalizing:
            kept = known.raw_scores[plugin.name]
            if kept is None:
                uniform = plugin.uniform_score(state, pod, feasible.whole)
                if uniform is not None:
                    total += uniform * weight
                    continue
            if kept is None:
                raw = np.zeros(len(feasible), dtype=np.int64)
            else:
                raw = np.array(feasible.at(kept))  # a plugin may write its answer over them
            total += ask_to_normalize(plugin, state, pod, feasible, raw) * weight
        return total


def _among(nodes: NodeView, rows: NDArray[np.intp] | None) -> NodeView:
    """Those of all nodes that are in these rows; None: all."""
    if rows is None or 2 * len(rows) > len(nodes):
        return nodes
    table = nodes.table
    if not isinstance(table.live_rows, slice):
        rows = rows[table.is_live[rows]]
    return nodes.at_rows(rows)
