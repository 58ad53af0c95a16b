"""Work beside the loop: bindings, attempts that wait for extenders, writes of conditions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from kubesched.util.logging import get_logger

__all__ = ["BackgroundTasks"]

log = get_logger(__name__)


class BackgroundTasks:
    """Starts tasks, and waits for all of them at the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run work in a task of its own; a bug in it costs one pod, not the scheduler."""
        task = asyncio.get_running_loop().create_task(_guarded(work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its turn has never begun, and must not be left like that.
        task.add_done_callback(lambda _: work.close())
        return task

    @contextlib.asynccontextmanager
    async def finished(self) -> AsyncIterator[None]:
        """At the end of the block wait for what was started; if it failed, cancel that first."""
        try:
            yield
            while self._tasks:
                await asyncio.wait(self._tasks)
        except BaseException:
            # Again and again: what is cancelled may start more on its way out.
            while self._tasks:
                for task in self._tasks:
                    task.cancel()
                await asyncio.wait(self._tasks)
            raise


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception as exc:
        log.exception("A background task failed", exc)
