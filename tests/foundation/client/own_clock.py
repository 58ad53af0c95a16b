"""The clock of one machine among several."""

from __future__ import annotations

import asyncio
import math

from kubesched.foundation.util.clock import Clock

__all__ = ["OwnClock"]


class OwnClock:
    """A wrong and jumping wall clock, a rate of its own, and pauses of the whole machine."""

    def __init__(self, base: Clock, rate: float) -> None:
        self._base, self._rate = base, rate
        self.wall_offset_ns = 0
        self.awake = asyncio.Event()
        self.awake.set()

    def now_ns(self) -> int:
        return max(0, self._base.now_ns() + self.wall_offset_ns)

    def monotonic_ns(self) -> int:
        return int(self._base.monotonic_ns() * self._rate)

    async def sleep(self, duration_ns: int) -> None:
        await self._base.sleep(math.ceil(duration_ns / self._rate))
        await self.awake.wait()

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        given = None if timeout_ns is None else math.ceil(timeout_ns / self._rate)
        is_set = await self._base.wait(event, given)
        await self.awake.wait()
        return is_set
