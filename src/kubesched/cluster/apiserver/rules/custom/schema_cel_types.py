"""Conversion of schemas to CEL types and of JSON values to CEL values.

A property whose name is not an identifier gets an escaped name (`my-name` becomes
`my__dash__name`). Numbers become doubles. Times and durations become CEL timestamps and durations.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

from kubesched.cluster.apiserver.rules.custom.structural_schema import (
    EMBEDDED,
    INT_OR_STRING,
    PRESERVE,
    part_of,
)
from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import UnorderedList
from kubesched.foundation.cel.language.conversions import parse_duration, parse_timestamp
from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    Type,
    list_of,
    map_of,
    named,
)

__all__ = ["cel_value", "declared_type"]

_ACCESSIBLE: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[./-]")
_KEYWORDS: Final = frozenset(
    (
        "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for",
        "function", "if", "import", "let", "loop", "package", "namespace", "return",
    )
)  # fmt: skip
_SCALARS: Final = {"string": STRING, "integer": INT, "number": DOUBLE, "boolean": BOOL}
_TEXT_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "datetime": TIMESTAMP,
    "duration": DURATION,
}
_METADATA: Final = {"name": STRING, "generateName": STRING}


def declared_type(
    schema: Json, name: str, objects: dict[str, ObjectType], *, is_resource: bool = False
) -> Type:
    """Return the CEL type of a schema. Object types are added to `objects`."""
    kind = schema.get("type")
    if schema.get(INT_OR_STRING):
        return DYN
    if kind == "array":
        items = schema.get("items")
        inner = items if isinstance(items, dict) else {}
        return list_of(declared_type(inner, f"{name}.@idx", objects))
    if kind == "object":
        return _object_type(schema, name, objects, is_resource=is_resource)
    if kind == "string":
        return _TEXT_FORMATS.get(schema.get("format", ""), STRING)
    return _SCALARS.get(str(kind), DYN)


def _object_type(
    schema: Json, name: str, objects: dict[str, ObjectType], *, is_resource: bool
) -> Type:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if not properties and not is_resource:
        if isinstance(additional, dict):
            return map_of(STRING, declared_type(additional, f"{name}.@elem", objects))
        if schema.get(PRESERVE) or additional is True:
            return DYN
    fields: dict[str, Type] = {}
    keys: dict[str, str] = {}
    for key, part in properties.items():
        escaped = _escape(key)
        if escaped is None or not isinstance(part, dict):
            continue
        embedded = bool(part.get(EMBEDDED))
        fields[escaped] = declared_type(part, f"{name}.{key}", objects, is_resource=embedded)
        keys[escaped] = key
    if is_resource:
        objects[f"{name}.metadata"] = ObjectType(f"{name}.metadata", _METADATA)
        fields |= {"apiVersion": STRING, "kind": STRING, "metadata": named(f"{name}.metadata")}
    objects[name] = ObjectType(name, fields, keys)
    return named(name)


def _escape(key: str) -> str | None:
    """Return the identifier for a property, or None if the name cannot be escaped."""
    if not _ACCESSIBLE.fullmatch(key):
        return None
    if key in _KEYWORDS:
        return f"__{key}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], key)


def cel_value(value: Any, schema: Json) -> Any:
    """Convert a JSON value to the CEL value for its schema."""
    if isinstance(value, dict):
        return {key: cel_value(item, part_of(schema, key) or {}) for key, item in value.items()}
    if isinstance(value, list):
        items = schema.get("items")
        inner = items if isinstance(items, dict) else {}
        elements = [cel_value(each, inner) for each in value]
        match schema.get("x-kubernetes-list-type"):
            case "set":
                return UnorderedList(elements)
            case "map":
                keys = schema.get("x-kubernetes-list-map-keys") or ()
                return UnorderedList(elements, tuple(keys))
            case _:
                return elements
    if isinstance(value, str):
        return _text_value(value, schema)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_number and schema.get("type") == "number" else value


def _text_value(value: str, schema: Json) -> Any:
    if schema.get("type") != "string":
        return value
    try:
        match schema.get("format"):
            case "byte":
                return base64.b64decode(value)
            case "date":
                return parse_timestamp(f"{value}T00:00:00Z")
            case "date-time" | "datetime":
                return parse_timestamp(value)
            case "duration":
                return parse_duration(value)
    except (EvaluationError, binascii.Error, ValueError):
        return value  # the validation of the format reports it
    return value
