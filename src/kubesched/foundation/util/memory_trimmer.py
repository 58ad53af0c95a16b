"""Gives memory back to the system that is free, and that the C library keeps.

A TLS connection takes buffers of a quarter of a mebibyte. When it ends, other objects have settled
between them, so the process stays as large as it ever was, and with every new connection holes of
other sizes are left. The library gives holes back only if it is asked to.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

from kubesched.foundation.util.clock import MINUTE, Clock

__all__ = ["MemoryTrimmer", "trim_memory"]


def _find_trim() -> Callable[[int], int]:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library, which has no such function
        return lambda _: 0
    return trim


_trim = _find_trim()


def trim_memory() -> None:
    """Give back whole pages that nothing is on; takes milliseconds."""
    _trim(0)


class MemoryTrimmer:
    """Trims once a minute. For processes that live long."""

    def __init__(self, clock: Clock, trim: Callable[[], None] = trim_memory) -> None:
        self._clock, self._trim = clock, trim
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not await self._clock.wait(self._stopping, timeout_ns=MINUTE):
            self._trim()

    def stop(self) -> None:
        self._stopping.set()
