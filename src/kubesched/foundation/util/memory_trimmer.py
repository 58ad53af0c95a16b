"""Returns free memory of the C library to the system.

A TLS connection allocates buffers of a quarter of a mebibyte. When it ends, other objects lie
between them, so the process does not shrink, and every new connection leaves holes of other sizes.
The C library returns holes only on request.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

from kubesched.foundation.util.clock import SECOND, Clock

__all__ = ["MemoryTrimmer", "trim_memory"]

_PERIOD_NS = 10 * SECOND


def _find_trim() -> Callable[[int], int]:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # not glibc, which has this function
        return lambda _: 0
    return trim


_trim = _find_trim()


def trim_memory() -> None:
    """Return unused pages to the system. Takes milliseconds."""
    _trim(0)


class MemoryTrimmer:
    """Trims every ten seconds, for long-running processes.

    Releasing a mebibyte takes about half a millisecond, so rare trims would block the event loop.
    """

    def __init__(self, clock: Clock, trim: Callable[[], None] = trim_memory) -> None:
        self._clock, self._trim = clock, trim
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not await self._clock.wait(self._stopping, timeout_ns=_PERIOD_NS):
            self._trim()

    def stop(self) -> None:
        self._stopping.set()
