"""`/debug`: log verbosity at run time, and stack traces (docs/reference/02 §6.5).

The profiles of the reference are those of the Go runtime. Here `goroutine` lists the tasks of the
event loop and the threads with their stacks; the other profiles do not exist.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from kubesched.foundation.http.http_messages import Request, Response, text_error
from kubesched.scheduler.server.endpoints.routes import Routes

__all__ = ["add_debug_routes"]

_HTML: Final = "text/html; charset=utf-8"
_INDEX: Final = (
    "<html><head><title>/debug/pprof/</title></head><body>/debug/pprof/"
    "<ul><li><a href='goroutine'>goroutine</a>: tasks and threads, with their stacks</li>"
    "<li><a href='cmdline'>cmdline</a>: the command line</li></ul></body></html>\n"
)
_FLAGS: Final = (
    "<html><body>/debug/flags/<ul><li>v: PUT a number to set the log verbosity</li></ul>"
    "</body></html>\n"
)


def add_debug_routes(routes: Routes, set_verbosity: Callable[[int], None]) -> None:
    routes.add("/debug/pprof", _to_index, listed=False)
    routes.add_prefix("/debug/pprof/", _profile)
    routes.add("/debug/flags", _flags, listed=False)
    routes.add_prefix("/debug/flags/", _flags)

    async def verbosity(request: Request) -> Response:
        if request.method != "PUT":
            return text_error("unsupported http method", 406)
        text = (await request.read_body()).decode("utf-8", "replace")
        try:
            level = _parse_level(text)
        except ValueError as exc:
            return text_error(str(exc), 400)
        set_verbosity(level)
        return Response(body=f"successfully set klog.logging.verbosity to {text}\n".encode())

    routes.add("/debug/flags/v", verbosity, listed=False)


def _parse_level(text: str) -> int:
    """Parse a decimal of 32 bits without blanks or underscores. Raises ValueError."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(
            f'failed set klog.logging.verbosity {text}: strconv.ParseInt: parsing "{text}": '
            "invalid syntax"
        )
    level = int(text) if len(text) < 12 else 1 << 40
    if not -(1 << 31) <= level < 1 << 31:
        raise ValueError(
            f'failed set klog.logging.verbosity {text}: strconv.ParseInt: parsing "{text}": '
            "value out of range"
        )
    return level


async def _to_index(_: Request) -> Response:
    return Response(status=302, headers={"Location": "/debug/pprof/"}, content_type=_HTML)


async def _flags(_: Request) -> Response:
    return Response(body=_FLAGS.encode(), content_type=_HTML)


async def _profile(request: Request) -> Response:
    match request.path.removeprefix("/debug/pprof/"):
        case "":
            return Response(body=_INDEX.encode(), content_type=_HTML)
        case "cmdline":
            return Response(body="\0".join(sys.argv).encode("utf-8", "replace"))
        case "goroutine":
            return Response(body=_stacks().encode("utf-8", "replace"))
        case _:
            return text_error("Unknown profile", 404)


def _stacks() -> str:
    page = io.StringIO()
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    page.write(f"{len(tasks)} tasks\n\n")
    for task in tasks:
        page.write(f"task {task.get_name()}:\n")
        task.print_stack(limit=20, file=page)
        page.write("\n")
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        page.write(f"thread {names.get(ident, ident)}:\n")
        page.write("".join(traceback.format_stack(frame)))
        page.write("\n")
    return page.getvalue()
