"""A small cache whose keys are compared by identity.

Nothing is hashed or compared, so a lookup costs the same however large the key is. It is for
parts that many objects share, such as the spec of the pods of one workload. The cache holds a few
dozen entries and is cleared when it is full: keys that never come again cost next to nothing.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

__all__ = ["IdentityCache"]

K = TypeVar("K")
V = TypeVar("V")

_MAX_ENTRIES: Final = 64


class IdentityCache(Generic[K, V]):
    """Values by the identity of their keys, which the cache keeps alive."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        # By id. The key is stored too: while it is referenced, no other object gets its id.
        self._entries: dict[int, tuple[K, V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        found = self._entries.get(id(key))
        return None if found is None else found[1]

    def store(self, key: K, value: V) -> None:
        if len(self._entries) >= _MAX_ENTRIES:
            self._entries.clear()
        self._entries[id(key)] = key, value
