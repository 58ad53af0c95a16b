"""A thread that detects a blocked event loop and logs its stack.

All work runs on one loop, so a plugin that waits for a network or a lock blocks everything:
scheduling, the renewal of the lease, and the responses to health probes. Only another thread can
read the stack of the loop's thread, or respond to probes in that situation.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final

from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["LoopWatchdog"]

log = get_logger(__name__)

_PERIOD_S: Final = 1.0
_FRAMES_SHOWN: Final = 12

# Called in the thread while the loop is blocked; returns when its argument returns false.
WhileStalled = Callable[[Callable[[], bool]], None]


class LoopWatchdog:
    """Logs a loop that is blocked for `limit_s` seconds, and again after twice the time."""

    def __init__(
        self,
        limit_s: float = 5.0,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        frame_of: Callable[[int], FrameType | None] = lambda thread: sys._current_frames().get(
            thread
        ),
        while_stalled: WhileStalled | None = None,
    ) -> None:
        self._limit_s = limit_s
        self._while_stalled = while_stalled
        self._monotonic_s = monotonic_s
        self._frame_of = frame_of
        self._thread = threading.get_ident()
        self._beat_s = monotonic_s()
        self._tell_after_s = limit_s
        self._ended = threading.Event()
        self._stop = StopSwitch()

    async def run(self) -> None:
        watching = threading.Thread(target=self._watch, name="loop-watchdog", daemon=True)
        self._thread = threading.get_ident()
        self.beat()
        watching.start()
        try:
            await self._stop.guard(self._beat_for_ever())
        finally:
            self._ended.set()

    def stop(self) -> None:
        self._stop.set()

    def beat(self) -> None:
        """Record that the loop is running."""
        now_s = self._monotonic_s()
        if self._tell_after_s > self._limit_s:
            log.info("The event loop is responsive again", stood_s=round(now_s - self._beat_s, 1))
        self._beat_s, self._tell_after_s = now_s, self._limit_s

    def is_stalled(self) -> bool:
        """Whether the loop is blocked now. For any thread."""
        if self._ended.is_set():
            return False
        return self._monotonic_s() - self._beat_s >= self._limit_s

    def look(self) -> None:
        """Check the loop once. Called by the thread."""
        silent_s = self._monotonic_s() - self._beat_s
        if silent_s < self._tell_after_s:
            return
        self._tell_after_s = 2 * silent_s
        frame = self._frame_of(self._thread)
        stack = traceback.format_stack(frame)[-_FRAMES_SHOWN:] if frame is not None else []
        log.error(
            "The event loop is blocked; no pod is placed, probes fail",
            seconds=round(silent_s, 1),
            stack="".join(stack),
        )

    async def _beat_for_ever(self) -> None:
        while True:
            self.beat()
            await asyncio.sleep(min(_PERIOD_S, self._limit_s / 4))

    def _watch(self) -> None:
        while not self._ended.wait(min(_PERIOD_S, self._limit_s / 4)):
            self.look()
            if self._while_stalled is not None and self.is_stalled():
                self._while_stalled(self._is_stall_reported)

    def _is_stall_reported(self) -> bool:
        if not self.is_stalled():
            return False
        self.look()
        return True
