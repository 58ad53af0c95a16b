"""Nodes as columns: one row per node, one NumPy array per property.

The cache writes rows, plugins read columns. A row number is stable while its node exists and is
reused afterwards; outside a scheduling cycle, nodes are identified by name. The table contains no
scheduling rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from weakref import ref

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import Node, Taint
from kubesched.api.host_ports import HostPort
from kubesched.api.resource_amounts import Resources
from kubesched.framework.engine.interning import CountedInterner, Interner
from kubesched.framework.engine.sparse_columns import ImageFacts, ImageRows, PortRows

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "ChangeLog",
    "LabelColumn",
    "NodeTable",
    "number_of_label",
]

# Indexes of the built-in resources in the first axis of `allocatable` and `requested`.
CPU, MEMORY, EPHEMERAL_STORAGE = 0, 1, 2
_BUILT_IN = ("cpu", "memory", "ephemeral-storage")
_ALLOCATABLE, _REQUESTED = 0, 1
_NOTHING = Resources()

# Numbers in labels. Infinity and exponents are words and versions there.
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?", re.ASCII)
_NO_LABELS: Mapping[str, str] = {}
# Above this number, label columns that only the table refers to are dropped.
_LABEL_COLUMNS_KEPT = 256
_CHANGES_KEPT = 65_536
_ADJACENT_KEPT = 256
_FEW_CHANGES = 64


def number_of_label(value: str, default: float = math.nan) -> float:
    """Return the number that a label's value is, or the default."""
    return float(value) if _NUMBER.fullmatch(value) else default


class LabelColumn:
    """The values of one label key.

    `ids[row]` is the value's number, -1 if it is absent.

    A number can be reused for another value; `version` changes then.
    """

    __slots__ = ("__weakref__", "_read", "ids", "values", "version")

    def __init__(self, capacity: int) -> None:
        self.ids = np.full(capacity, -1, dtype=np.int32)  # int32[row]
        self.values: CountedInterner[str] = CountedInterner("")
        self.version = 0  # grows with every change to `ids`
        # The values as texts and as numbers, at a version.
        self._read: tuple[int, NDArray[np.object_], NDArray[np.float64]] | None = None

    @property
    def texts(self) -> NDArray[np.object_]:
        """The value of each number; the last entry, of the number -1, is empty."""
        return self._values_read()[1]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The amount of each number's value; NaN if the value is no number, or absent."""
        return self._values_read()[2]

    def _values_read(self) -> tuple[int, NDArray[np.object_], NDArray[np.float64]]:
        if self._read is None or self._read[0] != self.version:
            texts = np.array([*self.values.values, ""], dtype=object)
            amounts = [number_of_label(each) for each in texts]
            self._read = (self.version, texts, np.array(amounts, dtype=np.float64))
        return self._read

    def write(self, row: int, value: str | None) -> None:
        before = int(self.ids[row])
        number = -1 if value is None else self.values.intern(value)
        if before >= 0:
            self.values.release(before)
        if number != before:
            self.ids[row] = number
            self.version += 1


class ChangeLog:
    """The rows that changed, in order: a bounded log of row numbers.

    A reader stores `position` and later reads the rows changed since then. A reader that is too
    far behind gets None and must read every row.
    """

    __slots__ = ("_answer", "_asked", "_base", "_latest", "_length", "_rows", "position")

    def __init__(self, capacity: int = 64) -> None:
        self.position = 0  # the number of changes so far
        self._base = 0  # how many of them were dropped
        self._rows = np.empty(2 * _CHANGES_KEPT, dtype=np.intp)  # the first `_length` are valid
        self._length = 0
        self._latest = np.full(capacity, -1, dtype=np.int64)  # int64[row]: its last position
        self._asked = (-1, -1)  # (from, to) of the last call of `since`, and its result
        self._answer = np.empty(0, dtype=np.intp)

    def append(self, row: int) -> None:
        length = self._length
        if length == len(self._rows):
            # A new array, because readers may still hold a view of this one.
            self._rows = np.concatenate((self._rows[_CHANGES_KEPT:], self._rows[:_CHANGES_KEPT]))
            self._base += _CHANGES_KEPT
            length -= _CHANGES_KEPT
        self._latest[row] = self.position
        self._rows[length] = row
        self._length = length + 1
        self.position += 1

    def grow(self, capacity: int) -> None:
        """Extend the log to rows below the capacity."""
        extra = capacity - len(self._latest)
        self._latest = np.pad(self._latest, (0, extra), constant_values=-1)

    def since(self, position: int) -> NDArray[np.intp] | None:
        """Return the distinct rows that changed since the position, or None if too old.

        They are ascending. Readers of the same position share the array: do not modify it.
        """
        recent = self.recent(position)
        if recent is None:
            return None
        question = (position, self.position)
        if question != self._asked:
            if len(recent) < _FEW_CHANGES:  # sorting a small set is faster than NumPy
                self._answer = np.array(sorted(set(recent.tolist())), dtype=np.intp)
            else:
                self._answer = np.flatnonzero(self._latest >= position)
            self._asked = question
        return self._answer

    def recent(self, position: int) -> NDArray[np.intp] | None:
        """Return the rows that changed since the position, in order; None if too old.

        A row occurs as often as it changed. Takes constant time. Do not modify the array.
        """
        start = position - self._base
        return None if start < 0 else self._rows[start : self._length]


