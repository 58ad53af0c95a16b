"""Pruning and defaulting by a structural schema.

The functions do not change their arguments. A changed value is a new object that shares the
unchanged parts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.cluster.apiserver.rules.errors.api_errors import too_large
from kubesched.cluster.apiserver.rules.errors.value_limit import LARGEST_OBJECT
from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.cluster.apiserver.rules.schema.unknown_fields import (
    known_metadata,
    unknown_in_metadata,
)

__all__ = [
    "EMBEDDED",
    "INT_OR_STRING",
    "PRESERVE",
    "DefaultedSize",
    "add_defaults",
    "prune",
    "unknown_paths",
]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
_OF_EVERY_RESOURCE = ("apiVersion", "kind", "metadata")


def part_of(schema: Json, key: str) -> Json | None:
    """Return the schema of an entry of an object, or None."""
    found = (schema.get("properties") or {}).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def prune(value: Any, schema: Json, *, is_resource: bool = False) -> Any:
    """Remove the fields that the schema does not declare."""
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        kept = [prune(each, items, is_resource=bool(items.get(EMBEDDED))) for each in value]
        return value if all(map(_is_same, kept, value)) else kept
    if not isinstance(value, dict):
        return value
    result = _pruned_fields(value, schema, is_resource=is_resource)
    same = len(result) == len(value) and all(result[key] is value[key] for key in result)
    return value if same else result


def _pruned_fields(value: Json, schema: Json, *, is_resource: bool) -> Json:
    keeps_others = schema.get(PRESERVE) or schema.get("additionalProperties") is True
    result: Json = {}
    for key, item in value.items():
        part = part_of(schema, key)
        if is_resource and key in _OF_EVERY_RESOURCE:
            result[key] = known_metadata(item) if key == "metadata" else item
        elif part is not None:
            result[key] = prune(item, part, is_resource=bool(part.get(EMBEDDED)))
        elif keeps_others:
            result[key] = item
    return result


def _is_same(first: Any, second: Any) -> bool:
    return first is second


def unknown_paths(
    value: Any, schema: Json, path: str = "", *, is_resource: bool = False
) -> Iterator[str]:
    """Iterate over the paths of fields that the schema does not declare, in order."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            embedded = bool(items.get(EMBEDDED))
            for index, each in enumerate(value):
                yield from unknown_paths(each, items, f"{path}[{index}]", is_resource=embedded)
        return
    if not isinstance(value, dict):
        return
    keeps_others = schema.get(PRESERVE) or schema.get("additionalProperties") is True
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        part = part_of(schema, key)
        if is_resource and key in _OF_EVERY_RESOURCE:
            if key == "metadata":
                yield from unknown_in_metadata(item, inner)
        elif part is not None:
            yield from unknown_paths(item, part, inner, is_resource=bool(part.get(EMBEDDED)))
        elif not keeps_others:
            yield inner


class DefaultedSize:
    """The size of the defaults added to one object.

    It is limited, because defaults can make a list of empty items very large.
    """

    def __init__(self) -> None:
        self._bytes = 0

    def count(self, key: str, default: Any) -> None:
        """Add the size of a default. Raises ApiError 413 if the total is too large."""
        self._bytes += len(key) + len(msgspec.json.encode(default)) + 4
        if self._bytes > LARGEST_OBJECT:
            raise too_large(LARGEST_OBJECT)


def add_defaults(value: Any, schema: Json, added: DefaultedSize) -> Any:
    """Add the defaults of the schema and remove nulls from fields that are not nullable.

    Raises:
        ApiError: 413, the object would become too large.
    """
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        filled = [add_defaults(each, items, added) for each in value]
        return value if all(map(_is_same, filled, value)) else filled
    if not isinstance(value, dict):
        return value
    result: Json = {}
    for key, item in value.items():
        part = part_of(schema, key)
        if part is None:
            result[key] = item
        elif item is not None or part.get("nullable"):
            result[key] = add_defaults(item, part, added)
    _add_missing(result, schema, added)
    same = len(result) == len(value) and all(
        key in value and result[key] is value[key] for key in result
    )
    return value if same else result


def _add_missing(result: Json, schema: Json, added: DefaultedSize) -> None:
    """Add the defaults of missing fields to `result`."""
    for key, part in (schema.get("properties") or {}).items():
        if key not in result and isinstance(part, dict) and "default" in part:
            added.count(key, part["default"])
            result[key] = add_defaults(copy.deepcopy(part["default"]), part, added)
