"""The latest time in a set of objects: approximately the time when they were read.

Virtual time that starts with objects of a cluster starts there: a pod whose containers started in
the future would not be ready.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable
from functools import cache
from operator import attrgetter
from typing import Any, Final

import msgspec

from kubesched.api.time import parse_time

__all__ = ["PAST_TIMES", "latest_time_ns"]

# Fields with the time of something that has happened. `deletionTimestamp` is not one of them: it is
# the time when the grace period ends.
PAST_TIMES: Final = frozenset(
    [
        "acquire_time",
        "allocation_timestamp",
        "completion_time",
        "creation_timestamp",
        "disrupted_pods",  # times by pod
        "finished_at",
        "last_heartbeat_time",
        "last_phase_transition_time",
        "last_probe_time",
        "last_schedule_time",
        "last_successful_time",
        "last_transition_time",
        "renew_time",
        "start_time",
        "started_at",
        "time",
        "time_added",
    ]
)
# 2200-01-01: later times are mistakes, and a later clock would not fit into 64 bits for long.
_MOST_NS: Final = 7_258_118_400 * 1_000_000_000


def latest_time_ns(objects: Iterable[Any]) -> int:
    """Return the latest time in the objects, in nanoseconds since the epoch; 0 without times."""
    texts: set[str] = set()
    for each in objects:
        if isinstance(each, msgspec.Struct):
            _collect(each, texts)
    return max((ns for ns in map(_parsed, texts) if ns < _MOST_NS), default=0)


def _parsed(text: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        return 0


def _collect(value: Any, texts: set[str]) -> None:
    if isinstance(value, msgspec.Struct):
        for is_time, member in _members(type(value)):
            found = member(value)
            if not found:
                continue
            if is_time:
                texts.update(found.values() if isinstance(found, dict) else [found])
            else:
                _collect(found, texts)
    elif isinstance(value, dict):
        for each in value.values():
            _collect(each, texts)
    elif isinstance(value, tuple | list):
        for each in value:
            _collect(each, texts)


@cache
def _members(kind: type[msgspec.Struct]) -> tuple[tuple[bool, attrgetter[Any]], ...]:
    """Return the fields of a type that are times, or contain times."""
    found = []
    for field in msgspec.structs.fields(kind):
        if field.name in PAST_TIMES:
            found.append((True, attrgetter(field.name)))
        elif any(_has_times(part, (kind,)) for part in _structs_in(field.type)):
            found.append((False, attrgetter(field.name)))
    return tuple(found)


def _has_times(kind: type[msgspec.Struct], above: tuple[type[msgspec.Struct], ...]) -> bool:
    if kind in above:
        return False
    return any(
        field.name in PAST_TIMES
        or any(_has_times(part, (*above, kind)) for part in _structs_in(field.type))
        for field in msgspec.structs.fields(kind)
    )


def _structs_in(annotation: Any) -> list[type[msgspec.Struct]]:
    """Return the struct types in an annotation, such as the items of a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [kind for part in typing.get_args(annotation) for kind in _structs_in(part)]
