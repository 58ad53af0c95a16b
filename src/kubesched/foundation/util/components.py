"""Parts that run until told to stop, a block that runs them, and tasks for work beside them.

A component is built from its collaborators, runs in the one task its owner made for it, and ends
soon after `stop()`. `StopSwitch` is for components that may be deep in a wait when they are told.
`BackgroundTasks` are for work that nobody waits for: bindings, attempts that wait for extenders,
writes of conditions.
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
        """Ask `run` to end. Idempotent; never blocks."""
        ...


@contextlib.asynccontextmanager
async def running(*parts: Component) -> AsyncIterator[None]:
    """Run the parts while the block runs; a part that dies ends the block.

    At the end of the block, whether it succeeded or raised, the parts are stopped in reverse
    order and awaited. The block's own exception comes out as it was; that of a part comes out
    in an exception group.
    """
    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as tasks:
            for part in parts:
                tasks.create_task(part.run(), name=type(part).__name__)
            try:
                yield
            except Exception as error:
                # Kept back, so that the group waits for an orderly stop instead of cancelling.
                failure = error
            finally:
                for part in reversed(parts):
                    part.stop()
    except BaseExceptionGroup as group:
        raise group from failure
    if failure is not None:
        raise failure


class StopSwitch:
    """Ends the work it guards at whatever it is awaiting.

    To the work it looks like a cancellation, so `finally` blocks run; to the component's owner
    it looks like a normal return. A cancellation from outside passes through as such.
    """

    def __init__(self) -> None:
        self._scope: asyncio.Timeout | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Stop the work that is running, or that will be given to `guard`."""
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
    """Starts tasks, and waits for all of them at the end."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Coroutine[Any, Any, None]] = {}
        self._soon: deque[Coroutine[Any, Any, None]] = deque()
        # Set when there is work for the task that waits for some, if there is such a task.
        self._idle: asyncio.Future[None] | None = None
        self._is_ending = False

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run work in a task of its own; a bug in it costs one pod, not the scheduler."""
        task = asyncio.get_running_loop().create_task(_guarded(work), name=name)
        self._tasks[task] = work
        task.add_done_callback(self._ended)
        return task

    def spawn_soon(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run work that seldom waits for anything, in the next turn of the loop.

        All such work of one turn shares a task, which then waits for more. The first that does wait
        keeps it, and the others get tasks of their own.
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
                    except StopIteration:  # as it mostly ends without having waited
                        continue
                    except BaseException as exc:
                        _log_failure(exc)
                        continue
                    let_others_run()
                    await _guarded(_continued(work, awaited))
                    return
                if self._soon or self._idle is not None or self._is_ending:
                    return  # another task is there for what comes
                await self._wait_for_more(name)
        finally:
            let_others_run()

    async def _wait_for_more(self, name: str) -> None:
        """Let the task wait until more work comes: to make one takes longer than to wake it."""
        self._idle = asyncio.get_running_loop().create_future()
        try:
            await self._idle
        except asyncio.CancelledError:
            while self._soon:  # what it was woken for, and will not see to
                self.spawn(self._soon.popleft(), name)
            raise
        finally:
            self._idle = None

    def _ended(self, task: asyncio.Task[None]) -> None:
        # One that is cancelled before its turn has never begun, and must not be left like that.
        self._tasks.pop(task).close()

    @contextlib.asynccontextmanager
    async def finished(self) -> AsyncIterator[None]:
        """At the end of the block wait for what was started; if it failed, cancel that first."""
        self._is_ending = False
        try:
            yield
            self._is_ending = True
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            while self._tasks:
                await asyncio.wait(self._tasks)
        except BaseException:
            # Again and again: what is cancelled may start more on its way out.
            while self._tasks:
                for task in self._tasks:
                    task.cancel()
                # Being told to end once more is no reason to leave them alone.
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait(self._tasks)
            while self._soon:
                self._soon.pop().close()
            raise


def begun(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run work up to where it waits for something; the rest, None if it has ended before.

    For work that seldom waits and does not ask for its task, which would be made for nothing.
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
    """Await work that has begun, and waits for something."""
    while True:
        try:
            yield awaited
        except BaseException as exc:
            # What it waits for has failed, or it is to end: that is for the work to see to.
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
