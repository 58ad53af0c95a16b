"""Long computations in a forked copy of this process, which do not block the event loop.

`in_child` forks. The child shares the memory of that moment without a copy, and neither the
interpreter lock nor the garbage collector. It writes its result to a pipe and exits. Its changes
are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kubesched.errors import KubeschedError

__all__ = ["MOST_BYTES", "ChildError", "in_child"]

_DONE, _REFUSED, _FAILED = b"+", b"-", b"!"
_CHUNK = 1 << 16
# What a computation may allocate.
MOST_BYTES: Final = 2 << 30
_MEMORY_PAGES = Path("/proc/self/statm")
_OOM_SCORE = Path("/proc/self/oom_score_adj")


class ChildError(KubeschedError):
    """The computation failed. `is_refusal` is true if it raised a KubeschedError."""

    def __init__(self, message: str, *, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.is_refusal = is_refusal


async def in_child(work: Callable[[], bytes], timeout_s: float) -> bytes:
    """Compute the result of `work` in a child process, which is killed after the timeout.

    Raises:
        ChildError: the work raised an exception, or the child ended without a result.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The only other thread is the watchdog, which holds no lock that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(work, writing)
    os.close(writing)
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _read_all(reading)
    except TimeoutError:
        raise ChildError(f"no answer after {timeout_s:.0f} s") from None
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)  # noqa: ASYNC222  it has ended, or was killed just now
    kind, content = answer[:1], answer[1:]
    if kind == _DONE:
        return content
    if not kind:
        raise ChildError("the child process ended without an answer")
    raise ChildError(content.decode(errors="replace"), is_refusal=kind == _REFUSED)


async def _read_all(reading: int) -> bytes:
    """Read a pipe until its other end is closed."""
    os.set_blocking(reading, False)
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    over = loop.create_future()

    def read() -> None:
        try:
            part = os.read(reading, _CHUNK)
        except BlockingIOError:
            return
        if part:
            parts.append(part)
        elif not over.done():
            over.set_result(None)

    loop.add_reader(reading, read)
    try:
        await over
    finally:
        loop.remove_reader(reading)
    return b"".join(parts)


def _be_child(work: Callable[[], bytes], writing: int) -> None:
    """Run the work in the child and exit. Never returns."""
    try:
        gc.disable()  # a collection would touch, and so copy, all of the parent's memory
        logging.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _close_others(writing)
        _go_first()
        _bound_memory()
        try:
            answer = _DONE + work()
        except MemoryError:
            answer = _REFUSED + f"needs more than {MOST_BYTES >> 20} MiB of memory".encode()
        except KubeschedError as error:
            answer = _REFUSED + str(error).encode()
        except BaseException as error:
            answer = _FAILED + f"{type(error).__name__}: {error}".encode()
        while answer:
            answer = answer[os.write(writing, answer) :]
    finally:
        os._exit(0)


def _go_first() -> None:
    """Make the kernel kill this process first if memory runs out, and not its parent."""
    with contextlib.suppress(OSError):
        _OOM_SCORE.write_text("1000")


def _bound_memory() -> None:
    """Limit the memory that the child allocates besides its copy of the parent's."""
    with contextlib.suppress(OSError, ValueError):
        pages = int(_MEMORY_PAGES.read_text().split()[0])
        most = pages * resource.getpagesize() + MOST_BYTES
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _close_others(kept: int) -> None:
    """Close the parent's connections and ports, so that they end when the parent closes them."""
    most = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 20)
    first = sys.__stderr__.fileno() + 1 if sys.__stderr__ is not None else 3
    os.closerange(first, kept)
    os.closerange(kept + 1, most)
