"""The backoff of pods after a failed attempt (docs/reference/03 §3.1, §3.2).

The expiry is floored to a whole second, and a pod leaves its backoff in a later second than that.
So a backoff of d seconds takes more than d and at most d + 1 seconds.
"""

from __future__ import annotations

from kubesched.foundation.util.clock import SECOND
from kubesched.framework import QueuedPodInfo

__all__ = ["NO_BACKOFF_NS", "Backoff", "window"]

# The expiry of a pod without a backoff; it is less than every time.
NO_BACKOFF_NS = -1


def window(time_ns: int) -> int:
    """Floor a time to its whole second."""
    return time_ns - time_ns % SECOND


class Backoff:
    """A backoff that doubles from `initial_ns` up to `max_ns`; `max_ns` 0 turns it off."""

    __slots__ = ("initial_ns", "max_ns")

    def __init__(self, initial_ns: int, max_ns: int) -> None:
        self.initial_ns = initial_ns
        self.max_ns = max_ns

    def duration_ns(self, count: int) -> int:
        """Return the backoff after the count-th failure."""
        if count == 0:
            return 0
        if self.initial_ns > self.max_ns >> (count - 1):
            return self.max_ns
        return self.initial_ns << (count - 1)

    def expiration_ns(self, queued: QueuedPodInfo) -> int:
        """Return the second in which the pod's backoff ends; the pod caches it."""
        # Consecutive errors have a count of their own, which ends with the first rejection.
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if self.max_ns == 0 or count == 0:
            return NO_BACKOFF_NS
        if queued.backoff_expiration_ns is None:
            queued.backoff_expiration_ns = window(queued.timestamp_ns + self.duration_ns(count))
        return queued.backoff_expiration_ns

    def is_backing_off(self, queued: QueuedPodInfo, now_ns: int) -> bool:
        # Equal expiry is still backing off: windows are whole seconds, as upstream.
        return self.expiration_ns(queued) >= window(now_ns)
