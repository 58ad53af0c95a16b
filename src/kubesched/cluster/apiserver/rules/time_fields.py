"""Validation of time fields in documents.

The struct types hold times as strings, which readers parse long after the object was stored. So
the server refuses invalid times in requests, as the reference does when it decodes a body.
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
    reference_target,
)
from kubesched.foundation.util.go_format import quote

__all__ = ["time_problem"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LAYOUTS: Final = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "2006-01-02T15:04:05Z07:00",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "2006-01-02T15:04:05.000000Z07:00",
}
_NOTHING: Final[Json] = {}

# Takes a value and a value that was checked before, and returns the problem, or an empty string.
_Check = Callable[[Any, Any], str]


def time_problem(
    group: str, version: str, kind: str, document: Json, known: Json | None = None
) -> str:
    """Return the problem of the first invalid time in a document; empty if there is none.

    Parts that are the same objects as in the `known` document are valid and are not checked.
    """
    check = _check_of_kind(definition_of(group, version, kind))
    return "" if check is None else check(document, known)


@cache
def _check_of_kind(name: str | None) -> _Check | None:
    """Build the check of a kind. For a kind without a definition it checks the metadata."""
    if name is not None:
        return _check_of_definition(name)
    metadata = _check_of_definition(_META)
    assert metadata is not None
    return _object_check({"metadata": metadata})


@cache
def _check_of_definition(name: str, above: tuple[str, ...] = ()) -> _Check | None:
    """Build the check of a definition; None if it contains no times.

    `above` are the definitions that contain this one.
    """
    if name in _LAYOUTS:
        return _time_check(_LAYOUTS[name])
    if name in above:
        return None  # no recursive definition contains a time
    found = {
        field: check
        for field, schema in definitions()[name].get("properties", {}).items()
        if (check := _check_of_schema(schema, (*above, name))) is not None
    }
    return _object_check(found) if found else None


def _check_of_schema(schema: Json, above: tuple[str, ...]) -> _Check | None:
    name = reference_target(schema)
    if name is None and len(parts := schema.get("allOf", ())) == 1:
        name = reference_target(parts[0])
    if name is not None:
        return _check_of_definition(name, above)
    for keyword, make_check in (("items", _list_check), ("additionalProperties", _map_check)):
        part = schema.get(keyword)
        if isinstance(part, dict) and (inner := _check_of_schema(part, above)) is not None:
            return make_check(inner)
    return None


def _time_check(layout: str) -> _Check:
    def check(value: Any, _known: Any) -> str:
        if not isinstance(value, str) or _is_time(value):
            return ""
        shown = quote(value[:100])
        return f'parsing time {shown} as "{layout}": cannot parse {shown} as "2006"'

    return check


def _object_check(fields: dict[str, _Check]) -> _Check:
    def check(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, dict):
            return ""
        before: dict[str, Any] = known if isinstance(known, dict) else _NOTHING
        for field, inner in fields.items():
            each = value.get(field)
            if each is None or each is before.get(field):
                continue
            if problem := inner(each, before.get(field)):
                return problem
        return ""

    return check


def _list_check(inner: _Check) -> _Check:
    def check(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, list):
            return ""
        checked = {*map(id, known)} if isinstance(known, list) else ()
        for each in value:
            if id(each) not in checked and (problem := inner(each, None)):
                return problem
        return ""

    return check


def _map_check(inner: _Check) -> _Check:
    def check(value: Any, known: Any) -> str:
        if value is known or not isinstance(value, dict):
            return ""
        for each in value.values():
            if problem := inner(each, None):
                return problem
        return ""

    return check


@lru_cache(maxsize=4096)
def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
