"""Type checking of a policy's expressions against the kinds that it matches.

For evaluation a policy is compiled with objects of unknown type. For type checking it is also
compiled once per kind that its rules name, with the type of that kind. The resulting errors are
warnings in the status of the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kubesched.cluster.apiserver.rules.admission.validating_policy import compile_policy
from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.custom.schema_cel_types import declared_type
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)
from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    BYTES,
    DOUBLE,
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

__all__ = ["expression_warnings"]

Json = dict[str, Any]

_MOST_KINDS = 10
_SCALARS = {"boolean": BOOL, "integer": INT, "number": DOUBLE, "string": STRING}


def expression_warnings(
    spec: Json, find: Callable[[str, str, str], Resource | None]
) -> list[dict[str, str]]:
    """Return the type errors by field. `find` looks up resources by group, version and plural."""
    texts: dict[str, list[str]] = {}
    for resource in _named_resources(spec, find):
        found, objects = _type_of(resource)
        if found is DYN:
            continue
        _, problems = compile_policy(spec, found, tuple(objects.values()))
        for problem in problems:
            text = problem.body.partition("compilation failed: ")[2] or problem.body
            kind = f"{resource.api_version}, Kind={resource.kind}"
            texts.setdefault(problem.field, []).append(f"{kind}: {text}")
    return [
        {"fieldRef": field, "warning": "\n".join(found)} for field, found in sorted(texts.items())
    ]


def _named_resources(
    spec: Json, find: Callable[[str, str, str], Resource | None]
) -> Iterator[Resource]:
    """Iterate over the resources that rules name without a wildcard, at most ten."""
    seen: dict[int, Resource] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        for group in rule.get("apiGroups") or ():
            for version in rule.get("apiVersions") or ():
                for plural in rule.get("resources") or ():
                    resource = find(group, version, plural)
                    if resource is not None and len(seen) < _MOST_KINDS:
                        seen[id(resource)] = resource
    yield from seen.values()


def _type_of(resource: Resource) -> tuple[Type, dict[str, ObjectType]]:
    strategy = resource.strategy
    if isinstance(strategy, CustomStrategy):
        objects: dict[str, ObjectType] = {}
        if strategy.custom is None:
            return DYN, objects
        schema = strategy.custom.schema
        return declared_type(schema, resource.kind, objects, is_resource=True), objects
    name = definition_of(resource.group, resource.version, resource.kind)
    return (DYN, {}) if name is None else (named(name), _objects_of(name))


@cache
def _objects_of(name: str) -> dict[str, ObjectType]:
    """Return the types of a definition and of all definitions that it refers to."""
    found: dict[str, ObjectType] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found:
            continue
        properties = definitions()[current].get("properties") or {}
        fields = {key: _field_type(part, waiting) for key, part in properties.items()}
        found[current] = ObjectType(current, fields)
    return found


def _field_type(schema: Json, waiting: list[str]) -> Type:
    name = reference_target(schema)
    if name is not None:
        definition = definitions()[name]
        if definition.get("properties"):
            waiting.append(name)
            return named(name)
        schema = definition
    kind = schema.get("type")
    if schema.get("format") in ("int-or-string", "quantity") or kind is None:
        return DYN
    if kind == "array":
        return list_of(_field_type(schema.get("items") or {}, waiting))
    if kind == "object":
        additional = schema.get("additionalProperties")
        return map_of(STRING, _field_type(additional, waiting)) if additional else DYN
    if kind == "string" and schema.get("format") == "date-time":
        return TIMESTAMP
    if kind == "string" and schema.get("format") == "byte":
        return BYTES
    return _SCALARS.get(kind, DYN)
