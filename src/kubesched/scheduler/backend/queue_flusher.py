"""Drives the queue's flushes: time's part in who is tried next (docs/reference/03 §3.4, §5.11)."""

from __future__ import annotations

import asyncio

from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.scheduler.backend.queue import SchedulingQueue

__all__ = ["QueueFlusher"]

_UNSCHEDULABLE_PERIOD_NS = 30 * SECOND


class QueueFlusher:
    """At every whole second ends backoffs; at once and every 30 s retries what waits too long.

    While no pod backs off it sleeps: a quiet cluster costs a simulation nothing.
    """

    def __init__(self, queue: SchedulingQueue, clock: Clock) -> None:
        self._queue, self._clock = queue, clock
        self._woken = asyncio.Event()
        self._is_stopping = False
        queue.on_backoff = self._woken.set

    async def run(self) -> None:
        clock = self._clock
        due_ns = clock.monotonic_ns()
        while not self._is_stopping:
            self._woken.clear()
            if clock.monotonic_ns() >= due_ns:
                self._queue.flush_unschedulable(clock.now_ns())
                due_ns = clock.monotonic_ns() + _UNSCHEDULABLE_PERIOD_NS
            timeout_ns = due_ns - clock.monotonic_ns()
            if self._queue.has_backoff:
                # Computed anew each time, so a wall clock that is set does no harm.
                timeout_ns = min(timeout_ns, SECOND - clock.now_ns() % SECOND)
            if not await clock.wait(self._woken, timeout_ns=timeout_ns):
                self._queue.flush_backoff(clock.now_ns())

    def stop(self) -> None:
        """Ask the loop to end after this pass. Idempotent; never blocks."""
        self._is_stopping = True
        self._woken.set()
