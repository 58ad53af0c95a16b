"""Regular expressions in RE2's syntax, in time linear in the text.

Python's own `re` backtracks: for a pattern of a dozen characters it can run for years. RE2 needs
linear time. A pattern that RE2 rejects is an error here, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol, cast

import re2

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.declarations import size_or_one

__all__ = ["Pattern", "compile_pattern", "cost", "search"]


class Match(Protocol):
    """A match of a pattern."""

    def group(self) -> str: ...


class Pattern(Protocol):
    """The parts of a compiled pattern that are used here."""

    def search(self, text: str) -> Match | None: ...

    def finditer(self, text: str) -> Iterator[Match]: ...


_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 8 << 20


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern:
    """A compiled pattern.

    Raises:
        EvaluationError: RE2 does not accept it.
    """
    try:
        return cast(Pattern, re2.compile(pattern, _OPTIONS))
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        if isinstance(reason, bytes):
            reason = reason.decode(errors="replace")
        raise EvaluationError(f"error parsing regexp: {reason}") from None


def search(pattern: str, text: str) -> bool:
    """Whether a pattern is found anywhere in a text."""
    return compile_pattern(pattern).search(text) is not None


def cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """What matching a pattern costs: in proportion to both lengths."""
    text, pattern = arguments[:2]
    return math.ceil((1 + size_or_one(text)) * 0.1) * math.ceil(size_or_one(pattern) * 0.25)
