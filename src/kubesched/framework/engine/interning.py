"""Small dense integers for values that repeat, so that columns hold numbers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["CountedInterner", "Interner"]

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """Values by number and numbers by value. A number, once given, keeps its meaning."""

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self._ids: dict[V, int] = {}
        self.values: list[V] = []

    def __len__(self) -> int:
        return len(self.values)

    def intern(self, value: V) -> int:
        """The number of the value, a new one if it was never seen."""
        number = self._ids.get(value)
        if number is None:
            number = self._ids[value] = len(self.values)
            self.values.append(value)
        return number

    def find(self, value: V) -> int:
        """The number of the value, or -1."""
        return self._ids.get(value, -1)


class CountedInterner(Interner[V]):
    """Counts who holds a number, and gives a number that nobody holds any more to another value.

    So there are as many numbers as there ever were values at the same time. Whoever keeps a
    number without holding it must notice when it is given again.
    """

    __slots__ = ("_blank", "_free", "_holders")

    def __init__(self, blank: V) -> None:
        """`blank` is what stands among the values in the place of a number that is free."""
        super().__init__()
        self._blank = blank
        self._free: list[int] = []
        self._holders: list[int] = []

    def intern(self, value: V) -> int:
        """Hold the number of the value."""
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
        """Hold the number once less."""
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._ids[self.values[number]]
            self.values[number] = self._blank
            self._free.append(number)
