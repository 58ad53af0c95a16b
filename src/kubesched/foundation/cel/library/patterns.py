"""Finding what a regular expression matches."""

from __future__ import annotations

from itertools import islice
from typing import Final

from kubesched.foundation.cel.language import regex
from kubesched.foundation.cel.language.declarations import Library
from kubesched.foundation.cel.language.expression_types import INT, STRING, list_of

__all__ = ["PATTERNS"]

PATTERNS: Final = Library()


@PATTERNS.method("find", STRING, STRING, result=STRING, cost=regex.cost)
def _find(text: str, pattern: str) -> str:
    match = regex.compile_pattern(pattern).search(text)
    return match.group() if match else ""


@PATTERNS.method("findAll", STRING, STRING, result=list_of(STRING), cost=regex.cost)
@PATTERNS.method("findAll", STRING, STRING, INT, result=list_of(STRING), cost=regex.cost)
def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    matches = regex.compile_pattern(pattern).finditer(text)
    found = matches if most < 0 else islice(matches, most)
    return [match.group() for match in found]
