"""The YAML of a configuration, with the reference's error texts.

`foundation/util/yaml_reader.py` converts scalars and keys. This module builds the values from
parser events, because the reference reports repeated keys and invalid aliases with texts of its
own. Keys are sorted, as in the reference, which sorts them before it checks fields. The errors are
therefore in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import yaml

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.yaml_reader import (
    MERGE_KEY,
    check_finite,
    key_text,
    resolve_plain,
    resolve_tagged,
)

__all__ = ["read_yaml"]

# The bounds between which the allowed share of aliased values decreases.
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
                and key_event.value == MERGE_KEY
                and key_event.implicit[0]
            )
            key = self._value(key_event)
            value_event = next(self._events)
            mark = value_event.start_mark
            value = self._value(value_event)
            for name, item in _merged(value) if is_merge else [(key_text(key), value)]:
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


def _scalar(event: yaml.ScalarEvent) -> Any:
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        # A quoted scalar, or one with the bare tag, is always text.
        value = resolve_plain(text) if tag is None and event.implicit[0] else text
    else:
        value = resolve_tagged(text, tag)
    return check_finite(value)


def _allowed_ratio(count: int) -> float:
    if count <= _SAFE_COUNT:
        return 0.99
    if count >= _LARGE_COUNT:
        return 0.10
    return 0.99 - 0.89 * (count - _SAFE_COUNT) / (_LARGE_COUNT - _SAFE_COUNT)


def _problem(exc: yaml.YAMLError) -> str:
    if not isinstance(exc, yaml.MarkedYAMLError):
        return str(getattr(exc, "reason", exc))
    # The line where the construct began, if that is not the first line.
    mark = exc.problem_mark
    if exc.context_mark is not None and exc.context_mark.line:
        mark = exc.context_mark
    problem = exc.problem or "unknown problem parsing YAML content"
    if mark is None or not mark.line:
        return problem
    return f"line {mark.line + isinstance(exc, yaml.scanner.ScannerError)}: {problem}"
