"""The lexer: turns the text of an expression into tokens.

Strings are decoded and numbers are converted here, so the parser receives values. For every text
the result is a list of tokens or a compile error, in time linear in its length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kubesched.foundation.cel.language.cel_values import MAX_INT, MAX_UINT, UInt

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.cel_values import Value
    from kubesched.foundation.cel.language.source import Source

__all__ = ["Token", "read_tokens"]

_TOKEN: Final = re.compile(
    r"""
    (?P<space>  [ \t\r\n\f]+ | //[^\n]* )
  | (?P<string> [bB]?(?:
        [rR](?: \"\"\".*?\"\"\" | '''.*?''' | "[^"\n\r]*" | '[^'\n\r]*' )
      | (?: \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''(?:[^\\]|\\.)*?'''
          | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' ) ) )
  | (?P<float>  [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+
              | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
  | (?P<int>    (?:0x[0-9a-fA-F]+ | [0-9]+)[uU]? )
  | (?P<name>   [_a-zA-Z][_a-zA-Z0-9]* )
  | (?P<sign>   == | != | <= | >= | && | \|\| | [][(){}<>.,:?!+*/%-] )
    """,
    re.VERBOSE | re.DOTALL,
)

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<plain>[abfnrtv\"'`\\?])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<short>[0-9a-fA-F]{4})"
    r"|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<wrong>.))",
    re.DOTALL,
)
_PLAIN: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    '"': '"',
    "'": "'",
    "`": "`",
    "\\": "\\",
    "?": "?",
}
# More digits than any number has; beyond, converting would cost more than reading.
_MOST_DIGITS: Final = 400


class Token(NamedTuple):
    """`kind` is a sign itself, or `name`, `value` or `end`."""

    kind: str
    position: int
    text: str
    value: Value = None


def read_tokens(source: Source) -> list[Token]:
    """Return all tokens; the last one has the kind `end`.

    Raises:
        CelCompileError: a character, string or number is invalid.
    """
    text, position = source.text, 0
    tokens: list[Token] = []
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise source.syntax_error(position, "token recognition error")
        kind, found = match.lastgroup or "", match[0]
        if kind == "sign":
            tokens.append(Token(found, position, found))
        elif kind == "name":
            tokens.append(Token("name", position, found))
        elif kind != "space":
            tokens.append(Token("value", position, found, _value(source, position, kind, found)))
        position = match.end()
    tokens.append(Token("end", len(text), "<EOF>"))
    return tokens


def _value(source: Source, position: int, kind: str, text: str) -> Value:
    if kind == "string":
        return _string(source, position, text)
    if len(text) > _MOST_DIGITS:
        raise source.fail(position, f"invalid {kind} literal")
    if kind == "float":
        return float(text)
    unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    number = int(digits, 16) if digits[:2] == "0x" else int(digits)
    if unsigned:
        if number > MAX_UINT:
            raise source.fail(position, "invalid uint literal")
        return UInt(number)
    # One more than the largest: the parser takes it after a minus sign only.
    if number > MAX_INT + 1:
        raise source.fail(position, "invalid int literal")
    return number


def _string(source: Source, position: int, text: str) -> str | bytes:
    is_bytes = text[0] in "bB"
    if is_bytes:
        text = text[1:]
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    text = text[quotes:-quotes]
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_bytes:
        return text.encode() if raw else _bytes(source, position, text)
    return text if raw or "\\" not in text else _ESCAPE.sub(_Unescape(source, position), text)


class _Unescape:
    """Decodes the escape sequences of a string."""

    def __init__(self, source: Source, position: int) -> None:
        self._source, self._position = source, position

    def __call__(self, match: re.Match[str]) -> str:
        if plain := match["plain"]:
            return _PLAIN[plain]
        if match["octal"]:
            return chr(int(match["octal"], 8))
        digits = match["hex"] or match["short"] or match["long"]
        if digits is None:
            raise self._source.fail(self._position, f"unable to unescape string: {match[0]}")
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self._source.fail(self._position, "invalid unicode code point")
        return chr(code)


def _bytes(source: Source, position: int, text: str) -> bytes:
    pieces: list[bytes] = []
    end = 0
    for match in _ESCAPE.finditer(text):
        pieces.append(text[end : match.start()].encode())
        end = match.end()
        if plain := match["plain"]:
            pieces.append(_PLAIN[plain].encode())
        elif match["hex"] or match["octal"]:
            code = int(match["hex"], 16) if match["hex"] else int(match["octal"], 8)
            pieces.append(bytes((code,)))
        else:
            raise source.fail(position, f"unable to unescape bytes: {match[0]}")
    pieces.append(text[end:].encode())
    return b"".join(pieces)
