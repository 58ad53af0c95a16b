"""Changes of a cluster in the order of their resource versions, with a view of the next changes.

Every kind has its own watch, so changes of different kinds arrive in any order. An API server
numbers all writes, so the numbers restore the order. A change is delayed by a window, in which
preceding changes of other kinds arrive, and also bindings that were in flight at the same time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["Change", "OrderedChanges"]


class Change(NamedTuple):
    """A new state of an object, or its deletion."""

    seen_ns: int
    after: Any  # None: the object was deleted
    gone: Any  # the last known state of a deleted object
    is_late: bool = False  # changes with later versions were released before

    @property
    def either(self) -> Any:
        return self.gone if self.after is None else self.after


class OrderedChanges:
    """Delays changes by `window_ns`, and releases them in the order of their versions."""

    def __init__(self, window_ns: int) -> None:
        self._window_ns = window_ns
        self._held: list[tuple[int, int, Change]] = []
        self._count = 0
        self._released = 0  # the highest version so far

    def __len__(self) -> int:
        return len(self._held)

    def add(self, change: Change) -> None:
        text = change.either.metadata.resource_version
        # Resource versions that are not numbers cannot be compared; such changes keep the order of
        # arrival.
        version = int(text) if text.isdecimal() else self._released
        self._count += 1
        if version < self._released:
            change = change._replace(is_late=True)
        heapq.heappush(self._held, (version, self._count, change))

    def release(self, now_ns: int) -> Change | None:
        """Return the next change whose window has passed; None without one."""
        if not self._held or self._held[0][2].seen_ns + self._window_ns > now_ns:
            return None
        version, _, change = heapq.heappop(self._held)
        self._released = max(self._released, version)
        return change

    def next_ones(self) -> Sequence[Change]:
        """Return the delayed changes, in order."""
        return [change for _, _, change in sorted(self._held, key=lambda each: each[:2])]
