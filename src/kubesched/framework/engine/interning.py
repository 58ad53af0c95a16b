"""Interning: small dense integers for the repeated values of columns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["CountedInterner", "Interner"]

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """A bijection between values and numbers; a number never changes its value."""

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self._ids: dict[V, int] = {}
        self.values: list[V] = []

    def __len__(self) -> int:
        return len(self.values)

    def intern(self, value: V) -> int:
        """Return the number of the value; an unseen value gets a new number."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def find(self, value: V) -> int:
        """Return the number of the value, or -1."""
        return self._ids.get(value, -1)


class CountedInterner(Interner[V]):
    """An interner with reference counts, which reuses the numbers of released values.

    There are as many numbers as there were values at the same time. A reader that stores a
    number without a reference must detect its reuse.
    """

    __slots__ = ("_blank", "_free", "_holders")

    def __init__(self, blank: V) -> None:
        """`blank` is the value of a free number."""
        super().__init__()
        self._blank = blank
        self._free: list[int] = []
        self._holders: list[int] = []

    def intern(self, value: V) -> int:
        """Return the number of the value, and add a reference to it."""
        number = self._ids.get(value)
        if number is not None:
            self._holders[number] += 1
        elif self._free:
            number = self._ids[value] = self._free.pop()
            self.values[number] = value
            self._holders[number] = 1
        else:
            number = super().intern(value)
            self._holders.append(1)
        return number

    def release(self, number: int) -> None:
        """Remove a reference to the number; without references it becomes free."""
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._ids[self.values[number]]
            self.values[number] = self._blank
            self._free.append(number)
