"""Objects with very many items in one of their lists or maps, for every list and map of a kind.

They are generated from the published definitions: `fillable_fields(resource)` finds the lists and
maps of a kind, and each can be filled with any number of items. The items are plausible, but not
always valid.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)
from tests.fuzz.test_objects_in_a_cluster import SEEDS

__all__ = ["BASES", "Place", "fillable_fields"]

Json = dict[str, Any]

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_MANAGED = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry"
_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
_ENOUGH = 3  # levels of an item that are filled in
_WORDS = {
    "effect": "NoSchedule",
    "operator": "In",
    "protocol": "TCP",
    "whenUnsatisfiable": "ScheduleAnyway",
}
_OWNED = SEEDS["Deployment"]["spec"]
_REQUEST = {"name": "r", "exactly": {"deviceClassName": "c"}}
_POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
_VERSION = {"name": "v1", "served": True, "storage": True}
BASES: dict[str, Json] = {
    **SEEDS,
    "CustomResourceDefinition": {
        "metadata": {"name": "foos.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{**_VERSION, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    },
    "CSINode": {"spec": {"drivers": []}},
    "DaemonSet": {"spec": {key: _OWNED[key] for key in ("selector", "template")}},
    "LimitRange": {"spec": {"limits": [{"type": "Pod"}]}},
    "PersistentVolume": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
        }
    },
    "PriorityClass": {"value": 1},
    "ReplicaSet": {"spec": _OWNED},
    "ReplicationController": {
        "spec": {**_OWNED, "selector": _OWNED["selector"]["matchLabels"], "replicas": 1}
    },
    "ResourceClaim": {"spec": {"devices": {"requests": [_REQUEST]}}},
    "ResourceSlice": {
        "spec": {"driver": "d.x.io", "pool": _POOL, "nodeName": "n", "devices": [{"name": "d"}]}
    },
    "Service": {"spec": {"ports": [{"port": 1}]}},
    "StatefulSet": {"spec": {**_OWNED, "serviceName": "s"}},
    "StorageClass": {"provisioner": "p"},
}


class Place(NamedTuple):
    """A list or map in the objects of a kind. In its path `*` is the first item of a list."""

    resource: Resource
    path: tuple[str, ...]
    schema: Mapping[str, Any]

    def __str__(self) -> str:
        return ".".join((self.resource.kind, *self.path))

    def filled(self, count: int, name: str) -> Json:
        """Return an object with `count` items in this field."""
        resource = self.resource
        made = copy.deepcopy(BASES.get(resource.kind, {}))
        made |= {"apiVersion": resource.api_version, "kind": resource.kind}
        made.setdefault("metadata", {}).setdefault("name", name)
        inner, schema = made, definitions()[_definition(resource)]
        for part, then in zip(self.path, (*self.path[1:], ""), strict=True):
            if part == "*":
                continue
            schema = schema["properties"][part]
            if part == self.path[-1]:
                break
            if then == "*":
                schema = schema["items"]
                inner[part] = inner.get(part) or [_value(schema, 1)]
                inner = inner[part][0]
            else:
                if not isinstance(inner.get(part), dict):
                    inner[part] = _value(schema, 1) or {}
                inner = inner[part]
            schema = _resolved(schema)
        inner[self.path[-1]] = _items(self.schema, count, self.path[-1])
        return made


def fillable_fields(resource: Resource) -> list[Place]:
    """Return the lists and maps of a kind, each field of a definition once.

    Fields of pod templates are omitted, because they are those of Pod.
    """
    name = _definition(resource)
    found: dict[int, Place] = {}
    for path, schema in _places(name, (), frozenset({name})):
        found.setdefault(id(schema), Place(resource, path, schema))
    return list(found.values())


def _definition(resource: Resource) -> str:
    name = definition_of(resource.group, resource.version, resource.kind)
    assert name is not None
    return name


def _places(
    name: str, before: tuple[str, ...], seen: frozenset[str]
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for field, schema in definitions()[name].get("properties", {}).items():
        path = (*before, field)
        is_list = schema.get("type") == "array"
        if is_list or isinstance(schema.get("additionalProperties"), dict):
            yield path, schema
        inner = _name(schema.get("items", {}) if is_list else schema)
        if inner is None or inner in seen or inner in (_MANAGED, _TEMPLATE):
            continue
        if "properties" in definitions()[inner]:
            yield from _places(inner, (*path, "*") if is_list else path, seen | {inner})


def _name(schema: Mapping[str, Any]) -> str | None:
    whole = schema.get("allOf")
    return reference_target(whole[0] if whole else schema)


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while (name := _name(schema)) is not None:
        schema = definitions()[name]
    return schema


def _items(schema: Mapping[str, Any], count: int, field: str) -> Any:
    if schema.get("type") == "array":
        return [_value(schema["items"], number, field) for number in range(count)]
    inner = schema["additionalProperties"]
    return {f"example.com/k{number}": _value(inner, number) for number in range(count)}


def _value(schema: Mapping[str, Any], number: int, field: str = "", depth: int = 0) -> Any:
    if _name(schema) == _QUANTITY:
        return str(number % 50 + 1)
    schema = _resolved(schema)
    if (properties := schema.get("properties")) is not None:
        if depth > _ENOUGH:
            return {}
        needed = {"name", "key", *schema.get("required", ())}
        return {
            name: _value(inner, number, name, depth + 1)
            for name, inner in properties.items()
            if name in needed or (depth == 0 and inner.get("type") == "string")
        }
    match schema.get("type"):
        case "string" if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        case "string":
            return _WORDS.get(field, f"n{number}")
        case "integer":
            return number % 60_000 + 1
        case "number":
            return float(number)
        case "boolean":
            return True
        case "array":
            items = schema.get("items")
            return [_value(items, number, field, depth + 1)] if items else []
        case _:
            return {}
