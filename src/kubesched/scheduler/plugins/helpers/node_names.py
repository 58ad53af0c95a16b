"""A set of node names, with a mask over the node table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeView
from kubesched.framework.engine import NodeTable

__all__ = ["NodeNames"]


class NodeNames:
    """A set of node names; nodes of these names need not exist."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._table: NodeTable | None = None
        self._version = -1  # the table's membership version of the column
        self._column = np.zeros(0, dtype=bool)  # bool[row]

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, name: str) -> None:
        if name not in self._names:
            self._names.add(name)
            self._table = None

    def discard(self, name: str) -> None:
        if name in self._names:
            self._names.discard(name)
            self._table = None

    def mask(self, nodes: NodeView) -> NDArray[np.bool_]:
        """Return which nodes of the view are in the set."""
        table = nodes.table
        if table is not self._table or table.membership_version != self._version:
            self._column = np.zeros(table.capacity, dtype=bool)
            self._column[table.rows_of(self._names)] = True
            self._table, self._version = table, table.membership_version
        return nodes.at(self._column)
