"""Small dense integers for values that repeat, so that columns hold numbers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Interner"]

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
