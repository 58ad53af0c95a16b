"""Time as an input: wall clock, monotonic clock and waiting, behind one protocol.

Below the edges, time is `int` nanoseconds. Nothing that decides reads a clock: it is given
`now_ns`. Components that wait are given a `Clock`.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

__all__ = ["MICROSECOND", "MILLISECOND", "MINUTE", "SECOND", "Clock"]

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Clock(Protocol):
    def now_ns(self) -> int:
        """Wall-clock time since the epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Time that never goes back, for measuring durations."""
        ...

    async def sleep(self, duration_ns: int) -> None: ...

    async def wait(self, event: asyncio.Event, timeout_ns: int | None = None) -> bool:
        """Wait for the event, at most `timeout_ns`; True if it was set."""
        ...
