"""The table of a custom resource, with the printer columns of its definition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubesched.cluster.apiserver.http.tables.table import NAME, UNKNOWN, Column, Layout, since

__all__ = ["custom_layout", "values_at"]

_STEP: Final = re.compile(
    r"""
    \.\.?(?P<name>(?:[^.\[\\]|\\.)+)
  | \['(?P<quoted>[^']*)'\]
  | \[(?P<index>-?[0-9]+)\]
  | \[(?P<every>\*)\]
  | \[\?\(\s*@\.(?P<field>[\w.]+)\s*==\s*(?P<wanted>"[^"]*"|'[^']*'|[\w.]+)\s*\)\]
    """,
    re.VERBOSE,
)


def custom_layout(columns: Sequence[Mapping[str, Any]]) -> Layout:
    """Create a layout with the name and the declared columns, or the age if there are none."""
    listed = columns or [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    shown = [
        Column(
            str(each.get("name", "")),
            type=str(each.get("type", "string")),
            format=str(each.get("format", "")),
            priority=int(each.get("priority", 0)),
        )
        for each in listed
    ]
    paths = [(str(each.get("jsonPath", "")), str(each.get("type", "string"))) for each in listed]

    def cells(data: Mapping[str, Any], now_ns: int) -> Sequence[Any]:
        return (
            data["metadata"]["name"],
            *(_cell(data, path, kind, now_ns) for path, kind in paths),
        )

    return Layout((NAME, *shown), cells)


def _cell(data: Mapping[str, Any], path: str, kind: str, now_ns: int) -> Any:
    found = list(values_at(data, path))
    if not found:
        return None
    if kind == "string":
        texts = [each if isinstance(each, str) else _text(each) for each in found]
        return ",".join(texts)
    value = found[0]
    if kind == "date":
        return _elapsed(value, now_ns)
    wanted: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float)}
    return value if type(value) in wanted.get(kind, (bool,)) else None


def _elapsed(value: Any, now_ns: int) -> str:
    try:
        return since(value, now_ns) if isinstance(value, str) else UNKNOWN
    except ValueError:
        return "<invalid>"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_text(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_text, value)) + "]"
    return str(value)


def values_at(data: Any, path: str) -> Iterator[Any]:
    """Evaluate a simple JSONPath: names, indices, `[*]` and `[?(@.field=="value")]`."""
    values = [data]
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return
        values = [found for value in values for found in _step(value, match)]
        position = match.end()
    yield from (value for value in values if value is not None)


def _step(value: Any, match: re.Match[str]) -> Iterator[Any]:
    if (name := match["name"] or match["quoted"]) is not None:
        if isinstance(value, dict):
            key = name.replace("\\", "")
            if key == "*":
                yield from value.values()
            elif key in value:
                yield value[key]
    elif isinstance(value, list):
        if match["index"]:
            index = int(match["index"])
            if -len(value) <= index < len(value):
                yield value[index]
        elif match["every"]:
            yield from value
        else:
            wanted = match["wanted"].strip("\"'")
            yield from (each for each in value if _field(each, match["field"]) == wanted)


def _field(value: Any, path: str) -> str | None:
    for name in path.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value if isinstance(value, str) else _text(value)
