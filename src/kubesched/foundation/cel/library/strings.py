"""Helpers on strings: parts, positions, replacing, splitting, joining, formatting."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.declarations import Library, by_result, by_size
from kubesched.foundation.cel.language.expression_types import DYN, INT, STRING, list_of
from kubesched.foundation.cel.language.formatting import format_text, quote
from kubesched.foundation.cel.language.operations import bounded

__all__ = ["STRINGS"]

STRINGS: Final = Library()
_ONCE: Final = by_size(0.1)
_TWICE: Final = by_size(0.2)
_TEXTS: Final = list_of(STRING)
_ASCII_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ASCII_UPPER: Final = {code + 32: code for code in _ASCII_LOWER}
# What Go takes for space; Python's strip() also takes the separators 0x1c to 0x1f.
_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


@STRINGS.method("charAt", STRING, INT, result=STRING)
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


@STRINGS.method("indexOf", STRING, STRING, result=INT, cost=_ONCE)
@STRINGS.method("indexOf", STRING, STRING, INT, result=INT, cost=_ONCE)
def _index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text.find(part, start)


@STRINGS.method("lastIndexOf", STRING, STRING, result=INT, cost=_ONCE)
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part) if part else len(text)


@STRINGS.method("lastIndexOf", STRING, STRING, INT, result=INT, cost=_ONCE)
def _last_index_of_until(text: str, part: str, last: int) -> int:
    if not part:
        return last
    if not 0 <= last <= len(text):
        raise _out_of_range(last)
    return text.rfind(part, 0, min(last + len(part), len(text)))


@STRINGS.method("lowerAscii", STRING, result=STRING, cost=_ONCE)
def _lower(text: str) -> str:
    return text.translate(_ASCII_LOWER)


@STRINGS.method("upperAscii", STRING, result=STRING, cost=_ONCE)
def _upper(text: str) -> str:
    return text.translate(_ASCII_UPPER)


@STRINGS.method("trim", STRING, result=STRING, cost=_ONCE)
def _trim(text: str) -> str:
    return text.strip(_SPACE)


@STRINGS.method("substring", STRING, INT, result=STRING, cost=_ONCE)
def _substring_from(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


@STRINGS.method("substring", STRING, INT, INT, result=STRING, cost=_ONCE)
def _substring(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


@STRINGS.method("replace", STRING, STRING, STRING, result=STRING, cost=_TWICE)
@STRINGS.method("replace", STRING, STRING, STRING, INT, result=STRING, cost=_TWICE)
def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    found = text.count(old) if most < 0 else min(most, text.count(old))
    bounded(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, most if most >= 0 else -1)


@STRINGS.method("split", STRING, STRING, result=_TEXTS, cost=_TWICE)
@STRINGS.method("split", STRING, STRING, INT, result=_TEXTS, cost=_TWICE)
def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not separator:
        if most < 0 or most >= len(text):
            return list(text)
        return [*text[: most - 1], text[most - 1 :]]
    return text.split(separator, most - 1 if most > 0 else -1)


@STRINGS.method("join", _TEXTS, result=STRING, cost=by_result(0.2))
@STRINGS.method("join", _TEXTS, STRING, result=STRING, cost=by_result(0.2))
def _join(parts: list[Value], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise EvaluationError("join: invalid input: " + repr(part))
    bounded(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


@STRINGS.function("strings.quote", STRING, result=STRING, cost=_ONCE)
def _quote(text: str) -> str:
    return quote(text)


@STRINGS.method("format", STRING, list_of(DYN), result=STRING, cost=by_result(0.1))
def _format(text: str, arguments: list[Value]) -> str:
    return format_text(text, arguments)
