"""What to say of a plugin that answered something else than its method must answer."""

from __future__ import annotations

import inspect
from typing import Any

from kubesched.util.errors import PluginError

__all__ = ["wrong_answer"]


def wrong_answer(answer: Any, wanted: str) -> PluginError:
    """Say what came instead of what was wanted."""
    hint = ""
    if answer is None:
        hint = " (is a `return` missing?)"
    elif inspect.iscoroutine(answer):
        answer.close()  # nobody will await it
        hint = " (this method must not be `async`)"
    return PluginError(f"the plugin returned {_shown(answer)}, which is not {wanted}{hint}")


def _shown(answer: Any) -> str:
    return "None" if answer is None else f"a {type(answer).__name__}"
