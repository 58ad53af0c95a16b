"""A bounded cache whose entries expire at times of their own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["ExpiringCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringCache(Generic[K, V]):
    """A mapping with an expiry time per entry. Evicts the least recently used entry when full.

    Callers pass the current time; the cache never reads a clock.
    """

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, tuple[int, V]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now_ns: int) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        end_ns, value = entry
        if now_ns >= end_ns:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V, end_ns: int) -> None:
        self._entries[key] = (end_ns, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
