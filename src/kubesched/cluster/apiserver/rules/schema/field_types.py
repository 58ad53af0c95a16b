"""Type checks of documents against the published schemas.

They are for kinds that have no struct type. The error texts are those of Go's JSON decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = ["type_problem"]

_NAMES: dict[type, str] = {str: "string", list: "array", dict: "object"}
_INT_OR_STRING = "int-or-string"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def type_problem(group: str, version: str, kind: str, document: Any) -> str | None:
    """Return the problem of the first field with a wrong type; None if there is none."""
    name = definition_of(group, version, kind)
    return None if name is None else _problem(document, definitions()[name], kind)


def _problem(value: Any, schema: Mapping[str, Any], path: str) -> str | None:
    while (name := reference_target(schema)) is not None:
        if name == _QUANTITY and not isinstance(value, dict | list | bool):
            return None
        schema = definitions()[name]
    if value is None:
        return None
    declared = schema.get("type")
    if declared is None or schema.get("format") == _INT_OR_STRING:
        return None
    if not _has_type(value, declared):
        kind = _go_kind(value)
        return f"json: cannot unmarshal {kind} into Go struct field {path} of type {declared}"
    return _problem_inside(value, schema, path)


def _problem_inside(value: Any, schema: Mapping[str, Any], path: str) -> str | None:
    """Check the items of a list or the fields of an object."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return next((p for item in value if (p := _problem(item, items, path))), None)
    if isinstance(value, dict):
        properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for key, item in value.items():
            inner = properties.get(key, rest)
            if isinstance(inner, Mapping) and (found := _problem(item, inner, f"{path}.{key}")):
                return found
    return None


def _has_type(value: Any, declared: str) -> bool:
    if isinstance(value, bool):
        return declared == "boolean"
    if isinstance(value, int):
        return declared in ("integer", "number")
    if isinstance(value, float):
        return declared == "number"
    return _NAMES.get(type(value)) == declared


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return _NAMES.get(type(value), "number")
