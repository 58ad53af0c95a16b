"""`"%s of %d".format([…])`: the clauses, what each takes, and how it is written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import (
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    type_name,
)
from kubesched.foundation.cel.language.conversions import duration_text, timestamp_text
from kubesched.foundation.cel.language.operations import bounded

__all__ = ["ACCEPTED", "Clause", "clauses", "format_text", "quote", "refusal_of"]

_CLAUSE: Final = re.compile(r"%(?:\.(?P<precision>[0-9]*))?(?P<verb>.?)", re.DOTALL)
_MOST_DIGITS: Final = 1000

# The static types that a clause of a literal format may be given.
ACCEPTED: Final = {
    "s": frozenset(
        (
            "bool", "bytes", "double", "google.protobuf.Duration", "google.protobuf.Timestamp",
            "int", "list", "map", "null_type", "string", "type", "uint",
        )
    ),
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("bool", "int", "uint")),
    "x": frozenset(("bytes", "int", "string", "uint")),
    "X": frozenset(("bytes", "int", "string", "uint")),
    "o": frozenset(("int", "uint")),
}  # fmt: skip


# What a clause may be given, in messages.
_STRING_CLAUSE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps"
)
_HEXADECIMAL_CLAUSE: Final = "only integers, byte buffers, and strings can be formatted as hex"
_WORDS: Final = {
    "s": _STRING_CLAUSE,
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": _HEXADECIMAL_CLAUSE,
    "X": _HEXADECIMAL_CLAUSE,
    "o": "octal clause can only be used on integers",
}


def refusal_of(verb: str, type_name: str) -> str:
    """Return the message about an argument of a type that the clause does not take."""
    return f"error during formatting: {_WORDS[verb]}, was given {type_name}"


class Clause(NamedTuple):
    """A place for an argument, or text (an empty verb)."""

    verb: str
    precision: int | None
    text: str


def clauses(template: str) -> Iterator[Clause]:
    """Return the literal parts and the clauses of a format, in order.

    Raises:
        EvaluationError: a clause is invalid.
    """
    end = 0
    for match in _CLAUSE.finditer(template):
        if match.start() > end:
            yield Clause("", None, template[end : match.start()])
        end = match.end()
        verb, precision = match["verb"], match["precision"]
        if verb == "%" and precision is None:
            yield Clause("", None, "%")
            continue
        if not verb:
            raise EvaluationError("unexpected end of string")
        if verb not in ACCEPTED:
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{verb}"'
            )
        if precision == "" or (precision and len(precision) > 4):
            raise EvaluationError(
                "could not parse formatting clause: error while parsing precision"
            )
        yield Clause(verb, int(precision) if precision is not None else None, match[0])
    if end < len(template):
        yield Clause("", None, template[end:])


def format_text(template: str, arguments: Sequence[Value]) -> str:
    """The format with its clauses filled in.

    Raises:
        EvaluationError: an argument is missing, or of a type that its clause does not take.
    """
    pieces: list[str] = []
    used = 0
    length = 0
    for clause in clauses(template):
        if not clause.verb:
            pieces.append(clause.text)
        else:
            if used >= len(arguments):
                raise EvaluationError(f"index {used} out of range")
            pieces.append(_filled(clause, arguments[used]))
            used += 1
        length += len(pieces[-1])
        bounded(length)
    return "".join(pieces)


def _filled(clause: Clause, value: Value) -> str:
    precision = 6 if clause.precision is None else min(clause.precision, _MOST_DIGITS)
    match clause.verb:
        case "s":
            return _plain(value)
        case "d":
            return _decimal(value)
        case "f" | "e":
            return _float(clause.verb, precision, value)
        case "b":
            return _binary(value)
        case "o":
            return _based("o", value)
        case _:
            return _hexadecimal(clause.verb, value)


def _wrong(verb: str, value: Value) -> EvaluationError:
    return EvaluationError(refusal_of(verb, type_name(value)))


def _decimal(value: Value) -> str:
    if type(value) is int or type(value) is UInt:
        return str(int(value))
    raise _wrong("d", value)


def _float(verb: str, precision: int, value: Value) -> str:
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        value = float(value)
    if type(value) is not float:
        raise _wrong(verb, value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{precision}{verb}}"


def _binary(value: Value) -> str:
    if type(value) is bool:
        return "1" if value else "0"
    return _based("b", value)


def _based(base: str, value: Value) -> str:
    if type(value) is not int and type(value) is not UInt:
        raise _wrong(base, value)
    return format(int(value), base)


def _hexadecimal(verb: str, value: Value) -> str:
    if type(value) is str:
        text = value.encode(errors="surrogatepass").hex()
    elif type(value) is bytes:
        text = value.hex()
    elif type(value) is int or type(value) is UInt:
        text = format(int(value), "x")
    else:
        raise _wrong("x", value)
    return text.upper() if verb == "X" else text


def _plain(value: Value) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case UInt() | int():
            return str(int(value))
        case float():
            return _shortest(value)
        case bytes():
            return value.decode(errors="replace")
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case TypeValue():
            return value.name
        case list() | tuple():
            return "[" + ", ".join(map(_plain, value)) + "]"
        case dict():
            entries = sorted((_plain(key), _plain(held)) for key, held in value.items())
            return "{" + ", ".join(f"{key}: {held}" for key, held in entries) + "}"
        case _:
            raise _wrong("s", value)


def _shortest(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = format(value, "f") if value.is_integer() else repr(value)
    if "e" in text:
        text = f"{value:.330f}".rstrip("0")
    return text.rstrip("0").rstrip(".") if "." in text else text


_QUOTED: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def quote(text: str) -> str:
    """A string as a literal of the language."""
    return '"' + "".join(_QUOTED.get(each, each) for each in text) + '"'
