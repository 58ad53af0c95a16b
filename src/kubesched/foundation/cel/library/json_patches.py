"""Writing JSON patches: only where expressions may change objects."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.declarations import Library, by_size
from kubesched.foundation.cel.language.expression_types import STRING

__all__ = ["JSON_PATCHES"]

JSON_PATCHES: Final = Library()


@JSON_PATCHES.function("jsonpatch.escapeKey", STRING, result=STRING, cost=by_size(0.1))
def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
