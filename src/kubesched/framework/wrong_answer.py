"""Errors for plugins whose methods return values of a wrong type."""

from __future__ import annotations

import inspect
from typing import Any, TypeGuard

from kubesched.errors import PluginError
from kubesched.framework.causes import Cause
from kubesched.framework.status import Code, Status

__all__ = ["is_sound", "wrong_answer"]


def is_sound(answer: Any) -> TypeGuard[Status]:
    """Whether a value is a status with fields of the right types."""
    return (
        isinstance(answer, Status)
        and type(answer.code) is Code
        and type(answer.reasons) is tuple
        and all(map(_is_text, answer.reasons))
        and (answer.error is None or isinstance(answer.error, BaseException))
        and (answer.causes == () or _has_sound_causes(answer))
    )


def _has_sound_causes(status: Status) -> bool:
    """Whether there is one cause for each reason."""
    return (
        type(status.causes) is tuple
        and len(status.causes) == len(status.reasons)
        and all(isinstance(cause, Cause) for cause in status.causes)
    )


def _is_text(reason: Any) -> bool:
    """Whether a reason can be encoded as UTF-8; a lone surrogate cannot."""
    if not isinstance(reason, str):
        return False
    return reason.isascii() or reason.encode(errors="ignore").decode() == reason


def wrong_answer(answer: Any, wanted: str) -> PluginError:
    """Return the error that names the returned value and the expected one."""
    hint = ""
    if answer is None:
        hint = " (is a `return` missing?)"
    elif inspect.iscoroutine(answer):
        answer.close()  # it would warn that it was never awaited
        hint = " (this method must not be `async`)"
    return PluginError(f"the plugin returned {_shown(answer)}, which is not {wanted}{hint}")


def _shown(answer: Any) -> str:
    if isinstance(answer, Status):
        return f"a Status of code {answer.code!r:.40} and reasons {answer.reasons!r:.40}"
    return "None" if answer is None else f"a {type(answer).__name__}"
