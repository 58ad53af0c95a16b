"""The unsent bytes of responses, over all connections of a server.

A client that reads slowly, or not at all, keeps its response in memory. The total has a limit.
Beyond it the server drops the clients that have received nothing for some time, the longest first.
If that is not enough, it temporarily refuses further large responses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

__all__ = ["UnsentBytes"]


class _Unsent:
    __slots__ = ("abort", "remaining", "since")

    def __init__(self, remaining: int, since: float, abort: Callable[[], None]) -> None:
        self.remaining, self.since, self.abort = remaining, since, abort


class UnsentBytes:
    """Counts unsent bytes by connection."""

    def __init__(self, most: int, patience_seconds: float) -> None:
        """A client that has taken nothing for `patience_seconds` may be dropped."""
        self._most = most
        self._patience = patience_seconds
        # The unsent bytes of all connections.
        self.total = 0
        # In the order in which the connections last took something.
        self._waiting: dict[Hashable, _Unsent] = {}

    def make_room(self, size: int, now: float) -> bool:
        """Drop stalled clients until a response fits. Returns False if it still does not.

        A single response always fits.
        """
        for other in list(self._waiting.values()):
            if self.total + size <= self._most or now - other.since < self._patience:
                break
            # The connection ends later, and frees the bytes at that time.
            self.total -= other.remaining
            other.remaining = 0
            other.abort()
        return not self._waiting or self.total + size <= self._most

    def begin(self, key: Hashable, size: int, now: float, abort: Callable[[], None]) -> None:
        """Count a response that is about to be sent. `abort` drops its client."""
        self._waiting[key] = _Unsent(size, now, abort)
        self.total += size

    def taken(self, key: Hashable, size: int, now: float) -> None:
        """Note that a client has taken bytes."""
        unsent = self._waiting.pop(key)
        size = min(size, unsent.remaining)
        unsent.remaining -= size
        self.total -= size
        unsent.since = now
        self._waiting[key] = unsent

    def end(self, key: Hashable) -> None:
        """Remove a response that was sent, or whose client disconnected."""
        self.total -= self._waiting.pop(key).remaining
