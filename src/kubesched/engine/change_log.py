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

    __slots__ = ("_answer", "_asked", "_base", "_latest", "_length", "_rows")

    def __init__(self, capacity: int = 64) -> None:
        self._base = 0
        self._rows = np.empty(2 * _KEEP, dtype=np.intp)  # so many of them are used:
        self._length = 0
        self._latest = np.full(capacity, -1, dtype=np.int64)  # int64[row]: its last place here
        self._asked = (-1, -1)  # (from, to) of the last question, and its answer
        self._answer = np.empty(0, dtype=np.intp)

    @property
    def position(self) -> int:
        return self._base + self._length

    def append(self, row: int) -> None:
        if self._length == len(self._rows):
            # Another array, because readers may still hold a part of this one.
            self._rows = np.concatenate((self._rows[_KEEP:], self._rows[:_KEEP]))
            self._base += _KEEP
            self._length -= _KEEP
        self._latest[row] = self._base + self._length
        self._rows[self._length] = row
        self._length += 1

    def grow(self, capacity: int) -> None:
        """Make room for rows up to the capacity."""
        extra = capacity - len(self._latest)
        self._latest = np.pad(self._latest, (0, extra), constant_values=-1)

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The distinct rows that changed since the position, or None if that is forgotten.

        Ascending, and not to be written to: readers that ask the same share the answer.
        """
        recent = self.recent(position)
        if recent is None:
            return None
        question = (position, self.position)
        if question != self._asked:
            if len(recent) < _FEW:  # sorting a set beats starting up NumPy
                self._answer = np.array(sorted(set(recent.tolist())), dtype=np.intp)
            else:
                self._answer = np.flatnonzero(self._latest >= position)
            self._asked = question
        return self._answer

    def recent(self, position: int) -> NDArray[np.intp] | None:
        """The rows that changed since the position, in order and as often as they did; or None.

        Costs nothing, however many they are. Not to be written to.
        """
        start = position - self._base
        return None if start < 0 else self._rows[start : self._length]
