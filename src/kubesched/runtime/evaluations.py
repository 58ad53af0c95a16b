"""Verdicts and scores that are kept between pods of the same shape.

A node-local plugin answers from the pod and the node's own row. For two pods that look the
same to such plugins its answers differ only on rows that changed in between, and the table's
change log says which. So answers are kept per shape, and only changed rows are asked again.
Nothing here decides: a kept answer is what the plugin itself said about that very row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, takewhile

import msgspec
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
    PodsMatter,
    Status,
    overrides,
)
from kubesched.runtime.asking import (
    ask_filter,
    ask_score,
    ask_score_of_node,
    ask_to_normalize,
    check_range,
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
# An index is made when so many pods of a shape in a row found few changes.
_STEADY = 2
_encode = msgspec.json.Encoder(order="deterministic").encode


class Evaluation:
    """What node-local plugins said about every row, for pods of one shape."""

    __slots__ = (
        "_is_final",
        "_numbers",
        "codes",
        "filter_position",
        "filter_version",
        "has_final",
        "index",
        "index_uses",
        "is_scored",
        "may_have_index",
        "node_total",
        "raw_scores",
        "score_position",
        "score_version",
        "skipped_filters",
        "skipped_scores",
        "static_total",
        "statuses",
        "steady",
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
        # bool[code]: whatever pods come or go, the node is told so.
        self._is_final = [False]
        self.has_final = False
        # Places in the change log up to which the answers are right; -1: nothing is known.
        self.filter_position = -1
        self.score_position = -1
        # The table's version of its nodes at that time.
        self.filter_version = -1
        self.score_version = -1
        # Weighted sum of the scores that need no normalising.
        self.static_total: NDArray[np.signedinteger] = np.zeros(capacity, dtype=total_type)
        # The part of it that has nothing to do with pods; None while it is zero everywhere.
        self.node_total: NDArray[np.signedinteger] | None = None
        self.is_scored = np.zeros(capacity, dtype=bool)  # bool[row]: that part is known
        # The others as they are; None while every row's score is zero, as it mostly is.
        self.raw_scores: dict[str, NDArray[np.int64] | None] = dict.fromkeys(normalizing)
        # Rows that pass, by static total, in step with both positions; None: not kept.
        self.index: TotalIndex | None = None
        self.index_uses = 0
        self.may_have_index = True
        self.steady = 0  # how many pods in a row found few changes
        self.versions: tuple[Hashable, ...] = ()

    @property
    def capacity(self) -> int:
        return len(self.codes)

    @property
    def size_bytes(self) -> int:
        return self.capacity * (5 + 2 * self.static_total.itemsize + 8 * len(self.raw_scores))

    def forget(self) -> None:
        """What the answers depended on, besides rows, is no longer the same."""
        self.filter_position = self.score_position = -1
        self.filter_version = self.score_version = -1
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

    def note_node_total(
        self, rows: int | NDArray[np.intp], totals: int | NDArray[np.int64]
    ) -> None:
        """Keep the part of the sum that has nothing to do with pods."""
        if self.node_total is None:
            if not (totals if isinstance(totals, int) else totals.any()):
                return
            self.node_total = np.zeros_like(self.static_total)
        self.node_total[rows] = totals

    def number_of(self, status: Status, *, is_final: bool = False) -> int:
        number = self._numbers.get(status)
        if number is None:
            self.statuses.append(status)
            self._is_final.append(is_final)
            self.has_final |= is_final
            number = self._numbers[status] = len(self.statuses)
        return number

    def is_final(self, code: int) -> bool:
        return self._is_final[code]

    def are_final(self, codes: NDArray[np.int32]) -> NDArray[np.bool_]:
        return np.array(self._is_final).take(codes)


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
        # What these say stays true when pods come and go, and none is asked before them.
        self._node_filters = frozenset(
            plugin.name for plugin in takewhile(_sees_no_pods, self.filters)
        )
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
        if len(changed) or known.score_position != known.filter_position:
            known.drop_index()
        if len(changed):
            self._refresh_verdicts(known, state, pod, changed)
        _note_filtered(known, nodes)
        codes = nodes.at(known.codes)
        if not codes.any():
            return nodes
        rejected = codes != 0
        diagnosis.add_verdicts(nodes.rows[rejected], codes[rejected], tuple(known.statuses))
        return nodes.subset(~rejected)

    def passing(self, known: Evaluation, nodes: NodeView) -> NodeView:
        """Those of all nodes that the local filters let pass, while nothing changed since."""
        codes = nodes.at(known.codes)
        return nodes.subset(codes == 0) if codes.any() else nodes

    def _refresh_verdicts(
        self, known: Evaluation, state: CycleState, pod: Pod, changed: NodeView
    ) -> None:
        plugins = self._filters_to_ask(known, state, changed)
        if len(changed) <= _FEW_NODES:
            for row in changed.rows.tolist():
                self._refresh_verdict(known, state, pod, changed, row, plugins)
            return
        if known.has_final and known.filter_version == changed.table.node_version:
            changed = changed.subset(~known.are_final(changed.at(known.codes)))
        known.codes[changed.rows] = 0
        for plugin in plugins:
            if not len(changed):
                return
            self._points.filters[plugin.name].value += len(changed)
            rejections = ask_filter(plugin, state, pod, changed)
            if rejections.codes is None or not rejections.codes.any():
                continue
            is_final = plugin.name in self._node_filters
            numbers = [
                known.number_of(status.blame(plugin.name), is_final=is_final)
                for status in rejections.statuses
            ]
            translate = np.asarray([0, *numbers], dtype=np.int32)
            known.codes[changed.rows] = translate[rejections.codes]
            changed = changed.subset(rejections.codes == 0)

    def _filters_to_ask(
        self, known: Evaluation, state: CycleState, nodes: NodeView
    ) -> list[Plugin]:
        """Those with something to say about rows that changed."""
        skipped = state.skip_filter
        if known.filter_version == nodes.table.node_version:
            skipped = skipped | self._node_filters  # only pods came and went
        return [plugin for plugin in self.filters if plugin.name not in skipped]

    def _refresh_verdict(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        row: int,
        plugins: Sequence[Plugin],
    ) -> bool:
        """Ask about one row; whether the node passes."""
        if known.has_final and known.filter_version == nodes.table.node_version:
            code = int(known.codes[row])
            if code and known.is_final(code):
                return False
        status = first_rejection(plugins, state, pod, nodes.info_at(row))
        self._points.count_filtered(plugins, status)
        if status is None:
            known.codes[row] = 0
            return True
        is_final = status.plugin in self._node_filters
        known.codes[row] = known.number_of(status, is_final=is_final)
        return False

    # -- score -------------------------------------------------------------------------

    def score(
        self, known: Evaluation, state: CycleState, pod: Pod, feasible: NodeView
    ) -> NDArray[np.int64]:
        """The weighted sum of the local plugins' scores, for the feasible nodes."""
        skipped = self._local_names & state.skip_score
        if skipped != known.skipped_scores:
            known.skipped_scores, known.score_position = skipped, -1
            known.score_version = -1
            known.index = None
        whole = feasible.whole
        changed = _changed(whole, known.score_position)
        is_steady = known.score_position >= 0 and len(changed) <= _FEW_CHANGES
        known.steady = known.steady + 1 if is_steady else 0
        if len(changed):
            self._refresh_scores(known, state, pod, changed)
        _note_scored(known, whole)
        if known.steady >= _STEADY and known.index is None and known.may_have_index:
            self._build_index(known, whole)
        total = feasible.at(known.static_total).astype(np.int64)
        for plugin, weight in self.normalizing:
            if plugin.name in state.skip_score:
                continue
            kept = known.raw_scores[plugin.name]
            if kept is None:
                uniform = plugin.uniform_score(state, pod, whole)
                if uniform is not None:
                    total += uniform * weight
                    continue
            raw = np.zeros(len(feasible), dtype=np.int64) if kept is None else feasible.at(kept)
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
        if (
            changed is None
            or len(changed) > _FEW_CHANGES
            or known.score_position != known.filter_position
        ):
            known.drop_index()
            return None
        plugins = self._filters_to_ask(known, state, nodes)
        to_score: list[int] = []
        for row in changed.tolist():
            index.discard(row)
            if table.is_live[row] and self._refresh_verdict(known, state, pod, nodes, row, plugins):
                to_score.append(row)
        _note_filtered(known, nodes)
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
        _note_scored(known, nodes)
        known.index_uses += 1
        return index

    def _refresh_scores(
        self, known: Evaluation, state: CycleState, pod: Pod, changed: NodeView
    ) -> None:
        """Ask about those of the changed rows that pass."""
        only_pods = known.score_version == changed.table.node_version
        if not only_pods:
            known.is_scored[changed.rows] = False
        codes = changed.at(known.codes)
        if codes.any():
            changed = changed.subset(codes == 0)
        rows = changed.rows
        if only_pods:
            only_pods = bool(known.is_scored[rows].all())
        known.is_scored[rows] = True
        skipped = state.skip_score
        scoring = _Scoring(
            [each for each in self.static if each[0].name not in skipped],
            [plugin for plugin, _ in self.normalizing if plugin.name not in skipped],
            only_pods,
        )
        for plugin in scoring.plugins:
            self._points.scores[plugin.name].value += len(rows)
        if len(rows) <= _FEW_NODES:
            for row, node in zip(rows.tolist(), changed, strict=True):
                scoring.score_row(known, state, pod, row, node)
        else:
            scoring.score_rows(known, state, pod, changed)