class NodeTable:
    """One row per node; only the cache writes."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self._free: list[int] = []
        self._high = 0  # rows from here on were never used
        self._live_rows: slice | NDArray[np.intp] | None = None
        self.membership_version = 0  # grows when a node is added or removed
        self.node_version = 0  # grows when more than the pods of a row changes
        self._label_columns: dict[str, LabelColumn] = {}
        self._label_columns_kept = _LABEL_COLUMNS_KEPT
        self._labels: list[Mapping[str, str]] = []  # per row, for label columns created later
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []  # str[row], "" for a free row
        self.is_live = np.zeros(capacity, dtype=bool)  # False for a free row
        self.resources: Interner[str] = Interner()
        for name in _BUILT_IN:
            self.resources.intern(name)
        # As with labels, a number can be reused for other taints; `taint_version` changes then.
        self.taint_sets: CountedInterner[tuple[Taint, ...]] = CountedInterner(())
        self.taint_version = 0
        self.changes = ChangeLog(capacity)
        # Rows where a pod's labels or start time changed, which are in no column.
        self.pod_changes = ChangeLog(capacity)
        # int64[resource, row]; the arrays have spare capacity for further resources.
        self._amounts_room = np.zeros((2, len(_BUILT_IN), capacity), dtype=np.int64)
        self.allocatable, self.requested = self._amounts_room
        # The columns of the other resources that a row's node has, or that its pods request.
        self._scalars_of: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        # Row -> requests of resources that no node has. They have no column: otherwise each pod
        # with an invented resource name would permanently add a column for all nodes.
        self._columnless_requests: dict[int, dict[str, int]] = {}
        self._adjacent: dict[tuple[str, ...], tuple[int, int]] = {}
        self.nonzero_requested = np.zeros((2, capacity), dtype=np.int64)  # cpu, memory
        self.pod_count = np.zeros(capacity, dtype=np.int64)
        self.allowed_pods = np.zeros(capacity, dtype=np.int64)
        self.unschedulable = np.zeros(capacity, dtype=bool)
        self.taint_set = np.zeros(capacity, dtype=np.int32)  # number in taint_sets
        self.taint_sets.intern(())
        # The features that nodes declare.
        self.feature_sets: CountedInterner[tuple[str, ...]] = CountedInterner(())
        self.feature_set = np.zeros(capacity, dtype=np.int32)  # number in feature_sets
        self.feature_sets.intern(())
        self.ports = PortRows()
        self.images = ImageRows()

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def live_rows(self) -> slice | NDArray[np.intp]:
        """The rows that have a node.

        A slice while no row is free, so that columns are views.
        """
        if self._live_rows is None:
            if len(self.row_of) == self._high:
                self._live_rows = slice(0, self._high)
            else:
                self._live_rows = np.fromiter(
                    sorted(self.row_of.values()), dtype=np.intp, count=len(self.row_of)
                )
        return self._live_rows

    def add_row(self, name: str) -> int:
        """Assign a row to the node; all of its values are zero."""
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self._high
            if row == self.capacity:
                self._grow()
            self._high += 1
            self.names.append(name)
            self._labels.append(_NO_LABELS)
        self.row_of[name] = row
        self.is_live[row] = True
        self._live_rows = None
        self.membership_version += 1
        self.node_version += 1
        return row

    def remove_row(self, name: str) -> None:
        row = self.row_of.pop(name)
        self.names[row] = ""
        self.is_live[row] = False
        self._free.append(row)
        self._live_rows = None
        self.membership_version += 1
        self.node_version += 1
        self._write_labels(row, _NO_LABELS)
        self._write_resources(_ALLOCATABLE, row, _NOTHING)
        self._write_resources(_REQUESTED, row, _NOTHING)
        self.nonzero_requested[:, row] = 0
        self.pod_count[row] = 0
        self.allowed_pods[row] = 0
        self.unschedulable[row] = False
        self._write_taints(row, ())
        self._write_features(row, ())
        self.ports.write(row, ())
        self.images.write(row, {})
        self.changes.append(row)

    def write_node(self, row: int, node: Node, allocatable: Resources, allowed_pods: int) -> None:
        """Write the properties of a node object to its row."""
        self.node_version += 1
        self._write_resources(_ALLOCATABLE, row, allocatable)
        self.allowed_pods[row] = allowed_pods
        self.unschedulable[row] = node.spec.unschedulable
        self._write_taints(row, node.spec.taints)
        self._write_features(row, node.status.declared_features)
        self._write_labels(row, node.metadata.labels)

    def write_ports(self, row: int, used: Collection[HostPort]) -> None:
        """Write the used host ports of a node.

        The caller logs the row with `write_usage`.
        """
        self.ports.write(row, used)

    def write_images(self, row: int, images: Mapping[str, ImageFacts]) -> None:
        """Write the images of a node; the mapping must not change afterwards."""
        self.node_version += 1
        self.images.write(row, images)

    def write_usage(
        self, row: int, requested: Resources, nonzero_cpu: int, nonzero_memory: int, pods: int
    ) -> None:
        """Write the requests of the pods on a node, and log the row as changed."""
        self._write_resources(_REQUESTED, row, requested)
        self.nonzero_requested[0, row] = nonzero_cpu
        self.nonzero_requested[1, row] = nonzero_memory
        self.pod_count[row] = pods
        self.changes.append(row)

    def resource_column(self, name: str) -> int:
        """Return the index of a resource in the first axis, or -1 if no node ever had it."""
        return self.resources.find(name)

    def adjacent_columns(self, names: tuple[str, ...]) -> tuple[int, int] | None:
        """Return the first index of these resources and the one after the last.

        The result is None unless all have adjacent columns in this order.
        """
        columns = self._adjacent.get(names)
        if columns is None:
            places = [self.resources.find(name) for name in names]
            columns = (places[0], places[-1] + 1)
            if places[0] < 0 or places != list(range(*columns)) or columns[1] > len(self.requested):
                return None
            if len(self._adjacent) >= _ADJACENT_KEPT:
                self._adjacent.clear()
            self._adjacent[names] = columns  # a resource never loses its column
        return columns

    def columnless_requests(self, name: str) -> NDArray[np.int64]:
        """Return the requests of a resource that has no column, int64[row]."""
        requested = np.zeros(self.capacity, dtype=np.int64)
        for row, amounts in self._columnless_requests.items():
            requested[row] = amounts.get(name, 0)
        return requested

    def label_column(self, key: str) -> LabelColumn:
        """Return the column of a label key; it is updated while the caller refers to it."""
        column = self._label_columns.get(key)
        if column is None:
            if len(self._label_columns) >= self._label_columns_kept:
                self._drop_label_columns()
            column = self._label_columns[key] = LabelColumn(self.capacity)
            for row, labels in enumerate(self._labels):
                if key in labels:
                    column.write(row, labels[key])
        return column

    def rows_of(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Return the rows of those of the named nodes that exist, ascending."""
        rows = {self.row_of[name] for name in names if name in self.row_of}
        return np.fromiter(sorted(rows), dtype=np.intp, count=len(rows))

    def names_of(self, rows: NDArray[np.intp]) -> Sequence[str]:
        names = self.names
        return [names[row] for row in rows.tolist()]

    def _write_labels(self, row: int, labels: Mapping[str, str]) -> None:
        before = self._labels[row]
        if before is labels or before == labels:
            return
        self._labels[row] = labels
        for key, column in self._label_columns.items():
            column.write(row, labels.get(key))

    def _drop_label_columns(self) -> None:
        """Drop the columns that only the table refers to."""
        held = {key: ref(column) for key, column in self._label_columns.items()}
        self._label_columns.clear()
        for key, reference in held.items():
            column = reference()
            if column is not None:
                self._label_columns[key] = column
        self._label_columns_kept = max(_LABEL_COLUMNS_KEPT, 2 * len(self._label_columns))

    def _write_taints(self, row: int, taints: tuple[Taint, ...]) -> None:
        before = int(self.taint_set[row])
        number = self.taint_sets.intern(_without_times(taints)) if taints else 0
        if before:
            self.taint_sets.release(before)
        if number != before:
            self.taint_set[row] = number
            self.taint_version += 1

    def _write_features(self, row: int, features: tuple[str, ...]) -> None:
        before = int(self.feature_set[row])
        self.feature_set[row] = self.feature_sets.intern(features) if features else 0
        if before:
            self.feature_sets.release(before)

    def _write_resources(self, which: int, row: int, amounts: Resources) -> None:
        scalars: Mapping[str, int] = amounts.scalar
        if which == _REQUESTED and (scalars or row in self._columnless_requests):
            scalars = self._column_requests(row, scalars)
        if scalars or row in self._scalars_of[which]:
            self._write_scalars(which, row, scalars)
        matrix = self.requested if which == _REQUESTED else self.allocatable
        matrix[CPU, row] = amounts.milli_cpu
        matrix[MEMORY, row] = amounts.memory
        matrix[EPHEMERAL_STORAGE, row] = amounts.ephemeral_storage

    def _column_requests(self, row: int, requested: Mapping[str, int]) -> Mapping[str, int]:
        """Return the requests of resources that have a column, and store the others."""
        rest = {name: amount for name, amount in requested.items() if self.resources.find(name) < 0}
        if not rest:
            self._columnless_requests.pop(row, None)
            return requested
        self._columnless_requests[row] = rest
        return {name: amount for name, amount in requested.items() if name not in rest}

    def _move_to_column(self, name: str) -> None:
        """Move stored requests of a resource to its new column."""
        place = self.resources.find(name)
        for row, amounts in list(self._columnless_requests.items()):
            amount = amounts.pop(name, None)
            if amount is None:
                continue
            self.requested[place, row] = amount
            self._scalars_of[_REQUESTED].setdefault(row, []).append(place)
            self.changes.append(row)
            if not amounts:
                del self._columnless_requests[row]

    def _write_scalars(self, which: int, row: int, scalars: Mapping[str, int]) -> None:
        known = len(self.resources)
        places = [self.resources.intern(name) for name in scalars]
        if len(self.resources) > len(self.requested):
            self._make_room()
        for place in range(known, len(self.resources)):
            self._move_to_column(self.resources.values[place])
        matrix, places_of = self._amounts_room[which], self._scalars_of[which]
        before = places_of.get(row)
        if before != places:
            for place in before or ():
                matrix[place, row] = 0
            places_of[row] = places
        for place, amount in zip(places, scalars.values(), strict=True):
            matrix[place, row] = amount

    def _make_room(self) -> None:
        """Extend the arrays to the number of resources and the capacity."""
        room, wanted = self._amounts_room, len(self.resources)
        _, places, capacity = room.shape
        if wanted > places or self.capacity > capacity:
            # Double the size: otherwise thousands of new resources would cause thousands of copies.
            shape = (2, places if wanted <= places else 2 * wanted, self.capacity)
            self._amounts_room = np.zeros(shape, dtype=np.int64)
            self._amounts_room[:, :places, :capacity] = room
        self.allocatable, self.requested = self._amounts_room[:, :wanted]

    def _grow(self) -> None:
        extra = self.capacity
        self.capacity += extra
        wide = ((0, 0), (0, extra))
        self.changes.grow(self.capacity)
        self.pod_changes.grow(self.capacity)
        self._make_room()
        self.nonzero_requested = np.pad(self.nonzero_requested, wide)
        self.is_live = np.pad(self.is_live, (0, extra))
        self.pod_count = np.pad(self.pod_count, (0, extra))
        self.allowed_pods = np.pad(self.allowed_pods, (0, extra))
        self.unschedulable = np.pad(self.unschedulable, (0, extra))
        self.taint_set = np.pad(self.taint_set, (0, extra))
        self.feature_set = np.pad(self.feature_set, (0, extra))
        for column in self._label_columns.values():
            column.ids = np.pad(column.ids, (0, extra), constant_values=-1)


def _without_times(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Return taints without their time, which would make every list distinct."""
    if not any(taint.time_added for taint in taints):
        return taints
    return tuple(replace(taint, time_added=None) for taint in taints)
