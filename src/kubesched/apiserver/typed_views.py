"""Between plain JSON objects and typed structs, without redoing what did not change.

The store holds JSON; readers in this process hold structs. A change touches few of an
object's parts and shares the others, so the struct of the new object is made from the struct
of the old one (`derive`), and a changed struct is written back into the JSON it came from
(`overlay`), which keeps the fields that no struct declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

__all__ = ["derive", "overlay"]

S = TypeVar("S", bound=msgspec.Struct)

_ABSENT: Any = object()
_IDENTITIES = ("name", "type", "key", "uid", "ip")


class _Field(NamedTuple):
    attribute: str
    wire_name: str
    type: Any
    default: Any


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, _Field]:
    """A struct's fields by their names on the wire."""
    described = {}
    for field in msgspec.structs.fields(kind):
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        else:
            default = field.default
        described[field.encode_name] = _Field(field.name, field.encode_name, field.type, default)
    return described


def derive(view: S, old: Mapping[str, Any], new: Mapping[str, Any]) -> S:
    """The struct of `new`, given that `view` is the struct of `old`.

    Top-level parts that are the same object in both are shared. Further down the conversion
    is faster than looking for what it could share.

    Raises:
        msgspec.ValidationError: a changed part does not have its declared type.
    """
    fields = _fields(type(view))
    changes: dict[str, Any] = {}
    for key, value in new.items():
        if old.get(key, _ABSENT) is not value and (field := fields.get(key)) is not None:
            changes[field.attribute] = _converted(value, field.type, key)
    for key in old:
        if key not in new and (field := fields.get(key)) is not None:
            changes[field.attribute] = field.default
    return msgspec.structs.replace(view, **changes) if changes else view


def _converted(value: Any, kind: Any, key: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        # The error names the place below `$`; say which part that is.
        raise msgspec.ValidationError(str(exc).replace("`$", f"`$.{key}", 1)) from exc


def overlay(data: Mapping[str, Any], old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """The JSON of `new`, given that `old` is the struct of `data`.

    What the structs agree on stays as it is in `data`, with all that structs do not show.
    """
    merged = dict(data)
    for field in _fields(type(new)).values():
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
    return _plain(after)


def _overlay_items(data: list[Any], before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Any]:
    known = {
        _identity(item): (raw, item)
        for raw, item in zip(data, before, strict=False)
        if isinstance(item, msgspec.Struct)
    }
    items = []
    for item in after:
        raw, previous = known.get(_identity(item), (None, None))
        if previous is not None and isinstance(raw, dict):
            items.append(raw if previous == item else overlay(raw, previous, item))
        else:
            items.append(_plain(item))
    return items


def _identity(item: Any) -> Any:
    for attribute in _IDENTITIES:
        if (value := getattr(item, attribute, None)) is not None:
            return value
    return item if not isinstance(item, msgspec.Struct) else None


def _plain(value: Any) -> Any:
    # Through JSON: msgspec's own conversion leaves tuples where a JSON object has lists.
    return msgspec.json.decode(msgspec.json.encode(value))
