"""Parses the text of a configuration to plain values, as the reference does.

docs/reference/01 §2.1. Text whose first character is `{` is JSON, anything else YAML. A repeated
key does not end parsing: it is a strictness problem, reported together with unknown fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.config.yaml_text import read_yaml

__all__ = [
    "ConfigDocument",
    "JsonNumber",
    "JsonObject",
    "json_kind",
    "members",
    "plain",
    "read_document",
]


class JsonNumber(float):
    """A number with a fraction or an exponent, and its text in the file."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        number = super().__new__(cls, text)
        number.text = text
        return number


class JsonObject(dict[str, Any]):
    """An object with all its members in the order of the text, including repeated ones."""

    pairs: tuple[tuple[str, Any], ...]

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = tuple(pairs)


class ConfigDocument(msgspec.Struct, frozen=True):
    """The value of a text, and the problems with repeated keys."""

    root: Any
    text: str
    problems: tuple[str, ...] = ()


def read_document(text: str | bytes) -> ConfigDocument:
    """Parse a configuration text. Of several YAML documents only the first is used."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    try:
        if decoded.lstrip().startswith("{"):
            return ConfigDocument(_read_json(decoded), decoded)
        root, problems = read_yaml(text)
        return ConfigDocument(root, decoded, problems)
    except RecursionError:
        raise ConfigError("exceeded max depth") from None


def members(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the members of an object, including repeated ones."""
    yield from value.pairs if isinstance(value, JsonObject) else value.items()


def plain(value: Any) -> Any:
    """Convert a value to built-in types. The last value of a repeated key wins."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case JsonNumber():
            return float(value)
    return value


def json_kind(value: Any) -> str:
    """Return the name of a value's type in error messages."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case dict():
            return "object"
        case list():
            return "array"
    return "null"


def _read_json(text: str) -> Any:
    try:
        return json.loads(
            text, object_pairs_hook=JsonObject, parse_float=JsonNumber, parse_constant=_no_constant
        )
    except json.JSONDecodeError as exc:
        raise ConfigError(
            f"couldn't get version/kind; json parse error: {_json_problem(exc)}"
        ) from exc


def _no_constant(name: str) -> NoReturn:
    raise ConfigError(
        "couldn't get version/kind; json parse error: "
        f"invalid character {_character(name.lstrip('-'))} looking for beginning of value"
    )


_JSON_PROBLEMS: Final = (
    ("Expecting property name", "looking for beginning of object key string"),
    ("Illegal trailing comma", "looking for beginning of object key string"),
    ("Expecting value", "looking for beginning of value"),
    ("Expecting ':' delimiter", "after object key"),
    ("Extra data", "after top-level value"),
    ("Invalid control character", "in string literal"),
    ("Invalid \\escape", "in string escape code"),
    ("Invalid \\uXXXX escape", "in \\u hexadecimal character escape"),
)


def _json_problem(exc: json.JSONDecodeError) -> str:
    """Return the text of Go's parser for a syntax error, as far as the position determines it."""
    rest = exc.doc[exc.pos :]
    if not rest.strip() or exc.msg.startswith("Unterminated string"):
        return "unexpected end of JSON input"
    if exc.msg.startswith("Expecting ',' delimiter"):
        in_array = _innermost_bracket(exc.doc[: exc.pos]) == "["
        where = "after array element" if in_array else "after object key:value pair"
    else:
        where = next((text for start, text in _JSON_PROBLEMS if exc.msg.startswith(start)), "")
    return f"invalid character {_character(rest)} {where}".rstrip()


def _character(text: str) -> str:
    char = text[0]
    if char == "'":
        return r"'\''"
    return "'\"'" if char == '"' else f"'{quote(char)[1:-1]}'"


def _innermost_bracket(text: str) -> str:
    """Return the innermost open bracket at the end of a JSON prefix."""
    brackets: list[str] = []
    in_string = escaped = False
    for char in text:
        if in_string:
            escaped, in_string = (not escaped and char == "\\"), (escaped or char != '"')
        elif char == '"':
            in_string = True
        elif char in "[{":
            brackets.append(char)
        elif char in "]}":
            brackets.pop()
    return brackets[-1]
