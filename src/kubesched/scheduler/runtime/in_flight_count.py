"""Counts the pods that a framework is placing, so that it can be closed after the last one."""

from __future__ import annotations

import asyncio

__all__ = ["InFlightCount"]


class InFlightCount:
    """Pods between the choice of a node and the end of their binding, and waits for extenders."""

    __slots__ = ("_none", "value")

    def __init__(self) -> None:
        self.value = 0
        self._none: asyncio.Event | None = None

    def enter(self) -> None:
        self.value += 1

    def leave(self) -> None:
        self.value -= 1
        if self._none is not None and not self.value:
            self._none.set()

    async def wait_for_none(self) -> None:
        """Wait until no pod is in flight. One task may wait, and no pod may enter meanwhile."""
        if self.value:
            self._none = asyncio.Event()
            await self._none.wait()
