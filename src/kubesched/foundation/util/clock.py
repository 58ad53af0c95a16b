"""Time as an input: wall clock, monotonic clock and waiting, behind one protocol.

Below the edges, time is `int` nanoseconds. Code that decides takes `now_ns` and never reads a
clock. Components that wait take a `Clock`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from kubesched.foundation.util.virtual_loop import VirtualLoop

__all__ = [
    "MICROSECOND",
    "MILLISECOND",
    "MINUTE",
    "SECOND",
    "Clock",
    "ManualClock",
    "RealClock",
    "SteadyClock",
    "VirtualClock",
    "clock_of",
    "current_clock",
]

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Clock(Protocol):
    def now_ns(self) -> int:
        """Return the wall-clock time since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Return a time that never decreases, to measure durations."""
        ...

    async def sleep(self, duration_ns: int) -> None: ...

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        """Wait for the event, at most `timeout_ns`. Returns whether it was set."""
        ...


def current_clock() -> Clock:
    """Return the clock of the running loop: virtual on a virtual loop, else the machine's."""
    return clock_of(asyncio.get_running_loop())


def clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """Return the clock that the loop's timers follow."""
    return VirtualClock(loop) if isinstance(loop, VirtualLoop) else RealClock()


class RealClock:
    """The machine's clocks and the running loop's timers."""

    def now_ns(self) -> int:
        return time.time_ns()

    # Not wrapped in a method, because durations are measured dozens of times per pod.
    monotonic_ns = staticmethod(time.perf_counter_ns)

    async def sleep(self, duration_ns: int) -> None:
        await asyncio.sleep(duration_ns / SECOND)

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        if timeout_ns is None or event.is_set():
            return await event.wait()
        try:
            async with asyncio.timeout(timeout_ns / SECOND):
                return await event.wait()
        except TimeoutError:
            return event.is_set()


class VirtualClock:
    """The time of a virtual loop, exact to the nanosecond."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        # Not wrapped in a method, because it is read dozens of times per pod.
        self.now_ns: Callable[[], int] = partial(getattr, loop, "now_ns")
        self.monotonic_ns: Callable[[], int] = partial(getattr, loop, "elapsed_ns")

    async def sleep(self, duration_ns: int) -> None:
        if duration_ns <= 0:
            await asyncio.sleep(0)
            return
        woken = self._loop.create_future()
        timer = self._loop.call_at_ns(self._loop.elapsed_ns + duration_ns, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        if timeout_ns is None or event.is_set():
            return await event.wait()
        # The event and the timer set one future. Components that poll every second are most of the
        # load of an idle cluster, and asyncio.timeout would round the deadline to a float.
        loop = self._loop
        woken: asyncio.Future[bool] = loop.create_future()
        waiters = event._waiters  # like Event.wait
        waiters.append(woken)
        timer = loop.call_at_ns(loop.elapsed_ns + timeout_ns, _time_out, woken)
        try:
            return await woken or event.is_set()
        finally:
            timer.cancel()
            waiters.remove(woken)


class SteadyClock:
    """A clock whose wall time never jumps, based on another clock.

    Use it for times that are compared with each other, such as the end of a pod's backoff.
    """

    def __init__(self, base: Clock) -> None:
        self._began_ns = base.now_ns() - base.monotonic_ns()
        self.monotonic_ns = base.monotonic_ns  # not wrapped: called dozens of times per pod
        self.sleep = base.sleep
        self.wait = base.wait

    def now_ns(self) -> int:
        return self._began_ns + self.monotonic_ns()

    def wall_ns(self, monotonic_ns: int) -> int:
        """Convert a monotonic time to wall time without reading the clock."""
        return self._began_ns + monotonic_ns


class ManualClock:
    """A clock that tests advance explicitly, for plain classes.

    `sleep` advances it, and so does `wait` if the event is not set.
    """

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns
        self._elapsed_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._elapsed_ns

    def advance(self, duration_ns: int) -> None:
        assert duration_ns >= 0, "time does not go back"
        self._now_ns += duration_ns
        self._elapsed_ns += duration_ns

    async def sleep(self, duration_ns: int) -> None:
        self.advance(max(0, duration_ns))
        await asyncio.sleep(0)

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        if timeout_ns is None or event.is_set():
            return await event.wait()
        await asyncio.sleep(0)
        if not event.is_set():
            self.advance(max(0, timeout_ns))
        return event.is_set()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _time_out(waiter: asyncio.Future[bool]) -> None:
    if not waiter.done():
        waiter.set_result(False)
