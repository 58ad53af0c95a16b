"""Merging of an applied configuration into the live object, and removal of unowned fields."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from kubesched.cluster.apiserver.rules.apply.merge_structure import (
    ITEM,
    Path,
    Schema,
    child_schema,
    is_atomic,
    item_schema,
    item_step,
    resolve_references,
)

__all__ = ["merge_applied", "remove_paths"]


def merge_applied(live: Any, applied: Any, schema: Schema) -> Any:
    """Merge an applied value into the live value. Neither is changed."""
    schema = resolve_references(schema)
    if type(live) is not type(applied) or is_atomic(applied, schema):
        return applied
    if isinstance(applied, dict):
        combined = dict(live)
        for key, value in applied.items():
            inner = child_schema(schema, key)
            combined[key] = merge_applied(live[key], value, inner) if key in live else value
        return combined
    inner = item_schema(schema)
    items = {item_step(item, schema): item for item in live}
    for item in applied:
        step = item_step(item, schema)
        items[step] = merge_applied(items[step], item, inner) if step in items else item
    return list(items.values())


def remove_paths(value: Any, removed: Set[Path], schema: Schema, path: Path = ()) -> Any:
    """Remove the values at these paths, and the structures that become empty."""
    schema = resolve_references(schema)
    if is_atomic(value, schema):
        return value
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            here, part = (*path, f"f:{key}"), child_schema(schema, key)
            # The owner of an empty map does not own entries that other managers add to it.
            if here in removed and (not inner or is_atomic(inner, part)):
                continue
            rest = remove_paths(inner, removed, part, here)
            if rest or not inner or not isinstance(inner, dict | list):
                kept[key] = rest
        return kept
    items = []
    for item in value:
        here = (*path, item_step(item, schema))
        if here not in removed and (*here, ITEM) not in removed:
            items.append(remove_paths(item, removed, item_schema(schema), here))
    return items
