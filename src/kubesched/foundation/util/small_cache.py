"""A small cache for keys that are soon used again, such as the spec of the pods of one workload.

A key is found by identity, at a cost that does not depend on its size. Otherwise it is compared
with the few most recently used keys, so that equal keys are found even if they were decoded
separately. Keys are not hashed. After many misses most keys are no longer compared, and the cache
is cleared when it is full, so that keys without repetition cost little. An entry keeps its key
alive, so do not store keys of megabytes.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["SmallCache"]

K = TypeVar("K")
V = TypeVar("V")

_MAX_ENTRIES: Final = 512
_MAX_RECENT: Final = 4
# After this many unsuccessful comparisons, only one key in so many is compared.
_PATIENCE: Final = 16


class SmallCache(Generic[K, V]):
    """Values by keys, which the cache keeps alive. Equal keys must have equal values."""

    __slots__ = ("_entries", "_in_vain", "_recent")

    def __init__(self) -> None:
        # By id. The key is stored too: while it is referenced, no other object gets its id.
        self._entries: dict[int, tuple[K, V]] = {}
        # The latest first. An equal key may follow with an older value; it is never returned.
        self._recent: list[tuple[K, V]] = []
        self._in_vain = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of this key or of an equal one; None if it is not found."""
        found = self._entries.get(id(key))
        if found is not None:
            return found[1]
        if self._in_vain > _PATIENCE and self._in_vain % _PATIENCE:
            self._in_vain += 1
            return None
        for place, entry in enumerate(self._recent):
            if entry[0] == key:
                if place:
                    self._recent.insert(0, self._recent.pop(place))
                self._in_vain = 0
                return entry[1]
        self._in_vain += 1
        return None

    def store(self, key: K, value: V) -> None:
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        entry = self._entries[id(key)] = key, value
        self._recent = [entry, *self._recent[: _MAX_RECENT - 1]]
