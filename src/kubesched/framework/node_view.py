"""A selection of rows of the node table, for plugins.

Every array that a view returns has one entry per node of the view, in the view's order.
While a view covers the whole table these arrays are views of the columns themselves, so a
plugin must not write to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Taint
from kubesched.framework.engine import CPU, MEMORY, NodeTable
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.pod_index import PodIndex

__all__ = ["DeferredNodeView", "NodeView"]

S = TypeVar("S", bound=np.generic)


class NodeView:
    """A selection of nodes: columns for vector code, NodeInfos for code about one node."""

    __slots__ = ("_count", "_gathered", "_infos", "_rows", "_selection", "pods", "table")

    def __init__(
        self,
        pods: PodIndex,
        infos: Sequence[NodeInfo | None],
        selection: slice | NDArray[np.intp],
    ) -> None:
        self.table: NodeTable = pods.table
        self.pods = pods  # the pods of the whole table
        self._infos = infos  # NodeInfo[row]
        self._selection = selection
        self._count: int = selection.stop if isinstance(selection, slice) else len(selection)
        self._rows: NDArray[np.intp] | None = None
        # Cache of amounts that several plugins read; None for views with a long life.
        self._gathered: dict[tuple[bool, int, int], NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[NodeInfo]:
        """The NodeInfos, in the view's order."""
        infos = self._infos
        for row in self.rows.tolist():
            info = infos[row]
            assert info is not None
            yield info

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row numbers; valid within one scheduling cycle only."""
        if self._rows is None:
            selection = self._selection
            self._rows = np.arange(selection.stop) if isinstance(selection, slice) else selection
        return self._rows

    @property
    def selection(self) -> slice | NDArray[np.intp]:
        """The rows, as a slice where that is possible."""
        return self._selection

    @property
    def is_whole(self) -> bool:
        """Whether this is every node of the cluster."""
        return self._selection is self.table.live_rows

    @property
    def whole(self) -> NodeView:
        """Every node of the cluster."""
        return NodeView(self.pods, self._infos, self.table.live_rows)

    @property
    def names(self) -> Sequence[str]:
        return self.table.names_of(self.rows)

    def row(self, index: int) -> int:
        """Return the row of a node of this view."""
        # A slice begins at 0.
        return index if isinstance(self._selection, slice) else int(self.rows[index])

    def info(self, index: int) -> NodeInfo:
        return self.info_at(self.row(index))

    def info_at(self, row: int) -> NodeInfo:
        """Return the node in a row of the table, inside this view or not."""
        info = self._infos[row]
        assert info is not None
        return info

    def subset(self, keep: NDArray[np.bool_]) -> NodeView:
        """Return the nodes for which `keep` is true."""
        return NodeView(self.pods, self._infos, self.rows[keep])

    def deferred(self, find: Callable[[], slice | NDArray[np.intp]]) -> NodeView:
        """Return a view whose rows `find` computes when they are first read."""
        return DeferredNodeView(self.pods, self._infos, find)

    def at_rows(self, rows: NDArray[np.intp]) -> NodeView:
        """Return a view of other rows of the same table, inside this view or not."""
        view = NodeView(self.pods, self._infos, rows)
        view._gathered = {}
        return view

    def at(self, column: NDArray[S]) -> NDArray[S]:
        """Return the entries of a table column for the nodes of this view."""
        selection = self._selection
        # `take` gathers several times faster than indexing with an array.
        return column[selection] if isinstance(selection, slice) else column.take(selection)

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        return self._amounts(self.table.allocatable, resource)

    def requested(self, resource: str) -> NDArray[np.int64]:
        return self._amounts(self.table.requested, resource)

    def allocatable_of(self, resources: Sequence[str]) -> NDArray[np.int64]:
        """int64[resource, node]"""
        return self._amounts_of(self.table.allocatable, resources)

    def requested_of(self, resources: Sequence[str]) -> NDArray[np.int64]:
        """int64[resource, node]"""
        return self._amounts_of(self.table.requested, resources)

    @property
    def nonzero_requested(self) -> NDArray[np.int64]:
        """Of cpu and memory, int64[resource, node]."""
        return self._at_all(self.table.nonzero_requested)

    @property
    def nonzero_requested_cpu(self) -> NDArray[np.int64]:
        return self.at(self.table.nonzero_requested[CPU])

    @property
    def nonzero_requested_memory(self) -> NDArray[np.int64]:
        return self.at(self.table.nonzero_requested[MEMORY])

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return self.at(self.table.pod_count)

    @property
    def allowed_pods(self) -> NDArray[np.int64]:
        return self.at(self.table.allowed_pods)

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        return self.at(self.table.unschedulable)

    @property
    def taint_set(self) -> NDArray[np.int32]:
        """Per node, the number of its taint list in `taint_sets`."""
        return self.at(self.table.taint_set)

    @property
    def taint_sets(self) -> Sequence[tuple[Taint, ...]]:
        """All distinct taint lists, past ones included; few, however many nodes there are."""
        return self.table.taint_sets.values

    def label_ids(self, key: str) -> NDArray[np.int32]:
        """Per node, the number of its value for the key (-1: absent)."""
        return self.at(self.table.label_column(key).ids)

    def label_equals(self, key: str, value: str) -> NDArray[np.bool_]:
        column = self.table.label_column(key)
        number = column.values.find(value)
        if number < 0:
            return np.zeros(len(self), dtype=bool)
        equal: NDArray[np.bool_] = self.at(column.ids) == number
        return equal

    def has_label(self, key: str) -> NDArray[np.bool_]:
        present: NDArray[np.bool_] = self.label_ids(key) >= 0
        return present

    def label_values(self, key: str) -> NDArray[np.object_]:
        """Per node, its value for the key as text (empty: absent)."""
        column = self.table.label_column(key)
        values: NDArray[np.object_] = column.texts[self.at(column.ids)]
        return values

    def label_numbers(self, key: str, default: float = float("nan")) -> NDArray[np.float64]:
        """Per node, its value for the key as a number (`default`: absent, or no number).

        A number has digits and at most one point, such as `3` or `0.25`.
        """
        column = self.table.label_column(key)
        numbers: NDArray[np.float64] = column.numbers[self.at(column.ids)]
        return np.where(np.isnan(numbers), default, numbers)

    def _amounts(self, matrix: NDArray[np.int64], resource: str) -> NDArray[np.int64]:
        place = self.table.resource_column(resource)
        if place < 0 and matrix is self.table.requested:
            return self.at(self.table.columnless_requests(resource))
        if place < 0 or place >= matrix.shape[0]:
            return np.zeros(len(self), dtype=np.int64)
        return self.at(matrix[place])

    def _amounts_of(self, matrix: NDArray[np.int64], resources: Sequence[str]) -> NDArray[np.int64]:
        columns = self.table.adjacent_columns(tuple(resources))
        if columns is None:
            return np.stack([self._amounts(matrix, name) for name in resources])
        first, end = columns
        if self._gathered is None:
            return self._at_all(matrix[first:end])
        key = (matrix is self.table.requested, first, end)
        amounts = self._gathered.get(key)
        if amounts is None:
            amounts = self._gathered[key] = self._at_all(matrix[first:end])
        return amounts

    def _at_all(self, matrix: NDArray[S]) -> NDArray[S]:
        """Rows of the table are the second axis of the matrix."""
        selection = self._selection
        if isinstance(selection, slice):
            return matrix[:, selection]
        return matrix.take(selection, axis=1)


class DeferredNodeView(NodeView):
    """A view whose rows are computed when they are first read."""

    __slots__ = ("_find", "_found")

    def __init__(
        self,
        pods: PodIndex,
        infos: Sequence[NodeInfo | None],
        find: Callable[[], slice | NDArray[np.intp]],
    ) -> None:
        self.table = pods.table
        self.pods = pods
        self._infos = infos
        self._rows = None
        self._gathered = None
        self._find = find
        self._found: slice | NDArray[np.intp] | None = None

    @property
    def _selection(self) -> slice | NDArray[np.intp]:  # type: ignore[override]
        if self._found is None:
            self._found = self._find()
        return self._found

    @property
    def _count(self) -> int:  # type: ignore[override]
        selection = self._selection
        return int(selection.stop) if isinstance(selection, slice) else len(selection)
