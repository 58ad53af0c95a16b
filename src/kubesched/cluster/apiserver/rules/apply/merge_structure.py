"""The units of field ownership: atomic values, fields, and items of lists.

A path is a tuple of steps in the form of the API: `f:name` is a field, `k:{"name":"c"}` an item
of a list with keys, `v:"x"` an item of a set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = [
    "ITEM",
    "Path",
    "Schema",
    "format_path",
    "item_step",
    "leaves",
    "resolve_references",
    "schema_of",
]

Path = tuple[str, ...]
Schema = Mapping[str, Any]

ITEM = "."
_FREE: Schema = {}
_METADATA: Schema = {
    "metadata": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
}
# Default values of list keys, for clients that omit them.
_KEY_DEFAULTS = {"protocol": "TCP"}
_LIST_TYPE, _LIST_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"


def schema_of(resource: Resource) -> Schema:
    """Return the schema of a resource's objects; empty if it is unknown."""
    strategy = resource.strategy
    if isinstance(strategy, CustomStrategy) and strategy.custom is not None:
        schema = strategy.custom.schema
        return {**schema, "properties": {**(schema.get("properties") or {}), **_METADATA}}
    name = definition_of(resource.group, resource.version, resource.kind)
    return _FREE if name is None else definitions()[name]


def resolve_references(schema: Schema) -> Schema:
    """Replace the reference of a schema by its definition. Other keywords stay."""
    while (name := reference_target(schema)) is not None:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**definitions()[name], **beside}
    return schema


def is_atomic(value: Any, schema: Schema) -> bool:
    """Whether a value has one owner as a whole."""
    if isinstance(value, dict):
        return bool(schema.get(_MAP_TYPE) == "atomic")
    if isinstance(value, list):
        return bool(schema.get(_LIST_TYPE, "atomic") == "atomic")
    return True


def child_schema(schema: Schema, field: str) -> Schema:
    """Return the schema of a field of an object, or of an entry of a map."""
    properties = schema.get("properties")
    if properties is not None and field in properties:
        return resolve_references(properties[field])
    others = schema.get("additionalProperties")
    return resolve_references(others) if isinstance(others, Mapping) else _FREE


def item_schema(schema: Schema) -> Schema:
    return resolve_references(schema.get("items", _FREE))


def item_step(item: Any, schema: Schema) -> str:
    """Return the step to an item of a list that is not atomic."""
    keys = schema.get(_LIST_KEYS)
    if schema.get(_LIST_TYPE) == "map" and keys and isinstance(item, dict):
        found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in sorted(keys)}
        chosen = {key: value for key, value in found.items() if value is not None}
        return "k:" + json.dumps(chosen, separators=(",", ":"))
    return "v:" + json.dumps(item, separators=(",", ":"))


def leaves(value: Any, schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Iterate over the paths and values in an object that can be owned separately.

    An item of a list is owned in addition to its fields. A map or list itself is owned only if
    it is empty.
    """
    schema = resolve_references(schema)
    if is_atomic(value, schema) or not value:
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, child_schema(schema, key), (*path, f"f:{key}"))
    else:
        inner_schema = item_schema(schema)
        for item in value:
            here = (*path, item_step(item, schema))
            if isinstance(item, dict):
                yield (*here, ITEM), None
                yield from leaves(item, inner_schema, here)
            else:
                yield here, item


def format_path(path: Path) -> str:
    """Format a path for messages: `.spec.containers[name="c"].image`."""
    text = ""
    for step in path:
        kind, content = step[:2], step[2:]
        if kind == "f:":
            text += f".{content}"
        elif kind == "k:":
            keys = json.loads(content)
            text += (
                "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + "]"
            )
        elif kind == "v:":
            text += f"[={content}]"
    return text
