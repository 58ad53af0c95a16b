"""A loop that writes the status of changed custom resources, as long as a scheduler leads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from kubesched.api import ApiError
from kubesched.framework import Handle

__all__ = ["StatusLoop"]

_log = logging.getLogger(__name__)

_NOT_FOUND: Final = 404
# Changes within this time are written together, and a failed write is retried after it.
_PAUSE_NS: Final = 10**9


class StatusLoop:
    """Calls `update` for changed objects, by key, once a second at most."""

    def __init__(self, handle: Handle, what: str, update: Callable[[str], Awaitable[None]]) -> None:
        self._handle = handle
        self._what = what
        self._update = update
        self._changed: set[str] = set()
        self._wake = asyncio.Event()
        self._is_running = False

    def mark(self, key: str) -> None:
        """Record that the status of an object may need an update."""
        self._changed.add(key)
        self._wake.set()

    async def run_once(self) -> None:
        """Run until cancelled; further calls return at once."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while True:
                await self._wake.wait()
                await self._handle.clock.sleep(_PAUSE_NS)
                self._wake.clear()
                changed, self._changed = self._changed, set()
                for key in sorted(changed):
                    await self._try(key)
        finally:
            self._is_running = False

    async def _try(self, key: str) -> None:
        try:
            await self._update(key)
        except ApiError as exc:
            if exc.code != _NOT_FOUND:
                _log.warning("Status of %s %s was not written, retrying: %s", self._what, key, exc)
                self.mark(key)
