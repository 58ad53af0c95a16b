"""Validation of the keywords that say how lists and maps of a schema are merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.schema.definitions import Json

__all__ = ["list_problems"]

_LIST: Final = "x-kubernetes-list-type"
_KEYS: Final = "x-kubernetes-list-map-keys"
_MAP: Final = "x-kubernetes-map-type"


def list_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Iterate over the problems of a schema's list type, map type and keys of items."""
    kind, keys, merged = schema.get(_LIST), schema.get(_KEYS), schema.get(_MAP)
    if merged is not None and merged not in ("granular", "atomic"):
        yield not_supported(f"{path}.{_MAP}", merged, ("atomic", "granular"))
    if kind is not None and kind not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{_LIST}", kind, ("atomic", "map", "set"))
    if kind is not None and schema.get("type") != "array":
        text = f"must be array if {_LIST} is specified"
        yield invalid(f"{path}.type", schema.get("type", ""), text)
    if kind == "map":
        yield from _key_problems(schema, path)
    elif keys:
        text = f"must be map if {_KEYS} is non-empty"
        if kind is None:
            yield required(f"{path}.{_LIST}", text)
        else:
            yield invalid(f"{path}.{_LIST}", kind, text)


def _key_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    items, keys = schema.get("items"), schema.get(_KEYS) or []
    if not isinstance(items, dict):
        yield required(f"{path}.items", f"must have a schema if {_LIST} is map")
        return
    if items.get("type") != "object":
        text = f"must be object if parent array's {_LIST} is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
    if not keys:
        yield required(f"{path}.{_KEYS}", f"must not be empty if {_LIST} is map")
    properties = items.get("properties") or {}
    if any(key not in properties for key in keys):
        text = "entries must all be names of item properties"
        yield invalid(f"{path}.{_KEYS}", keys, text)
    for key in keys:
        part = properties.get(key)
        if not isinstance(part, dict):
            continue
        where = f"{path}.items.properties[{key}]"
        if part.get("type") in ("array", "object"):
            text = f"must be a scalar type if parent array's {_LIST} is map"
            yield invalid(f"{where}.type", part["type"], text)
        if part.get("nullable"):
            text = f"this property is in {_KEYS}, so it cannot be nullable"
            yield forbidden(f"{where}.nullable", text)
        if key not in (items.get("required") or ()) and part.get("default") is None:
            text = (
                f"this property is in {_KEYS}, so it must have a default or be a required property"
            )
            yield required(f"{where}.default", text)
