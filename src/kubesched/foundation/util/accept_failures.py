"""A process without free descriptors says so once in a while, not hundreds of times a second.

A listener that cannot accept tries again for every connection that may be waiting, and asyncio
reports each try with a traceback: megabytes of log, at a time when disks may be full too.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubesched.foundation.util.logging import get_logger

__all__ = ["AcceptFailures"]

log = get_logger(__name__)

_PERIOD_S: Final = 10.0
# The beginning of what asyncio says; the exception has the system's own words.
_MESSAGE: Final = "socket.accept() out of system resource"


class AcceptFailures:
    """A loop's exception handler that sums up failures to accept; others go on as before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._others = loop.get_exception_handler()
        self._tell_at_s = loop.time()
        self._untold = 0

    @classmethod
    def sum_up(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Have failures of this loop's listeners summed up. Idempotent."""
        if not isinstance(loop.get_exception_handler(), cls):
            loop.set_exception_handler(cls(loop))

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not str(context.get("message", "")).startswith(_MESSAGE):
            if self._others is not None:
                self._others(loop, context)
            else:
                loop.default_exception_handler(context)
            return
        self._untold += 1
        if loop.time() < self._tell_at_s:
            return
        log.error(
            "Connections are not accepted: this process is out of file descriptors or memory",
            exc=context.get("exception"),
            failures=self._untold,
        )
        self._untold, self._tell_at_s = 0, loop.time() + _PERIOD_S
