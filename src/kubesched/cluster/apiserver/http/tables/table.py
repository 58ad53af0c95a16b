"""The columns and the layout of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api.time import parse_time
from kubesched.foundation.util.clock import SECOND

__all__ = ["AGE", "NAME", "NONE", "UNKNOWN", "Column", "Layout", "age", "human_duration", "wide"]

Json = dict[str, Any]
NONE = "<none>"
UNKNOWN = "<unknown>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400


class Column(msgspec.Struct, frozen=True):
    """A column definition."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0  # kubectl shows columns above 0 only in wide output

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": "",
            "priority": self.priority,
        }


class Layout(msgspec.Struct, frozen=True):
    """The table layout of one kind."""

    columns: Sequence[Column]
    # Takes an object and the time in nanoseconds; returns one cell per column.
    cells: Callable[[Mapping[str, Any], int], Sequence[Any]]

    def definitions(self) -> list[Json]:
        return [column.definition() for column in self.columns]


NAME = Column("Name", format="name")
AGE = Column("Age")


def wide(name: str) -> Column:
    return Column(name, priority=1)


def age(data: Mapping[str, Any], now_ns: int) -> str:
    return since(data["metadata"].get("creationTimestamp"), now_ns)


def since(time: str | None, now_ns: int) -> str:
    if not time:
        return UNKNOWN
    return human_duration((now_ns - parse_time(time)) // SECOND)


def human_duration(seconds: int) -> str:
    """Format a duration in one or two units, as kubectl does."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two_units(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two_units(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two_units(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two_units(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two_units(seconds: int, large: int, large_sign: str, small: int, small_sign: str) -> str:
    rest = seconds % large // small
    head = f"{seconds // large}{large_sign}"
    return f"{head}{rest}{small_sign}" if rest else head
