"""An asyncio event loop on which time is a number.

Unmodified coroutines run on it: `asyncio.sleep`, `timeout`, `wait_for`, `call_later`, task
groups, events, queues. While anything is runnable the clock stands still; when nothing is, it
jumps to the next timer, so waiting costs nothing and computing takes no time.

Promises:
- Timers fire in order of time, equal times in the order they were set. (asyncio's own heap
  leaves equal times in any order.)
- A run repeats exactly, given the same program, start and seed: task names and the order in
  which sets of tasks are walked do not depend on memory addresses.
- Nothing hangs: with nothing runnable and no timer, `DeadlockError` names every waiting task. It
  is also raised when tasks wake each other without end at one instant.

Time is held as integer nanoseconds since the loop began, so sums are exact. `time()` is that
count in float seconds; because it starts at 0 rather than at the epoch, a float names each
nanosecond of the first 26 days, and later ones to within a few. What must be exact for longer
uses `call_at_ns`. The wall clock is `start_ns` plus the count.

Sockets, pipes, child processes, threads and signals are not available: they need real time.
"""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from functools import partial
from types import FrameType
from typing import Any, NoReturn, TypeVar, TypeVarTuple, cast

from kubesched.errors import DeadlockError, VirtualTimeError
from kubesched.foundation.util.collector import collecting_rarely, reclaim_set_aside
from kubesched.foundation.util.randomness import derive

__all__ = ["DEFAULT_START_NS", "VirtualLoop", "run"]

T = TypeVar("T")
Args = TypeVarTuple("Args")

DEFAULT_START_NS = 1_767_225_600 * 1_000_000_000  # 2026-01-01T00:00:00Z

_NS_PER_SECOND = 1_000_000_000
# As in asyncio, a heap of mostly cancelled timers is rebuilt; a small heap is not.
_MIN_TIMERS_TO_PURGE = 100
# More than correct code needs at one instant; about 20 s of processor time.
_MAX_PASSES = 10_000_000


def run(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    *,
    start_ns: int = DEFAULT_START_NS,
    seed: int = 0,
    debug: bool | None = None,
    max_passes: int = _MAX_PASSES,
) -> T:
    """Run a coroutine to its end on a fresh virtual loop, like `asyncio.run`.

    Tasks and async generators that are left over are cancelled and closed. A factory is
    called with the loop running, so that it can use the running loop.

    A thread cannot run two loops. If this one runs a loop, as the kernel of a notebook does, the
    virtual loop runs in a thread of its own, and the call returns after it has ended.

    Raises:
        DeadlockError: nothing could wake the main task any more, or the loop made
            more than `max_passes` passes at one instant.
    """

    def work() -> T:
        return _run_here(main, start_ns, seed, debug, max_passes)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def _run_here(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    start_ns: int,
    seed: int,
    debug: bool | None,
    max_passes: int,
) -> T:
    reclaim_set_aside()  # the cluster of the last run, unless it is still referenced
    coroutine = main if inspect.iscoroutine(main) else _call(cast("Callable[[], Any]", main))

    def make_loop() -> VirtualLoop:
        return VirtualLoop(start_ns=start_ns, seed=seed, max_passes=max_passes)

    with collecting_rarely(), asyncio.Runner(debug=debug, loop_factory=make_loop) as runner:
        return cast("T", runner.run(coroutine))


