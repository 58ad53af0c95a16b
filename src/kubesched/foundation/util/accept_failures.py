"""Summarizes failures to accept connections, instead of logging each of them.

Without free descriptors a listener retries for every connection that may be waiting, and asyncio
logs each attempt with a traceback. That is megabytes of log at a time when disks may be full.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubesched.foundation.util.logging import get_logger

__all__ = ["AcceptFailures"]

log = get_logger(__name__)

_PERIOD_S: Final = 10.0
# The beginning of asyncio's message; the exception has the text of the system.
_MESSAGE: Final = "socket.accept() out of system resource"


class AcceptFailures:
    """A loop's exception handler that counts failures to accept and passes other errors on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._others = loop.get_exception_handler()
        self._tell_at_s = loop.time()
        self._untold = 0

    @classmethod
    def sum_up(cls, loop: asyncio.AbstractEventLoop) -> None:
        """Install the handler on a loop. Idempotent."""
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
