"""Verdicts and scores that are kept between pods of the same shape.

A node-local plugin answers from the pod and the node's own row. For two pods that look the
same to such plugins its answers differ only on rows that changed in between, and the table's
change log says which. So answers are kept per shape, and only changed rows are asked again.
Nothing here decides: a kept answer is what the plugin itself said about that very row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from itertools import takewhile

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.engine import TotalIndex
from kubesched.framework import (
    MAX_NODE_SCORE,
    CycleState,
    Diagnosis,
    NodeView,
    Plugin,
    Status,
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
from kubesched.runtime.point_metrics import PointMetrics

__all__ = ["Evaluation", "Evaluations"]

_MAX_BYTES = 128 << 20
# Up to here the one-node form is quicker than starting up NumPy for a handful of rows.
_FEW_NODES = 4
# So many changes since the last pod of a shape are worked into its index one by one.
_FEW_CHANGES = 16
_encode = msgspec.json.Encoder(order="deterministic").encode


class Evaluation:
    """What node-local plugins said about every row, for pods of one shape."""

    __slots__ = (
        "_numbers",
        "codes",
        "filter_position",
        "index",
        "index_uses",
        "may_have_index",
        "raw_scores",
        "score_position",
        "skipped_filters",
        "skipped_scores",
        "static_total",
        "statuses",
        "versions",
    )

    def __init__(
        self, capacity: int, normalizing: Sequence[str], total_type: type[np.signedinteger]
    ) -> None:
        # Plugins that had nothing to say when the answers were given.
        self.skipped_filters: frozenset[str] = frozenset()
        self.skipped_scores: frozenset[str] = frozenset()
        self.codes = np.zeros(capacity, dtype=np.int32)  # int32[row]: 0 passes, k is status k - 1
        self.statuses: list[Status] = []  # with the plugin that gave them
        self._numbers: dict[Status, int] = {}
        # Places in the change log up to which the answers are right; -1: nothing is known.
        self.filter_position = -1
        self.score_position = -1
        # Weighted sum of the scores that need no normalising.
        self.static_total: NDArray[np.signedinteger] = np.zeros(capacity, dtype=total_type)
        # The others as they are; None while every row's score is zero, as it mostly is.
        self.raw_scores: dict[str, NDArray[np.int64] | None] = dict.fromkeys(normalizing)
        # Rows that pass, by static total, in step with both positions; None: not kept.
        self.index: TotalIndex | None = None
        self.index_uses = 0
        self.may_have_index = True
        self.versions: tuple[Hashable, ...] = ()

    @property
    def capacity(self) -> int:
        return len(self.codes)

    @property
    def size_bytes(self) -> int:
        return self.capacity * (4 + self.static_total.itemsize + 8 * len(self.raw_scores))

    def forget(self) -> None:
        """What the answers depended on, besides rows, is no longer the same."""
        self.filter_position = self.score_position = -1
        self.index = None
        self.may_have_index = True

    def drop_index(self) -> None:
        """Rows changed that are not in it. One that never helped is not made again."""
        if self.index is not None:
            self.may_have_index = self.index_uses > 0
            self.index = None

    def note_raw(
        self, plugin: str, rows: int | NDArray[np.intp], scores: int | NDArray[np.int64]
    ) -> None:
        """Keep scores that need normalising."""
        kept = self.raw_scores[plugin]
        if kept is None:
            if not (scores if isinstance(scores, int) else scores.any()):
                return
            kept = self.raw_scores[plugin] = np.zeros(self.capacity, dtype=np.int64)
        kept[rows] = scores

    def number_of(self, status: Status) -> int:
        number = self._numbers.get(status)
        if number is None:
            self.statuses.append(status)
            number = self._numbers[status] = len(self.statuses)
        return number


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
    ) -> None:
        self._points = points
        self.filters = tuple(takewhile(lambda plugin: plugin.node_local, filter_plugins))
        local = [plugin for plugin in score_plugins if plugin.node_local]
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
        self._total_type = np.int32 if highest < 2**31 else np.int64
        self._versioned = [
            plugin
            for plugin in {plugin.name: plugin for plugin in (*self.filters, *local)}.values()
            if overrides(plugin, "version")
        ]
        self._local_names = frozenset(plugin.name for plugin in (*self.filters, *local))
        self._reads_metadata = any(plugin.reads_metadata for plugin in (*self.filters, *local))
        self._entries: OrderedDict[bytes, Evaluation] = OrderedDict()
        self._bytes = 0

    def forget(self) -> None:
        """Something besides nodes and pods changed that plugins may look at."""
        self._entries.clear()
        self._bytes = 0

    def find(self, pod: Pod, nodes: NodeView) -> Evaluation | None:
        """What is known for pods like this one; None if the pod is one of a kind."""
        shape = self._shape(pod)
        if shape is None:
            return None
        capacity = nodes.table.capacity
        versions = tuple([plugin.version(nodes) for plugin in self._versioned])
        entry = self._entries.get(shape)
        if entry is not None and entry.capacity == capacity:
            self._entries.move_to_end(shape)
            if entry.versions != versions:
                entry.forget()
                entry.versions = versions
            return entry
        if entry is not None:
            self._bytes -= entry.size_bytes
        names = [plugin.name for plugin, _ in self.normalizing]
        entry = Evaluation(capacity, names, self._total_type)
        entry.versions = versions
        self._entries[shape] = entry
        self._bytes += entry.size_bytes
        while self._bytes > _MAX_BYTES and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._bytes -= oldest.size_bytes
        return entry

    def _shape(self, pod: Pod) -> bytes | None:
        """Everything of a pod that a node-local plugin may look at."""
        spec, status = pod.spec, pod.status
        if status.container_statuses or status.resources is not None:
            return None  # amounts may follow the status, which changes by itself
        if self._reads_metadata:
            metadata = pod.metadata
            return _encode((spec, metadata.namespace, metadata.labels, metadata.annotations))
        return _encode(
            (
                spec.containers,
                spec.init_containers,
                spec.node_selector,
                spec.node_name,
                spec.host_network,
                spec.affinity and spec.affinity.node_affinity,
                spec.tolerations,
                spec.overhead,
                spec.host_users,
                spec.resources,
                [volume.image for volume in spec.volumes if volume.image is not None],
            )
        )

    # -- filter ------------------------------------------------------------------------

    def filter(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Those of all nodes that the local filters let pass."""
        skipped = self._local_names & state.skip_filter
        if skipped != known.skipped_filters:
            known.forget()
            known.skipped_filters = skipped
        changed = _changed(nodes, known.filter_position)
        if len(changed):
            known.drop_index()
            self._refresh_verdicts(known, state, pod, changed)
        known.filter_position = nodes.table.changes.position
        codes = nodes.at(known.codes)
        if not codes.any():
            return nodes
        rejected = codes != 0
        diagnosis.add_verdicts(nodes.rows[rejected], codes[rejected], tuple(known.statuses))
        return nodes.subset(~rejected)

    def _refresh_verdicts(
        self, known: Evaluation, state: CycleState, pod: Pod, changed: NodeView
    ) -> None:
        plugins = [plugin for plugin in self.filters if plugin.name not in state.skip_filter]
        if len(changed) <= _FEW_NODES:
            for row, node in zip(changed.rows.tolist(), changed, strict=True):
                status = first_rejection(plugins, state, pod, node)
                known.codes[row] = 0 if status is None else known.number_of(status)
                self._points.count_filtered(plugins, status)
            return
        known.codes[changed.rows] = 0
        for plugin in plugins:
            self._points.filters[plugin.name].value += len(changed)
            rejections = ask_filter(plugin, state, pod, changed)
            if rejections.codes is None or not rejections.codes.any():
                continue
            numbers = [known.number_of(status.blame(plugin.name)) for status in rejections.statuses]
            translate = np.asarray([0, *numbers], dtype=np.int32)
            known.codes[changed.rows] = translate[rejections.codes]
            changed = changed.subset(rejections.codes == 0)
            if not len(changed):
                return

    # -- score -------------------------------------------------------------------------

    def score(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        feasible: NodeView,
        *,
        is_local: bool,
    ) -> NDArray[np.int64]:
        """The weighted sum of the local plugins' scores, for the feasible nodes.

        `is_local` says that no other filter had anything to say about the pod.
        """
        skipped = self._local_names & state.skip_score
        if skipped != known.skipped_scores:
            known.skipped_scores, known.score_position = skipped, -1
            known.index = None
        whole = feasible.whole
        changed = _changed(whole, known.score_position)
        is_steady = known.score_position >= 0 and len(changed) <= _FEW_CHANGES
        if len(changed):
            changed = changed.subset(changed.at(known.codes) == 0)
        if len(changed):
            self._refresh_scores(known, state, pod, changed)
        known.score_position = feasible.table.changes.position
        if is_steady and is_local and known.may_have_index:
            self._build_index(known, whole)
        total = feasible.at(known.static_total).astype(np.int64)
        for plugin, weight in self.normalizing:
            if plugin.name in state.skip_score:
                continue
            kept = known.raw_scores[plugin.name]
            zeros = np.zeros(len(feasible), dtype=np.int64)
            raw = zeros if kept is None else feasible.at(kept)
            total += ask_to_normalize(plugin, state, pod, feasible, raw) * weight
        return total

    def _build_index(self, known: Evaluation, whole: NodeView) -> None:
        """Pods of this shape come one after another: from now on only changed rows cost."""
        rows = whole.rows[whole.at(known.codes) == 0]
        known.index = TotalIndex(known.capacity, rows, known.static_total[rows])
        known.index_uses = 0

    # -- choose at once ----------------------------------------------------------------

    def refresh_index(
        self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView
    ) -> list[int] | None:
        """Bring verdicts up to date in the index; the rows that are to be scored, or None.

        None means that the index cannot help: there is none, or too much has changed.
        """
        index, table = known.index, nodes.table
        if index is None or known.skipped_filters != self._local_names & state.skip_filter:
            return None
        changed = table.changes.since(known.filter_position)
        if changed is None or len(changed) > _FEW_CHANGES:
            known.drop_index()
            return None
        plugins = [plugin for plugin in self.filters if plugin.name not in state.skip_filter]
        to_score: list[int] = []
        for row in changed.tolist():
            index.discard(row)
            if not table.is_live[row]:
                continue
            status = first_rejection(plugins, state, pod, nodes.info_at(row))
            known.codes[row] = 0 if status is None else known.number_of(status)
            self._points.count_filtered(plugins, status)
            if status is None:
                to_score.append(row)
        return to_score

    def score_into_index(
        self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView, rows: list[int]
    ) -> TotalIndex | None:
        """Score the rows and put them in; None if not every local score is kept as a sum."""
        index = known.index
        assert index is not None
        if known.skipped_scores != self._local_names & state.skip_score:
            return None
        if rows:
            self._refresh_scores(known, state, pod, nodes.at_rows(np.array(rows, dtype=np.intp)))
            for row, total in zip(rows, known.static_total[rows].tolist(), strict=True):
                index.put(row, total)
        known.filter_position = known.score_position = nodes.table.changes.position
        known.index_uses += 1
        return index

    def _refresh_scores(
        self, known: Evaluation, state: CycleState, pod: Pod, changed: NodeView
    ) -> None:
        static = [each for each in self.static if each[0].name not in state.skip_score]
        normalizing = [
            plugin for plugin, _ in self.normalizing if plugin.name not in state.skip_score
        ]
        rows = changed.rows
        count, evaluations = len(rows), self._points.scores
        for plugin, _ in static:
            evaluations[plugin.name].value += count
        for plugin in normalizing:
            evaluations[plugin.name].value += count
        if count <= _FEW_NODES:
            for row, node in zip(rows.tolist(), changed, strict=True):
                known.static_total[row] = sum(
                    checked_score(plugin, state, pod, node) * weight for plugin, weight in static
                )
                for plugin in normalizing:
                    known.note_raw(plugin.name, row, ask_score_of_node(plugin, state, pod, node))
            return
        total = np.zeros(len(changed), dtype=np.int64)
        for plugin, weight in static:
            scores = ask_score(plugin, state, pod, changed)
            total += ask_to_normalize(plugin, state, pod, changed, scores) * weight
        known.static_total[rows] = total
        for plugin in normalizing:
            known.note_raw(plugin.name, rows, ask_score(plugin, state, pod, changed))


def _changed(nodes: NodeView, position: int) -> NodeView:
    """Those of all nodes whose row changed since the position in the log."""
    rows = nodes.table.changes.since(position) if position >= 0 else None
    if rows is None or 2 * len(rows) > len(nodes):
        return nodes
    return nodes.at_rows(rows[nodes.table.is_live[rows]])
