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

    __slots__ = ("_answer", "_asked", "_base", "_latest", "_rows")

    def __init__(self, capacity: int = 64) -> None:
        self._base = 0
        self._rows: list[int] = []
        self._latest = np.full(capacity, -1, dtype=np.int64)  # int64[row]: its last place here
        self._asked = (-1, -1)  # (from, to) of the last question, and its answer
        self._answer = np.empty(0, dtype=np.intp)

    @property
    def position(self) -> int:
        return self._base + len(self._rows)

    def append(self, row: int) -> None:
        self._latest[row] = self._base + len(self._rows)
        self._rows.append(row)
        if len(self._rows) > 2 * _KEEP:
            del self._rows[:_KEEP]
            self._base += _KEEP

    def grow(self, capacity: int) -> None:
        """Make room for rows up to the capacity."""
        extra = capacity - len(self._latest)
        self._latest = np.pad(self._latest, (0, extra), constant_values=-1)

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The distinct rows that changed since the position, or None if that is forgotten.

        Ascending, and not to be written to: readers that ask the same share the answer.
        """
        start = position - self._base
        if start < 0:
            return None
        question = (position, self.position)
        if question != self._asked:
            recent = len(self._rows) - start
            if recent < _FEW:  # sorting a set beats starting up NumPy
                rows = sorted(set(self._rows[start:]))
                self._answer = np.array(rows, dtype=np.intp)
            else:
                self._answer = np.flatnonzero(self._latest >= position)
            self._asked = question
        return self._answer
