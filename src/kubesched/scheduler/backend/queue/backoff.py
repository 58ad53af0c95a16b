"""The backoff of pods after a failed attempt (docs/reference/03 §3.1, §3.2).

The expiry is floored to a whole second, and a pod leaves its backoff in a later second than that.
So a backoff of d seconds takes more than d and at most d + 1 seconds. Without the gate
SchedulerPopFromBackoffQ there are no windows, and the backoff ends at its exact expiry.
"""

from __future__ import annotations

from kubesched.foundation.util.clock import SECOND
from kubesched.framework import QueuedPodInfo

__all__ = ["NO_BACKOFF_NS", "Backoff"]

# The expiry of a pod without a backoff; it is less than every time.
NO_BACKOFF_NS = -1


class Backoff:
    """A backoff that doubles from `initial_ns` up to `max_ns`; `max_ns` 0 turns it off."""

    __slots__ = ("initial_ns", "max_ns", "window_ns")

    def __init__(self, initial_ns: int, max_ns: int, window_ns: int = SECOND) -> None:
        """Times are floored to multiples of `window_ns`."""
        self.initial_ns = initial_ns
        self.max_ns = max_ns
        self.window_ns = window_ns

    def duration_ns(self, count: int) -> int:
        """Return the backoff after the count-th failure."""
        if count == 0:
            return 0
        if self.initial_ns > self.max_ns >> (count - 1):
            return self.max_ns
        return self.initial_ns << (count - 1)

    def expiration_ns(self, queued: QueuedPodInfo) -> int:
        """Return the window in which the pod's backoff ends; the pod caches it."""
        # Consecutive errors have a count of their own, which ends with the first rejection.
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if self.max_ns == 0 or count == 0:
            return NO_BACKOFF_NS
        if queued.backoff_expiration_ns is None:
            expiry_ns = queued.timestamp_ns + self.duration_ns(count)
            queued.backoff_expiration_ns = expiry_ns - expiry_ns % self.window_ns
        return queued.backoff_expiration_ns

    def is_backing_off(self, queued: QueuedPodInfo, now_ns: int) -> bool:
        # Equal expiry is still backing off: windows are whole seconds, as upstream.
        return self.expiration_ns(queued) >= now_ns - now_ns % self.window_ns
