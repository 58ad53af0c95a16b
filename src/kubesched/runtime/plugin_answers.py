"""What plugins may do wrong when they are called: throw anything, or answer nonsense.

A plugin is somebody else's code. `return` is forgotten, and libraries raise what is meant for
tasks or for processes; neither may end more than the attempt at hand.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubesched.framework import PostFilterResult, Status, Wait
from kubesched.framework.wrong_answer import wrong_answer
from kubesched.util.errors import PluginError

__all__ = [
    "THROWN",
    "as_permit_answer",
    "as_post_filter_result",
    "as_status",
    "failure_of",
    "is_being_cancelled",
]

# What a call may raise that is the plugin's failure. Not KeyboardInterrupt: that is the user.
THROWN: Final = (Exception, asyncio.CancelledError, SystemExit)


def is_being_cancelled() -> bool:
    """Whether somebody wants the current task to end: a CancelledError is not the plugin's then."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def failure_of(thrown: BaseException) -> Status:
    """What a plugin threw, as an outcome."""
    if isinstance(thrown, Exception):
        return Status.failure(thrown)
    # What ends a task or a process must not, when it is passed on as somebody's error.
    error = PluginError(f"the plugin raised {type(thrown).__name__}({thrown})")
    error.__cause__ = thrown
    return Status.failure(error)


def as_status(answer: Any) -> Status:
    """The answer of a plugin that must be a status; anything else is a failure."""
    return (
        answer if isinstance(answer, Status) else Status.failure(wrong_answer(answer, "a Status"))
    )


def as_permit_answer(answer: Any) -> Status | Wait:
    """The answer of Permit."""
    if isinstance(answer, Wait) and isinstance(answer.timeout_ns, int):
        return answer
    if isinstance(answer, Status):
        return answer
    return Status.failure(wrong_answer(answer, "a Status or a Wait"))


def as_post_filter_result(answer: Any) -> PostFilterResult:
    """The answer of PostFilter."""
    if isinstance(answer, PostFilterResult) and isinstance(answer.status, Status):
        return answer
    return PostFilterResult(Status.failure(wrong_answer(answer, "a PostFilterResult")))
