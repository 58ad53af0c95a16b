"""YAML in the layout of Kubernetes tools: sorted keys, lists level with their key.

Text is quoted only where a parser would otherwise read another value, or where YAML requires
quotes. PyYAML emits the text; this module only decides about quotes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from kubesched.foundation.util.yaml_reader import resolve_plain

__all__ = ["dump_yaml"]

_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d?-\d\d?"
    r"([Tt\s]\s*\d\d?:\d\d?:\d\d?(\.\d+)?\s*(Z|[-+]\d\d?(:?\d\d)?)?)?"
)
_SEXAGESIMAL: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_PARTS: Final = re.compile(r"\d+|\D")


def dump_yaml(value: Any) -> str:
    """Write plain values as one YAML document."""
    events = (
        yaml.StreamStartEvent(encoding=None),
        yaml.DocumentStartEvent(explicit=False),
        *_events(value),
        yaml.DocumentEndEvent(explicit=False),
        yaml.StreamEndEvent(),
    )
    text: str = yaml.emit(events, Dumper=yaml.CSafeDumper, allow_unicode=True)
    return text


def _events(value: Any) -> Iterator[yaml.Event]:
    match value:
        case dict():
            yield yaml.MappingStartEvent(anchor=None, tag=None, implicit=True, flow_style=False)
            for key in sorted(value, key=_natural_order):
                yield from _events(key)
                yield from _events(value[key])
            yield yaml.MappingEndEvent()
        case list() | tuple():
            yield yaml.SequenceStartEvent(anchor=None, tag=None, implicit=True, flow_style=False)
            for item in value:
                yield from _events(item)
            yield yaml.SequenceEndEvent()
        case _:
            text, style = _scalar(value)
            yield yaml.ScalarEvent(
                anchor=None, tag=None, implicit=(True, True), value=text, style=style
            )


def _scalar(value: Any) -> tuple[str, str | None]:
    match value:
        case None:
            return "null", None
        case bool():
            return ("true" if value else "false"), None
        case int():
            return str(value), None
        case float():
            is_short = value.is_integer() and abs(value) < 1e21
            return (str(int(value)) if is_short else repr(value)), None
    text = str(value)
    if "\n" in text:
        return text, "|"
    return text, None if _stays_text(text) else '"'


def _stays_text(text: str) -> bool:
    return (
        isinstance(resolve_plain(text), str)
        and text != "<<"
        and not _TIMESTAMP.fullmatch(text)
        and not _SEXAGESIMAL.fullmatch(text)
    )


@functools.cmp_to_key
def _natural_order(left: str, right: str) -> int:
    """Return a sort key for natural order: signs, then numbers by value, then letters."""
    for a, b in zip(_PARTS.findall(left), _PARTS.findall(right), strict=False):
        if a == b:
            continue
        rank_a, rank_b = _rank(a), _rank(b)
        if rank_a != rank_b:
            return rank_a - rank_b
        if rank_a == 1 and int(a) != int(b):
            return -1 if int(a) < int(b) else 1
        return -1 if a < b else 1
    return len(left) - len(right)


def _rank(part: str) -> int:
    if part[0].isdecimal():
        return 1
    return 2 if part[0].isalpha() else 0