async def _call(factory: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return await factory()


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop. `run` is the usual entry point."""

    # Owned by BaseEventLoop, which fills it in call_soon.
    _ready: deque[Any]  # handles; `Handle` does not declare the attributes used here

    def __init__(
        self,
        *,
        start_ns: int = DEFAULT_START_NS,
        seed: int = 0,
        max_passes: int = _MAX_PASSES,
    ) -> None:
        super().__init__()
        self.start_ns = start_ns
        self.seed = seed
        # Virtual time since the loop was made. Read only: the loop advances it.
        self.elapsed_ns = 0
        # The virtual wall clock: nanoseconds since the epoch. Read only.
        self.now_ns = start_ns
        self._passes = 0  # since time last advanced
        self._max_passes = max_passes
        self._thread = threading.get_ident()
        self._timers: list[tuple[int, int, _Timer]] = []
        self._timer_numbers = itertools.count()
        self._cancelled_timers = 0
        self._task_numbers = itertools.count(1)
        self.set_task_factory(_make_task)
        # Every future calls this. asyncio's method does the same in Python, which is slower.
        self.get_debug = partial(getattr, self, "_debug")  # type: ignore[method-assign]

    def random(self, *names: str | int) -> random.Random:
        """Return the stream of random numbers with this name, derived from the run's seed."""
        return derive(self.seed, *names)

    def time(self) -> float:
        return self.elapsed_ns / _NS_PER_SECOND

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        when_ns = self.elapsed_ns + round(delay * _NS_PER_SECOND)
        return self.call_at_ns(when_ns, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at_ns(round(when * _NS_PER_SECOND), callback, *args, context=context)

    def call_at_ns(
        self,
        when_ns: int,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call back when `elapsed_ns` reaches `when_ns`: `call_at` without rounding."""
        if self._closed:  # type: ignore[attr-defined]
            self._check_closed()  # type: ignore[attr-defined]
        timer = _Timer(when_ns / _NS_PER_SECOND, callback, args, self, context)
        heapq.heappush(self._timers, (when_ns, next(self._timer_numbers), timer))
        return timer

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        # As in asyncio, with a lighter handle: each change in a cluster needs several.
        if self._debug or self._closed:  # type: ignore[attr-defined]
            return super().call_soon(callback, *args, context=context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        # The interrupt handler of asyncio.Runner and the finalizer of async generators use
        # this from the loop's own thread; any other thread would make the run irreproducible.
        if threading.get_ident() != self._thread:
            _refuse("a callback from another thread")
        return self.call_soon(callback, *args, context=context)

    def _run_once(self) -> None:
        """Run ready callbacks until stopped, and advance time when none is ready.

        `run_forever` calls this in a loop until it is stopped. Every pod takes a dozen passes, so
        one call makes many.
        """
        ready, timers, pop_timer = self._ready, self._timers, heapq.heappop
        while True:
            # stop() requests one last pass; time does not advance for it.
            if not ready and not self._stopping:  # type: ignore[attr-defined]
                while timers and timers[0][2]._cancelled:
                    pop_timer(timers)
                    self._cancelled_timers -= 1
                if not timers:
                    raise _deadlock(self, "nothing is runnable and no timer is set")
                if timers[0][0] > self.elapsed_ns:
                    self.elapsed_ns = timers[0][0]
                    self.now_ns = self.start_ns + self.elapsed_ns
                self._passes = 0
            self._passes += 1
            if self._passes > self._max_passes:
                self._passes = 0  # so that run can cancel the tasks
                why = f"no task let it pass in {self._max_passes} passes of the loop"
                raise _deadlock(self, why)
            now_ns = self.elapsed_ns
            while timers and timers[0][0] <= now_ns:
                timer = pop_timer(timers)[2]
                timer._scheduled = False
                if timer._cancelled:
                    self._cancelled_timers -= 1
                else:
                    ready.append(timer)
            # Only this batch: callbacks that these add run in the next pass, as in asyncio.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                # Handle._run inlined, which saves a call for every step of every task.
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as exc:
                    context = {"message": f"Exception in callback {handle!r}", "exception": exc}
                    self.call_exception_handler({**context, "handle": handle})
            if self._stopping:  # type: ignore[attr-defined]
                return

    def _timer_handle_cancelled(self, handle: _Timer) -> None:
        """Count a cancelled timer. Called by the timer."""
        if not handle._scheduled:
            return  # the timer has fired
        self._cancelled_timers += 1
        size = len(self._timers)
        if size > _MIN_TIMERS_TO_PURGE and self._cancelled_timers * 2 > size:
            self._timers[:] = [entry for entry in self._timers if not entry[2]._cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def _next_task_number(self) -> int:
        return next(self._task_numbers)


class _Handle(asyncio.Handle):
    """A handle without the check for the debug mode of the loop."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """A timer of that kind. Every pod needs several."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop, self._when = callback, args, loop, when
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._scheduled = True  # so that cancel() notifies the loop
        self._repr = None
        self._source_traceback = None


class _VirtualTask(asyncio.Task[Any]):
    """A task whose hash is its number, so that sets iterate in the order of creation.

    Task groups and runners keep their tasks in sets and cancel them in the set's order.
    """

    _number: int

    def __hash__(self) -> int:
        return self._number


def _make_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Future[Any]:
    assert isinstance(loop, VirtualLoop)
    number = loop._next_task_number()
    # asyncio numbers unnamed tasks through the whole process; here each loop begins at 1.
    name = options.pop("name", None) or f"Task-{number}"
    task = _VirtualTask.__new__(_VirtualTask)
    task._number = number  # before any set contains it
    asyncio.Task.__init__(task, coro, loop=loop, name=name, **options)
    return task


def _deadlock(loop: VirtualLoop, why: str) -> DeadlockError:
    tasks = sorted(asyncio.all_tasks(loop), key=hash)
    return DeadlockError(
        f"virtual time stopped at {loop.time()} s: {why}; waiting tasks: {len(tasks)}",
        tuple(f"{task.get_name()!r} waits {_where(task)}" for task in tasks),
    )


def _where(task: asyncio.Task[Any]) -> str:
    """Return where a suspended task waits: its own code first, then called functions."""
    frames = list(_suspended_frames(task.get_coro()))
    if not frames:
        return "before its first step"
    outside = [frame for frame in frames if not _is_asyncio(frame)]
    innermost = (outside or frames)[-1]
    text = f"at {innermost.f_code.co_filename}:{innermost.f_lineno} in {_name(innermost)}"
    return text if frames[-1] is innermost else f"{text}, inside {_name(frames[-1])}"


def _suspended_frames(awaited: object) -> Iterator[FrameType]:
    """Walk from a task's coroutine to the innermost frame that is suspended."""
    while True:
        frame: FrameType | None
        if inspect.iscoroutine(awaited):
            frame, awaited = awaited.cr_frame, awaited.cr_await
        elif inspect.isgenerator(awaited):
            frame, awaited = awaited.gi_frame, awaited.gi_yieldfrom
        else:
            return
        if frame is not None:
            yield frame


def _is_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "asyncio"


def _name(frame: FrameType) -> str:
    return frame.f_code.co_qualname


def _refuse(what: str) -> NoReturn:
    error = VirtualTimeError(f"{what} cannot be used on a virtual-time loop")
    error.add_note("run this code with asyncio.run, or hand it an in-process stand-in")
    raise error


_REAL_WORLD = {
    "add_reader": "a file descriptor (add_reader)",
    "add_writer": "a file descriptor (add_writer)",
    "remove_reader": "a file descriptor (remove_reader)",
    "remove_writer": "a file descriptor (remove_writer)",
    "run_in_executor": "a thread or process pool (run_in_executor)",
    "getaddrinfo": "a name lookup (getaddrinfo)",
    "getnameinfo": "a name lookup (getnameinfo)",
    "create_connection": "a socket (create_connection)",
    "create_server": "a socket (create_server)",
    "create_datagram_endpoint": "a socket (create_datagram_endpoint)",
    "create_unix_connection": "a socket (create_unix_connection)",
    "create_unix_server": "a socket (create_unix_server)",
    "connect_accepted_socket": "a socket (connect_accepted_socket)",
    "sock_recv": "a socket (sock_recv)",
    "sock_recv_into": "a socket (sock_recv_into)",
    "sock_recvfrom": "a socket (sock_recvfrom)",
    "sock_sendall": "a socket (sock_sendall)",
    "sock_sendto": "a socket (sock_sendto)",
    "sock_connect": "a socket (sock_connect)",
    "sock_accept": "a socket (sock_accept)",
    "sock_sendfile": "a socket (sock_sendfile)",
    "connect_read_pipe": "a pipe (connect_read_pipe)",
    "connect_write_pipe": "a pipe (connect_write_pipe)",
    "subprocess_exec": "a child process (subprocess_exec)",
    "subprocess_shell": "a child process (subprocess_shell)",
    "add_signal_handler": "a signal (add_signal_handler)",
    "remove_signal_handler": "a signal (remove_signal_handler)",
}


def _refusal(what: str) -> Callable[..., NoReturn]:
    def refused(_loop: VirtualLoop, *_args: Any, **_options: Any) -> NoReturn:
        _refuse(what)

    return refused


for _method, _what in _REAL_WORLD.items():
    setattr(VirtualLoop, _method, _refusal(_what))
