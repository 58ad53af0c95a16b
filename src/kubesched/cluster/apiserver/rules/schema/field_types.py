"""Whether the fields of a document have the types that its kind declares.

For kinds that have no struct of their own here. Complaints read as those of Go's JSON decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.schema.definitions import definition_of, definitions, target

__all__ = ["type_problem"]

_NAMES: dict[type, str] = {str: "string", list: "array", dict: "object"}
_INT_OR_STRING = "int-or-string"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def type_problem(group: str, version: str, kind: str, document: Any) -> str | None:
    """What is wrong with the first field of a wrong type; None if there is none."""
    name = definition_of(group, version, kind)
    return None if name is None else _problem(document, definitions()[name], kind)


def _problem(value: Any, schema: Mapping[str, Any], path: str) -> str | None:
    while (name := target(schema)) is not None:
        if name == _QUANTITY and not isinstance(value, dict | list | bool):
            return None
        schema = definitions()[name]
    if value is None:
        return None
    wanted = schema.get("type")
    if wanted is None or schema.get("format") == _INT_OR_STRING:
        return None
    if not _is(value, wanted):
        return (
            f"json: cannot unmarshal {_go_kind(value)} into Go struct field {path} of type {wanted}"
        )
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


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if isinstance(value, int):
        return wanted in ("integer", "number")
    if isinstance(value, float):
        return wanted == "number"
    return _NAMES.get(type(value)) == wanted


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return _NAMES.get(type(value), "number")
