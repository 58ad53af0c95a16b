"""The clock of one of several machines."""

from __future__ import annotations

import asyncio
import math

from kubesched.foundation.util.clock import Clock

__all__ = ["OwnClock"]


class OwnClock:
    """A wrong wall clock that jumps, a different rate, and pauses of the whole machine."""

    def __init__(self, base: Clock, rate: float) -> None:
        self._base, self._rate = base, rate
        self.wall_offset_ns = 0
        self.awake = asyncio.Event()
        self.awake.set()
        self._suspended_ns: int | None = None  # when it was suspended
        self._lost_ns = 0  # how long it has been suspended in all

    def now_ns(self) -> int:
        return max(0, self._base.now_ns() + self.wall_offset_ns)

    def monotonic_ns(self) -> int:
        now_ns = self._base.monotonic_ns()
        if self._suspended_ns is not None:
            now_ns = self._suspended_ns
        return int((now_ns - self._lost_ns) * self._rate)

    def suspend(self) -> None:
        """Pause the machine. Its monotonic clock stops as well, like that of Linux."""
        if self._suspended_ns is None:
            self._suspended_ns = self._base.monotonic_ns()
        self.awake.clear()

    @property
    def is_suspended(self) -> bool:
        return self._suspended_ns is not None

    def resume(self) -> None:
        """End a pause."""
        if self._suspended_ns is not None:
            self._lost_ns += self._base.monotonic_ns() - self._suspended_ns
            self._suspended_ns = None
        self.awake.set()

    async def sleep(self, duration_ns: int) -> None:
        await self._base.sleep(math.ceil(duration_ns / self._rate))
        await self.awake.wait()

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        given = None if timeout_ns is None else math.ceil(timeout_ns / self._rate)
        is_set = await self._base.wait(event, given)
        await self.awake.wait()
        return is_set
