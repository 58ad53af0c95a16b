"""A deadline that is moved far more often than it passes.

A timer of the event loop costs a handle, an entry in its heap and a cancellation. A request to a
server needs three, and none of them fires as long as the server responds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["MovingDeadline"]


class MovingDeadline:
    """Calls back when the deadline has passed.

    To move it stores a number. The timer stays where it is, and is set again when it fires early.
    """

    def __init__(self, passed: Callable[[], None]) -> None:
        self._passed = passed
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def move(self, due_s: float) -> None:
        """Set the deadline, in the time of the running event loop."""
        self._due_s = due_s
        if self._timer is None or due_s < self._timer.when():
            self._set_timer(due_s)

    def lift(self) -> None:
        """Remove the deadline. The timer may fire once without effect."""
        self._due_s = None

    def close(self) -> None:
        """Remove the deadline and the timer."""
        self._due_s = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_s, self._fire, due_s)

    def _fire(self, at_s: float) -> None:
        self._timer = None
        if self._due_s is None:
            return
        if at_s < self._due_s:
            self._set_timer(self._due_s)
            return
        self._due_s = None
        self._passed()
