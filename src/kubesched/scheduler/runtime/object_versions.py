"""How often the watched objects of each kind have changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

__all__ = ["ObjectVersions"]


class ObjectVersions:
    """Counts changes of objects besides nodes and pods, which plugins get from listers."""

    __slots__ = ("_by_kind", "total")

    def __init__(self) -> None:
        self.total = 0
        self._by_kind: Counter[type[Any]] = Counter()

    def changed(self, kind: type[Any]) -> None:
        """An object of the kind was added, updated or deleted."""
        self.total += 1
        self._by_kind[kind] += 1

    def of(self, kinds: tuple[type[Any], ...] | None) -> int:
        """Grows with every change of an object of these kinds; None: of any kind."""
        if kinds is None:
            return self.total
        return sum(self._by_kind[kind] for kind in kinds)
