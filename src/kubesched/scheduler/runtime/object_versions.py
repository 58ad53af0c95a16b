"""Version counters of the watched objects, by kind."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["ObjectVersions"]


class ObjectVersions:
    """Counts the changes of objects that plugins read from listers, besides nodes and pods."""

    __slots__ = ("_by_kind", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_kind: Counter[type[Any]] = Counter()

    def changed(self, kind: type[Any]) -> None:
        """Count that an object of the kind was added, updated or deleted."""
        self.total += 1
        self._by_kind[kind] += 1

    def of(self, kinds: tuple[type[Any], ...] | None) -> int:
        """Return a number that grows with every change of these kinds; None: of any kind."""
        if kinds is None:
            return self.total
        return sum(self._by_kind[kind] for kind in kinds)
