"""Times in documents: every field that is declared to be one must be one.

Types here keep times as text, and whoever needs one parses it, long after the object was stored.
What cannot be parsed is refused at the door, as the reference does when it decodes a body.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

from kubesched.api.time import parse_time
from kubesched.apiserver.rules.schema.definitions import Json, definition_of, definitions, target
from kubesched.util.go_format import quote

__all__ = ["time_problem"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_LAYOUTS: Final = {
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "2006-01-02T15:04:05Z07:00",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "2006-01-02T15:04:05.000000Z07:00",
}

# Where times are: a layout for a time itself, else what is inside of a list, a map or an object.
_Inside = str | tuple[str, Any] | dict[str, Any]


def time_problem(
    group: str, version: str, kind: str, document: Json, known: Json | None = None
) -> str:
    """What is wrong with the first time that is none; empty if all are fine.

    Parts that are the very objects of the `known` document are known to be fine.
    """
    name = definition_of(group, version, kind)
    inside = {"metadata": _inside(_META)} if name is None else _inside(name)
    return _look(document, inside, known) if inside else ""


@cache
def _inside(name: str, above: tuple[str, ...] = ()) -> _Inside | None:
    """Where the times of a definition are; None if it has none."""
    if name in _LAYOUTS:
        return _LAYOUTS[name]
    if name in above:
        return None  # no kind of ours has a time inside of something recursive
    found = {
        field: inside
        for field, schema in definitions()[name].get("properties", {}).items()
        if (inside := _of_schema(schema, (*above, name))) is not None
    }
    return found or None


def _of_schema(schema: Json, above: tuple[str, ...]) -> _Inside | None:
    name = target(schema)
    if name is None and len(parts := schema.get("allOf", ())) == 1:
        name = target(parts[0])
    if name is not None:
        return _inside(name, above)
    for kind in ("items", "additionalProperties"):
        within = schema.get(kind)
        if isinstance(within, dict) and (inside := _of_schema(within, above)) is not None:
            return kind, inside
    return None


def _look(value: Any, inside: _Inside, known: Any) -> str:
    if value is known:
        return ""
    if isinstance(inside, str):
        if isinstance(value, str) and not _is_time(value):
            shown = quote(value[:100])
            return f'parsing time {shown} as "{inside}": cannot parse {shown} as "2006"'
        return ""
    if isinstance(inside, dict):
        if isinstance(value, dict) and not inside.keys().isdisjoint(value):
            before = known if isinstance(known, dict) else {}
            for field, deeper in inside.items():
                if (each := value.get(field)) is not None and (
                    problem := _look(each, deeper, before.get(field))
                ):
                    return problem
        return ""
    kind, deeper = inside
    wanted = list if kind == "items" else dict
    if isinstance(value, wanted):
        for each in value.values() if isinstance(value, dict) else value:
            if problem := _look(each, deeper, None):
                return problem
    return ""


@lru_cache(maxsize=4096)
def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
