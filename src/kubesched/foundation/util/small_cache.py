"""A small cache for keys that come again at once, such as the spec of the pods of one workload.

A key is found by identity, at a cost that does not depend on its size. Otherwise it is compared
with the few keys that were used last: equal keys that are decoded one by one, without sharing, are
found too. Nothing is hashed. The cache is cleared when it is full: keys that never come again cost
next to nothing. An entry keeps its key alive, so do not store keys of megabytes.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["SmallCache"]

K = TypeVar("K")
V = TypeVar("V")

_MAX_ENTRIES: Final = 512
_MAX_RECENT: Final = 4


class SmallCache(Generic[K, V]):
    """Values by keys, which the cache keeps alive. Equal keys must have equal values."""

    __slots__ = ("_entries", "_recent")

    def __init__(self) -> None:
        # By id. The key is stored too: while it is referenced, no other object gets its id.
        self._entries: dict[int, tuple[K, V]] = {}
        self._recent: list[tuple[K, V]] = []  # keys that differ, the latest first

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of this key or of an equal one; None if it is not found."""
        found = self._entries.get(id(key))
        if found is not None:
            return found[1]
        for place, entry in enumerate(self._recent):
            if entry[0] == key:
                if place:
                    self._recent.insert(0, self._recent.pop(place))
                return entry[1]
        return None

    def store(self, key: K, value: V) -> None:
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        entry = self._entries[id(key)] = key, value
        different = [each for each in self._recent if each[0] != key]
        self._recent = [entry, *different[: _MAX_RECENT - 1]]
