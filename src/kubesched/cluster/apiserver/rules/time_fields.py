"""Times in documents: every field that is declared to be one must be one.

Types here keep times as text, and whoever needs one parses it, long after the object was stored.
What cannot be parsed is refused at the door, as the reference does when it decodes a body.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.rules.schema.definitions import (
    Json,
    definition_of,
    definitions,
    target,
)
from kubesched.foundation.util.go_format import quote

__all__ = ["time_problem"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LAYOUTS: Final = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "2006-01-02T15:04:05Z07:00",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "2006-01-02T15:04:05.000000Z07:00",
}
_NOTHING: Final[Json] = {}

# From a value, and the one that is known to be fine, to what is wrong with it.
_Look = Callable[[Any, Any], str]


def time_problem(
    group: str, version: str, kind: str, document: Json, known: Json | None = None
) -> str:
    """What is wrong with the first time that is none; empty if all are fine.

    Parts that are the very objects of the `known` document are known to be fine.
    """
    look = _look_at(definition_of(group, version, kind))
    return "" if look is None else look(document, known)


@cache
def _look_at(name: str | None) -> _Look | None:
    """How to look at a kind; all have metadata, those without a definition nothing else."""
    if name is not None:
        return _look_inside(name)
    metadata = _look_inside(_META)
    assert metadata is not None
    return _look_at_object({"metadata": metadata})


@cache
def _look_inside(name: str, above: tuple[str, ...] = ()) -> _Look | None:
    """How to look at what has a definition; None if there are no times in it."""
    if name in _LAYOUTS:
        return _look_at_time(_LAYOUTS[name])
    if name in above:
        return None  # no kind of ours has a time inside of something recursive
    found = {
        field: look
        for field, schema in definitions()[name].get("properties", {}).items()
        if (look := _of_schema(schema, (*above, name))) is not None
    }
    return _look_at_object(found) if found else None


def _of_schema(schema: Json, above: tuple[str, ...]) -> _Look | None:
    name = target(schema)
    if name is None and len(parts := schema.get("allOf", ())) == 1:
        name = target(parts[0])
    if name is not None:
        return _look_inside(name, above)
    for kind, look_at in (("items", _look_at_items), ("additionalProperties", _look_at_values)):
        within = schema.get(kind)
        if isinstance(within, dict) and (inside := _of_schema(within, above)) is not None:
            return look_at(inside)
    return None


def _look_at_time(layout: str) -> _Look:
    def look(value: Any, _known: Any) -> str:
        if not isinstance(value, str) or _is_time(value):
            return ""
        shown = quote(value[:100])
        return f'parsing time {shown} as "{layout}": cannot parse {shown} as "2006"'

    return look


def _look_at_object(fields: dict[str, _Look]) -> _Look:
    def look(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, dict):
            return ""
        before: dict[str, Any] = known if isinstance(known, dict) else _NOTHING
        for field, inside in fields.items():
            each = value.get(field)
            if each is None or each is before.get(field):
                continue
            if problem := inside(each, before.get(field)):
                return problem
        return ""

    return look


def _look_at_items(inside: _Look) -> _Look:
    def look(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, list):
            return ""
        fine = {*map(id, known)} if isinstance(known, list) else ()
        for each in value:
            if id(each) not in fine and (problem := inside(each, None)):
                return problem
        return ""

    return look


def _look_at_values(inside: _Look) -> _Look:
    def look(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, dict):
            return ""
        for each in value.values():
            if problem := inside(each, None):
                return problem
        return ""

    return look


@lru_cache(maxsize=4096)
def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
