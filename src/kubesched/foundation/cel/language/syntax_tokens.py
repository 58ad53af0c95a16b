"""Tokens as the parser of the reference reads them, with the errors of its lexer."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["END", "SyntaxProblem", "SyntaxToken", "read_syntax_tokens"]

END: Final = "<EOF>"
_KEYWORDS: Final = frozenset(("in", "true", "false", "null"))
_ESCAPE: Final = (
    r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
)
_TOKEN: Final = re.compile(
    rf"""
    (?P<hidden> [ \t\r\n\f]+ | //[^\n]* )
  | (?P<quoted> [bB]?(?: [rR](?: \"\"\".*?\"\"\" | '''.*?''' | "[^"\n\r]*" | '[^'\n\r]*' )
      | \"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\" | '''(?:{_ESCAPE}|[^\\])*?'''
      | "(?:{_ESCAPE}|[^\\"\n\r])*" | '(?:{_ESCAPE}|[^\\'\n\r])*' ) )
  | (?P<NUM_FLOAT> [0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+
      | \.[0-9]+(?:[eE][+-]?[0-9]+)? )
  | (?P<NUM_UINT> (?:0x[0-9a-fA-F]+ | [0-9]+)[uU] )
  | (?P<NUM_INT> 0x[0-9a-fA-F]+ | [0-9]+ )
  | (?P<IDENTIFIER> [_a-zA-Z][_a-zA-Z0-9]* )
  | (?P<ESC_IDENTIFIER> `[a-zA-Z0-9_./ -]+` )
  | (?P<sign> == | != | <= | >= | && | \|\| | [][(){{}}<>.,:?!+*/%-] )
    """,
    re.VERBOSE | re.DOTALL,
)
# What the lexer reads from a character that begins no token, before the character that is wrong.
_BROKEN: Final = {
    '"': re.compile(rf'"(?:{_ESCAPE}|[^\\"\n\r])*'),
    "'": re.compile(rf"'(?:{_ESCAPE}|[^\\'\n\r])*"),
    "`": re.compile(r"`[a-zA-Z0-9_./ -]*"),
    "&": re.compile("&"),
    "|": re.compile(r"\|"),
    "=": re.compile("="),
}
_BROKEN_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?"
)


class SyntaxProblem(NamedTuple):
    """An error and the offset that it points to; -1: the text as a whole."""

    position: int
    message: str


class SyntaxToken(NamedTuple):
    """A token; `kind` is its name in messages."""

    kind: str
    text: str
    position: int


def read_syntax_tokens(
    text: str, problems: list[SyntaxProblem]
) -> tuple[list[SyntaxToken], dict[int, str]]:
    """Return the tokens, and by the index of a token the spaces and comments before it.

    Errors are added to the problems.
    """
    tokens: list[SyntaxToken] = []
    hidden: dict[int, str] = {}
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            end = _end_of_broken(text, position) + 1
            message = f"token recognition error at: '{text[position:end]}'"
            problems.append(SyntaxProblem(position, message))
            position = end
            continue
        kind, found = match.lastgroup or "", match[0]
        if kind == "hidden":
            hidden[len(tokens)] = hidden.get(len(tokens), "") + found
        else:
            tokens.append(SyntaxToken(_kind_of(kind, found), found, position))
        position = match.end()
    tokens.append(SyntaxToken(END, END, len(text)))
    return tokens, hidden


def _kind_of(group: str, text: str) -> str:
    if group == "quoted":
        return "BYTES" if text[0] in "bB" else "STRING"
    if group == "sign" or text in _KEYWORDS:
        return f"'{text}'"
    return group


def _end_of_broken(text: str, position: int) -> int:
    """Return the offset of the character at which the lexer gives up."""
    pattern = _BROKEN.get(text[position])
    match = None if pattern is None else pattern.match(text, position)
    if match is None:
        return position
    broken = _BROKEN_ESCAPE.match(text, match.end()) if text[position] in "\"'" else None
    return match.end() if broken is None else broken.end()
