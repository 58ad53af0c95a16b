"""Components that run until stopped, a block that runs them, and background tasks.

A component is built from its collaborators, runs in one task of its owner, and ends soon after
`stop()`. `StopSwitch` stops components that wait at any await. `BackgroundTasks` are for work
whose result no task awaits: bindings, attempts that wait for extenders, writes of conditions.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator
from functools import partial
from typing import Any, Protocol

from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger

__all__ = ["BackgroundTasks", "Component", "StopSwitch", "begun", "running"]

log = get_logger(__name__)


class Component(Protocol):
    async def run(self) -> None:
        """Work until stopped. A component runs once."""
        ...

    def stop(self) -> None:
        """Make `run` end soon. Idempotent; never blocks."""
        ...


@contextlib.asynccontextmanager
async def running(*parts: Component) -> AsyncIterator[None]:
    """Run components while the block runs. A component that raises cancels the block.

    At the end of the block the components are stopped in reverse order and awaited. The exception
    of the block propagates unchanged, that of a component in an exception group.
    """
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part.run(), name=type(part).__name__)
            try:
                yield
            except Exception as error:
                # Raised after the group, so that the group awaits an orderly stop.
                failure = error
            finally:
                for part in reversed(parts):
                    part.stop()
    except BaseExceptionGroup as group:
        raise group from failure
    if failure is not None:
        raise failure


class StopSwitch:
    """Ends guarded work at its current await.

    The work is cancelled, so its `finally` blocks run. For the owner of the component `guard`
    returns normally. A cancellation from outside propagates.
    """

    def __init__(self) -> None:
        self._scope: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Stop the guarded work, or the work that `guard` receives later."""
        if self._is_set:
            return
        self._is_set = True
        if self._scope is not None and self._loop is not None:
            self._scope.reschedule(self._loop.time())

    async def guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Await the work until it ends or the switch is set."""
        if self._is_set:
            work.close()
            return
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(None) as scope:
                self._scope = scope
                try:
                    await work
                finally:
                    self._scope = None
        except TimeoutError:
            if not scope.expired():
                raise


class BackgroundTasks:
    """Starts tasks and awaits all of them at the end."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Coroutine[Any, Any, None]] = {}
        self._soon: deque[Coroutine[Any, Any, None]] = deque()
        # Set to wake the idle task, if there is one.
        self._idle: asyncio.Future[None] | None = None
        self._is_ending = False

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run work in a separate task. An exception is logged and affects nothing else."""
        task = asyncio.get_running_loop().create_task(_guarded(work), name=name)
        self._tasks[task] = work
        task.add_done_callback(self._ended)
        return task

    def spawn_soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run work that seldom awaits anything, in the next turn of the loop.

        All such work of one turn shares one task, which then waits for more. The first work that
        awaits something continues in that task, and the rest gets a new task.
        """
        self._soon.append(work)
        if len(self._soon) > 1:
            return
        if self._idle is None or self._idle.cancelled():
            self.spawn(self._run_in_turn(name), name)
        elif not self._idle.done():
            self._idle.set_result(None)

    async def _run_in_turn(self, name: str) -> None:
        works: deque[Coroutine[Any, Any, None]] = deque()

        def let_others_run() -> None:
            while works:
                self.spawn(works.popleft(), name)

        try:
            while True:
                works, self._soon = self._soon, deque()
                while works:
                    work = works.popleft()
                    try:
                        awaited = work.send(None)
                    except StopIteration:  # most work ends without awaiting
                        continue
                    except BaseException as exc:
                        _log_failure(exc)
                        continue
                    let_others_run()
                    await _guarded(_continued(work, awaited))
                    return
                if self._soon or self._idle is not None or self._is_ending:
                    return  # another task takes new work
                await self._wait_for_more(name)
        finally:
            let_others_run()

    async def _wait_for_more(self, name: str) -> None:
        """Wait for more work, because waking a task costs less than making one."""
        self._idle = asyncio.get_running_loop().create_future()
        try:
            await self._idle
        except asyncio.CancelledError:
            while self._soon:  # the work that it was woken for and does not run
                self.spawn(self._soon.popleft(), name)
            raise
        finally:
            self._idle = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        # A coroutine that is cancelled before its first turn must still be closed.
        self._tasks.pop(task).close()

    @contextlib.asynccontextmanager
    async def finished(self) -> AsyncIterator[None]:
        """Await the tasks at the end of the block; if the block raised, cancel them first."""
        self._is_ending = False
        try:
            yield
            self._is_ending = True
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            while self._tasks:
                await asyncio.wait(self._tasks)
        except BaseException:
            # In a loop, because a cancelled task may start others.
            while self._tasks:
                for task in self._tasks:
                    task.cancel()
                # A second cancellation must not leave tasks behind.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait(self._tasks)
            while self._soon:
                self._soon.pop().close()
            raise


def begun(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run work up to its first wait. Returns the rest, or None if the work has ended.

    For work that seldom waits and does not need a separate task.
    """
    try:
        awaited = work.send(None)
    except StopIteration:
        return None
    return _rest(work, awaited)


async def _rest(work: Coroutine[Any, Any, None], awaited: Any) -> None:
    await _continued(work, awaited)


@types.coroutine
def _continued(work: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """Await work that has started and waits for a future."""
    while True:
        try:
            yield awaited
        except BaseException as exc:
            # Pass the failure or the cancellation to the work.
            step = partial(work.throw, exc)
        else:
            step = partial(work.send, None)
        try:
            awaited = step()
        except StopIteration:
            return


async def _guarded(work: Awaitable[None]) -> None:
    try:
        await work
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as exc:
        _log_failure(exc)


def _log_failure(error: BaseException) -> None:
    pass_on_interrupt(error)
    log.exception("A background task failed", error)
