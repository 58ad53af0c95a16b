"""The grammar of label selectors in query strings: `app=web,!canary,size>3`.

This module only parses the text; `Requirement` validates keys and values.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kubesched.api.validation import EMPTY_VALUES, invalid, label_key_errors
from kubesched.errors import SelectorError

__all__ = ["ParsedRequirement", "parse_label_query"]

_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),><])|(?P<word>[^=!(),>< \t\r\n]+)|\Z)"
)
_OPERATORS: Final = {
    "in": "in",
    "notin": "notin",
    "=": "=",
    "==": "==",
    "!=": "!=",
    ">": "gt",
    "<": "lt",
}
_SYMBOLS: Final = frozenset("=!(),><") | {"==", "!="}


class ParsedRequirement(NamedTuple):
    """One requirement of a query, before validation."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_label_query(text: str) -> list[ParsedRequirement]:
    """Parse a query; raise SelectorError with a real API server's message."""
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def parse(self) -> list[ParsedRequirement]:
        requirements: list[ParsedRequirement] = []
        if self._peek() == "":
            return requirements
        if self._peek() in _SYMBOLS - {"!"}:
            raise _expected(self._peek(), "!, identifier, or 'end of string'")
        while True:
            try:
                requirements.append(self._requirement())
            except SelectorError as exc:
                raise SelectorError(f"unable to parse requirement: {exc}") from None
            separator = self._next()
            if separator == "":
                return requirements
            if separator != ",":
                raise _expected(separator, "',' or 'end of string'")
            if self._peek() == "" or self._peek() in _SYMBOLS - {"!"}:
                raise _expected(self._peek(), "identifier after ','")

    def _requirement(self) -> ParsedRequirement:
        key = self._next()
        is_absent = key == "!"
        if is_absent:
            key = self._next()
        if key == "" or key in _SYMBOLS:
            raise _expected(key, "identifier")
        if complaints := label_key_errors(key):
            raise SelectorError(invalid("<nil>", key, "; ".join(complaints)))
        if self._peek() in ("", ","):
            return ParsedRequirement(key, "!" if is_absent else "exists")
        if is_absent:
            # The reference reads `!key` alone, and then rejects the rest.
            return ParsedRequirement(key, "!")
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise _expected(word, "in, notin, =, ==, !=, gt, lt")
        if operator in ("in", "notin"):
            values = self._list()
            if not values:
                raise SelectorError(f"values: Invalid value: []: {EMPTY_VALUES}")
            return ParsedRequirement(key, operator, values)
        return ParsedRequirement(key, operator, (self._value(),))

    def _value(self) -> str:
        if self._peek() in ("", ","):
            return ""
        value = self._next()
        if value in _SYMBOLS:
            raise _expected(value, "identifier")
        return value

    def _list(self) -> tuple[str, ...]:
        """Parse values in parentheses, sorted and distinct; `(,)` has an empty value."""
        opening = self._next()
        if opening != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        first = self._peek()
        if first == ")":
            self._next()
            return ()
        if first == "" or first in _SYMBOLS - {","}:
            raise _expected(first, "',', ')' or identifier")
        values = {""} if first == "," else set()
        while self._peek() != ")":
            token = self._next()
            following = self._peek()
            if token == ",":
                if following in (",", ")"):
                    values.add("")
            elif token == "" or token in _SYMBOLS:
                raise _expected(token, "',', or identifier")
            elif following not in (",", ")"):
                raise _expected(following, "',' or ')'")
            else:
                values.add(token)
        self._next()
        return tuple(sorted(values))

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _next(self) -> str:
        token = self._tokens[self._position]
        if token:
            self._position += 1
        return token


def _tokens(text: str) -> list[str]:
    """Return the words and symbols of a query, and an empty token at its end."""
    found = _TOKEN.finditer(text)
    return [match["symbol"] or match["word"] or "" for match in found]


def _expected(found: str, expected: str) -> SelectorError:
    return SelectorError(f"found '{found}', expected: {expected}")
