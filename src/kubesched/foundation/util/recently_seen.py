"""What is known of objects that came lately, found by the objects themselves.

Objects are told apart by identity, so that nothing is hashed or compared: it is for parts that
many objects share, such as the spec of pods of one workload. There is room for a few dozen. When
that is used up all is forgotten, so what never comes again costs next to nothing.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["RecentlySeen"]

K = TypeVar("K")
V = TypeVar("V")

_ROOM: Final = 64


class RecentlySeen(Generic[K, V]):
    """Values by the identity of their keys, which it keeps alive."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # With its key, whose identity no other object gets as long as it is here.
        self._kept: dict[int, tuple[K, V]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        found = self._kept.get(id(key))
        return None if found is None else found[1]

    def keep(self, key: K, value: V) -> None:
        if len(self._kept) >= _ROOM:
            self._kept.clear()
        self._kept[id(key)] = key, value