class _Scoring:
    """The local plugins that are asked about rows, by what becomes of their scores."""

    __slots__ = ("_by_node", "_by_pods", "_normalizing", "_only_pods")

    def __init__(
        self,
        static: Sequence[tuple[Plugin, int]],
        normalizing: Sequence[Plugin],
        only_pods: bool,
    ) -> None:
        """With `only_pods` nothing but pods changed: plugins that see none are not asked."""
        self._only_pods = only_pods
        self._by_pods = [each for each in static if not _sees_no_pods(each[0])]
        self._by_node: list[tuple[Plugin, int]] = []
        if not only_pods:
            self._by_node = [each for each in static if _sees_no_pods(each[0])]
        self._normalizing = [
            plugin for plugin in normalizing if not (only_pods and _sees_no_pods(plugin))
        ]

    @property
    def plugins(self) -> Iterator[Plugin]:
        for plugin, _ in chain(self._by_pods, self._by_node):
            yield plugin
        yield from self._normalizing

    def score_row(
        self, known: Evaluation, state: CycleState, pod: Pod, row: int, node: NodeInfo
    ) -> None:
        """Ask about one node: up to a handful of rows this is quicker than starting up NumPy."""
        total = sum(
            checked_score(plugin, state, pod, node) * weight for plugin, weight in self._by_pods
        )
        if not self._only_pods:
            of_node = sum(
                checked_score(plugin, state, pod, node) * weight for plugin, weight in self._by_node
            )
            known.note_node_total(row, of_node)
            total += of_node
        elif known.node_total is not None:
            total += int(known.node_total[row])
        known.static_total[row] = total
        for plugin in self._normalizing:
            known.note_raw(plugin.name, row, ask_score_of_node(plugin, state, pod, node))

    def score_rows(self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView) -> None:
        rows = nodes.rows
        total = _weighted(self._by_pods, state, pod, nodes)
        if not self._only_pods:
            of_nodes = _weighted(self._by_node, state, pod, nodes)
            known.note_node_total(rows, of_nodes)
            total += of_nodes
        elif known.node_total is not None:
            total += nodes.at(known.node_total)
        known.static_total[rows] = total
        for plugin in self._normalizing:
            known.note_raw(plugin.name, rows, ask_score(plugin, state, pod, nodes))


def _weighted(
    plugins: Sequence[tuple[Plugin, int]], state: CycleState, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    total = np.zeros(len(nodes), dtype=np.int64)
    for plugin, weight in plugins:
        scores = ask_score(plugin, state, pod, nodes)
        check_range(plugin, scores)
        total += scores if weight == 1 else scores * weight
    return total


def _sees_no_pods(plugin: Plugin) -> bool:
    return plugin.pods_matter is PodsMatter.NOT_AT_ALL


def _note_filtered(known: Evaluation, nodes: NodeView) -> None:
    known.filter_position = nodes.table.changes.position
    known.filter_version = nodes.table.node_version


def _note_scored(known: Evaluation, nodes: NodeView) -> None:
    known.score_position = nodes.table.changes.position
    known.score_version = nodes.table.node_version


def _changed(nodes: NodeView, position: int) -> NodeView:
    """Those of all nodes whose row changed since the position in the log."""
    table = nodes.table
    rows = table.changes.since(position) if position >= 0 else None
    if rows is None or 2 * len(rows) > len(nodes):
        return nodes
    if not isinstance(table.live_rows, slice):
        rows = rows[table.is_live[rows]]
    return nodes.at_rows(rows)
