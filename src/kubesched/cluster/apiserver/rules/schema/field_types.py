"""Type checks of documents against the published schemas.

They find what struct types do not: these declare only some of the fields. The error texts are those
of Go's JSON decoder. It takes a null in a list for an empty item, which is refused here.
"""

from __future__ import annotations

import base64
import binascii
import string
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = ["type_problem"]

# Documents that are encoded from structs have tuples for lists.
_NAMES: dict[type, str] = {str: "string", list: "array", tuple: "array", dict: "object"}
_BYTES = "byte"
_ALPHABET = frozenset(string.ascii_letters + string.digits + "+/")
_INT_OR_STRING = "int-or-string"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def type_problem(
    group: str, version: str, kind: str, document: Any, known: Any = None
) -> str | None:
    """Return the problem of the first field with a wrong type; None if there is none.

    Parts that are the same objects as in the `known` document have none.
    """
    name = definition_of(group, version, kind)
    return None if name is None else _problem(document, definitions()[name], kind, known)


def _problem(value: Any, schema: Mapping[str, Any], path: str, known: Any) -> str | None:
    if value is None or value is known:
        return None
    while (name := reference_target(schema)) is not None:
        if name == _QUANTITY and not isinstance(value, dict | list | bool):
            return None
        schema = definitions()[name]
    declared = schema.get("type")
    if declared is None:
        return None
    if schema.get("format") == _INT_OR_STRING:
        is_right = isinstance(value, int | str) and not isinstance(value, bool)
    else:
        is_right = _has_type(value, declared)
    if not is_right:
        kind = _go_kind(value)
        return f"json: cannot unmarshal {kind} into Go struct field {path} of type {declared}"
    if declared == "string":
        return byte_problem(value) if schema.get("format") == _BYTES else None
    return _problem_inside(value, schema, path, known)


def _problem_inside(value: Any, schema: Mapping[str, Any], path: str, known: Any) -> str | None:
    """Check the items of a list or the fields of an object."""
    if isinstance(value, list | tuple):
        return _problem_in_list(value, schema, path, known)
    if isinstance(value, dict):
        return _problem_in_object(value, schema, path, known)
    return None


def _problem_in_list(
    value: Sequence[Any], schema: Mapping[str, Any], path: str, known: Any
) -> str | None:
    items = schema.get("items") or {}
    before = known if isinstance(known, list | tuple) else ()
    for place, item in enumerate(value):
        if item is None:
            return f"json: cannot unmarshal null into Go struct field {path}"
        known_item = before[place] if place < len(before) else None
        if found := _problem(item, items, path, known_item):
            return found
    return None


def _problem_in_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str, known: Any
) -> str | None:
    fields = known if isinstance(known, dict) else {}
    properties, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, item in value.items():
        inner = properties.get(key, rest)
        if not inner or inner is True or item is None or _is_text(item, inner):
            continue
        if found := _problem(item, inner, f"{path}.{key}", fields.get(key)):
            return found
    return None


def _is_text(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value is a text and may be one, as most values are."""
    return type(value) is str and schema.get("type") == "string" and schema.get("format") != _BYTES


def byte_problem(text: str) -> str | None:
    """Return the problem of a text that is not valid base64, with the place that Go reports."""
    try:
        base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {_invalid_place(text)}"
    return None


def _invalid_place(text: str) -> int:
    """Return where Go's decoder stops, which reads four characters at a time."""
    filled = 0  # the characters of the present group
    for place, sign in enumerate(text):
        if sign in "\r\n":
            continue
        if sign in _ALPHABET:
            filled = (filled + 1) % 4
        elif sign != "=" or filled < 2:
            return place
        else:
            rest = text[place + 1 :].lstrip("\r\n")
            if filled == 3 or rest.startswith("="):
                end = place + 1 if filled == 3 else text.index("=", place + 1) + 1
                return len(text) - len(text[end:].lstrip("\r\n"))
            return place + 1 if not rest else place
    return len(text) - filled


def _has_type(value: Any, declared: str) -> bool:
    if isinstance(value, bool):
        return declared == "boolean"
    if isinstance(value, int):
        return declared in ("integer", "number")
    if isinstance(value, float):
        return declared == "number"
    if isinstance(value, dict):  # or a shared spec
        return declared == "object"
    return _NAMES.get(type(value)) == declared


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return _NAMES.get(type(value), "number")
