"""Which rows changed, in order, so that a reader can catch up from where it was."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ChangeLog"]

_KEEP = 65_536
_FEW = 64


class ChangeLog:
    """An append-only log of row numbers with a bounded memory.

    A reader remembers `position` and later asks for the rows since then. One that lags so
    far behind that entries are gone gets None and must look at every row.
    """

    __slots__ = ("_base", "_rows")

    def __init__(self) -> None:
        self._base = 0
        self._rows: list[int] = []

    @property
    def position(self) -> int:
        return self._base + len(self._rows)

    def append(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > 2 * _KEEP:
            del self._rows[:_KEEP]
            self._base += _KEEP

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The distinct rows that changed since the position, or None if that is forgotten."""
        start = position - self._base
        if start < 0:
            return None
        recent = self._rows[start:]
        if len(recent) < _FEW:  # sorting a set beats starting up NumPy
            return np.array(sorted(set(recent)), dtype=np.intp)
        return np.unique(np.asarray(recent, dtype=np.intp))
