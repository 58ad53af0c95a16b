"""Calls the timed flushes of the scheduling queue (docs/reference/03 §3.4, §5.11).

It also applies the changes that the cache has logged, because their objects stay in memory until
then, and an idle scheduler makes no attempt that would apply them. Other parts that store objects
until their next call release them at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import SchedulingQueue

__all__ = ["QueueFlusher"]

_UNSCHEDULABLE_PERIOD_NS = 30 * SECOND


class QueueFlusher:
    """Flushes the backoff queue every second, and overdue unschedulable pods every 30 seconds.

    It sleeps while no pod backs off, so an idle cluster costs a simulation nothing.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cache: Cache,
        clock: Clock,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a flusher. `release` is called every 30 seconds."""
        self._queue, self._cache, self._clock = queue, cache, clock
        self._release = release
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
                self._cache.update_snapshot()
                self._release()
                due_ns = clock.monotonic_ns() + _UNSCHEDULABLE_PERIOD_NS
            timeout_ns = due_ns - clock.monotonic_ns()
            if self._queue.has_backoff:
                # Computed each time, so that setting the wall clock has no lasting effect.
                timeout_ns = min(timeout_ns, SECOND - clock.now_ns() % SECOND)
            if not await clock.wait(self._woken, timeout_ns=timeout_ns):
                self._queue.flush_backoff(clock.now_ns())

    def stop(self) -> None:
        """Stop the loop after this pass. Idempotent; never blocks."""
        self._is_stopping = True
        self._woken.set()
