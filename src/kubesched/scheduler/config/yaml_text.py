"""YAML as the reference reads it: to the values that the same text has as JSON.

PyYAML's parser does the syntax. What a plain scalar means is decided here, because the rules
differ: `y` and `on` are true, `010` is eight, `1:30` and dates are text, and a float without
a fraction is as good as an integer. Keys come out sorted, since the reference sorts them
before it looks at fields, and so words its complaints in that order.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote

__all__ = ["parse_integer", "read_yaml", "resolve_plain"]

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(
        ("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False
    ),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|[1-9][0-9]*|0)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MERGE: Final = "<<"
_TAG: Final = "tag:yaml.org,2002:"

# Values that an alias may repeat, in proportion to all, before a text counts as an attack.
_SAFE_COUNT: Final = 400_000
_LARGE_COUNT: Final = 4_000_000


def read_yaml(text: str | bytes) -> tuple[Any, tuple[str, ...]]:
    """Read the first document; also return the complaint about repeated keys, if any."""
    try:
        builder = _Builder(iter(yaml.parse(text, Loader=yaml.CSafeLoader)))
        root = builder.first_document()
    except yaml.YAMLError as exc:
        raise ConfigError(f"yaml: {_problem(exc)}") from exc
    except RecursionError:
        raise ConfigError("yaml: exceeded the depth that can be read") from None
    if not builder.repeated:
        return root, ()
    return root, ("\n  ".join(("yaml: unmarshal errors:", *builder.repeated)),)


def resolve_plain(text: str) -> Any:
    """Say what an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    integer = parse_integer(text)
    if integer is not None and -(2**63) <= integer < 2**64:
        return integer
    digits = text.replace("_", "")
    if text[0] in "+-.0123456789" and _FLOAT.fullmatch(digits if text[0] != "." else text):
        return _number(float(digits))
    return text


class _Anchored(NamedTuple):
    value: Any
    size: int


class _Builder:
    """Builds values from parser events, with the aliases of one document."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self._anchors: dict[str, _Anchored | None] = {}  # None: still being built
        self._count = 0
        self._repeated_by_alias = 0
        self.repeated: list[str] = []

    def first_document(self) -> Any:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                return self._value(next(self._events))
        return None

    def _value(self, event: yaml.Event) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor)
        self._count += 1
        before = self._count
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence()
        else:
            value = self._mapping()
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, self._count - before + 1)
        return value

    def _alias(self, name: str | None) -> Any:
        if name is None or name not in self._anchors:
            raise ConfigError(f"yaml: unknown anchor '{name}' referenced")
        anchored = self._anchors[name]
        if anchored is None:
            raise ConfigError(f"yaml: anchor '{name}' value contains itself")
        self._count += anchored.size
        self._repeated_by_alias += anchored.size
        if (
            self._repeated_by_alias > 100
            and self._count > 1000
            and self._repeated_by_alias / self._count > _allowed_ratio(self._count)
        ):
            raise ConfigError("yaml: document contains excessive aliasing")
        return anchored.value

    def _sequence(self) -> list[Any]:
        values = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event))
        return values

    def _mapping(self) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(key_event := next(self._events), yaml.MappingEndEvent):
            is_merge = (
                isinstance(key_event, yaml.ScalarEvent)
                and key_event.value == _MERGE
                and key_event.implicit[0]
            )
            key = self._value(key_event)
            value_event = next(self._events)
            mark = value_event.start_mark
            value = self._value(value_event)
            for name, item in _merged(value) if is_merge else [(_key(key), value)]:
                if name in mapping:
                    shown = quote(name) if isinstance(key, str) else name
                    line = mark.line + 1 if mark is not None else 0
                    self.repeated.append(f"line {line}: key {shown} already set in map")
                else:
                    mapping[name] = item
        return dict(sorted(mapping.items()))


def _merged(value: Any) -> list[tuple[str, Any]]:
    sources = value if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise ConfigError("yaml: map merge requires map or sequence of maps as the value")
    return [member for source in sources for member in source.items()]


def _key(key: Any) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() | float():
            return str(key)
    raise ConfigError(f"unsupported map key: {key!r}")


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        # A quoted scalar, or one with the bare tag, is text whatever it looks like.
        value = resolve_plain(text) if tag is None and event.implicit[0] else text
    else:
        value = _tagged(text, tag)
    if isinstance(value, float) and not math.isfinite(value):
        shown = "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
        raise ConfigError(f"json: unsupported value: {shown}")
    return value


def _tagged(text: str, tag: str) -> Any:
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            return base64.b64decode(text).decode(errors="replace")
        except ValueError as exc:
            raise ConfigError("yaml: !!binary value contains invalid base64 data") from exc
    types: dict[str, tuple[type, ...]] = {
        "null": (type(None),),
        "bool": (bool,),
        "int": (int,),
        "float": (float, int),
    }
    if kind not in types:
        return text
    value = resolve_plain(text)
    if not isinstance(value, types[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise ConfigError(f"yaml: cannot decode !!str `{text}` as a !!{kind}")
    return value


# Far beyond 64 bits; `int` refuses a few thousand digits.
_LONGEST_INTEGER = 1000


def parse_integer(text: str) -> int | None:
    """Read an integer in any base that its prefix names; a leading zero means octal."""
    digits = text.replace("_", "")
    if len(digits) > _LONGEST_INTEGER or not _INTEGER.fullmatch(digits):
        return None
    sign = -1 if digits[0] == "-" else 1
    magnitude = digits.lstrip("+-")
    is_octal = len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1].isdigit()
    return sign * int(magnitude, 8 if is_octal else 0)


def _number(value: float) -> int | float:
    """A float without a fraction becomes an integer when it is written as JSON."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _allowed_ratio(count: int) -> float:
    if count <= _SAFE_COUNT:
        return 0.99
    if count >= _LARGE_COUNT:
        return 0.10
    return 0.99 - 0.89 * (count - _SAFE_COUNT) / (_LARGE_COUNT - _SAFE_COUNT)


def _problem(exc: yaml.YAMLError) -> str:
    if not isinstance(exc, yaml.MarkedYAMLError):
        return str(getattr(exc, "reason", exc))
    # The line is the one where the construct began, if that is not the first.
    mark = exc.problem_mark
    if exc.context_mark is not None and exc.context_mark.line:
        mark = exc.context_mark
    problem = exc.problem or "unknown problem parsing YAML content"
    if mark is None or not mark.line:
        return problem
    return f"line {mark.line + isinstance(exc, yaml.scanner.ScannerError)}: {problem}"
