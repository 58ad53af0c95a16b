"""Writes a changed struct back into the JSON from which it was decoded.

Structs declare only the fields that kubesched reads or writes; an update must preserve the other
fields. `overlay` changes only the parts of the JSON that differ between the decoded struct and the
new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

__all__ = ["WireField", "overlay", "wire_fields"]

_IDENTITIES = ("name", "type", "key", "uid", "ip")


class WireField(NamedTuple):
    """A field of a struct with its name in JSON."""

    attribute: str
    wire_name: str
    type: Any
    default: Any


@cache
def wire_fields(kind: type[msgspec.Struct]) -> dict[str, WireField]:
    """Return the fields of a struct by their names in JSON."""
    described = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        else:
            default = field.default
        described[field.encode_name] = WireField(field.name, field.encode_name, field.type, default)
    return described


def overlay(data: Mapping[str, Any], old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """Return the JSON of `new`, where `old` is the struct decoded from `data`.

    Fields that are equal in both structs stay as in `data`, with all undeclared parts.
    """
    merged = dict(data)
    for field in wire_fields(type(new)).values():
        before, after = getattr(old, field.attribute), getattr(new, field.attribute)
        if before is after or before == after:
            continue
        value = _overlay_value(data.get(field.wire_name), before, after)
        if value is None or (after == field.default and not isinstance(after, msgspec.Struct)):
            merged.pop(field.wire_name, None)
        else:
            merged[field.wire_name] = value
    return merged


def _overlay_value(data: Any, before: Any, after: Any) -> Any:
    if isinstance(after, msgspec.Struct):
        if isinstance(before, msgspec.Struct) and isinstance(data, dict):
            return overlay(data, before, after)
    elif isinstance(after, tuple) and isinstance(before, tuple) and isinstance(data, list):
        return _overlay_items(data, before, after)
    return _to_json(after)


def _overlay_items(data: list[Any], before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
    previous_items = {
        _identity(item): (raw, item)
        for raw, item in zip(data, before, strict=False)
        if isinstance(item, msgspec.Struct)
    }
    items = []
    for item in after:
        raw, previous = previous_items.get(_identity(item), (None, None))
        if previous is not None and isinstance(raw, dict):
            items.append(raw if previous == item else overlay(raw, previous, item))
        else:
            items.append(_to_json(item))
    return items


def _identity(item: Any) -> Any:
    for attribute in _IDENTITIES:
        if (value := getattr(item, attribute, None)) is not None:
            return value
    return item if not isinstance(item, msgspec.Struct) else None


def _to_json(value: Any) -> Any:
    # Convert through JSON: msgspec's own conversion produces tuples where JSON has lists.
    return msgspec.json.decode(msgspec.json.encode(value))
