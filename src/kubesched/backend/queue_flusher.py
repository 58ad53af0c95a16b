"""Drives the queue's flushes: time's part in who is tried next (docs/reference/03 §3.4, §5.11)."""

from __future__ import annotations

import asyncio

from kubesched.backend.queue import SchedulingQueue
from kubesched.util.clock import SECOND, Clock

__all__ = ["QueueFlusher"]

_UNSCHEDULABLE_PERIOD_NS = 30 * SECOND


class QueueFlusher:
    """At every whole second ends backoffs; at once and every 30 s retries what waits too long."""

    def __init__(self, queue: SchedulingQueue, clock: Clock) -> None:
        self._queue, self._clock = queue, clock
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        clock = self._clock
        due_ns = clock.monotonic_ns()
        while True:
            if clock.monotonic_ns() >= due_ns:
                self._queue.flush_unschedulable(clock.now_ns())
                due_ns = clock.monotonic_ns() + _UNSCHEDULABLE_PERIOD_NS
            # Computed anew each time, so a wall clock that is set does no harm.
            to_whole_second_ns = SECOND - clock.now_ns() % SECOND
            timeout_ns = min(to_whole_second_ns, due_ns - clock.monotonic_ns())
            if await clock.wait(self._stopping, timeout_ns=timeout_ns):
                return
            self._queue.flush_backoff(clock.now_ns())

    def stop(self) -> None:
        """Ask the loop to end after this pass. Idempotent; never blocks."""
        self._stopping.set()
