"""Custom resources: the store serves the resources that CustomResourceDefinitions define.

All versions of a custom resource share one collection, which holds objects in the storage
version. The other versions differ from it only in the name of the version.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver.rules.custom import definition_problems, read_schema
from kubesched.cluster.apiserver.rules.custom.definition_names import naming_problems
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource, custom_resource
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    ResourceStrategy,
    set_part,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.logging import get_logger

__all__ = [
    "CUSTOM_RESOURCE_DEFINITION",
    "serve_definition",
    "serve_stored_definitions",
    "sync_definition",
]

Json = dict[str, Any]

log = get_logger(__name__)

_CONDITIONS = (
    ("NamesAccepted", "NoConflicts", "no conflicts found"),
    ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
)


class _DefinitionStrategy(ResourceStrategy):
    """The rules for definitions. The server writes the status: it serves resources at once."""

    counts_generations = True
    has_status = True
    keeps_status = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec")
        names = spec.get("names") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(names, dict):
            return new
        kind = names.get("kind")
        if not isinstance(kind, str) or not kind:
            return new
        filled = {"listKind": f"{kind}List", "singular": kind.lower(), **names}
        return {**new, "spec": {"conversion": {"strategy": "None"}, **spec, "names": filled}}

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        conditions = [
            {
                "type": kind,
                "status": "True",
                "lastTransitionTime": stamp,
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in _CONDITIONS
        ]
        return _with_names({**new, "status": {"conditions": conditions, "storedVersions": []}})

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        return _with_names(set_part(new, "status", old.get("status")))

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        spec = new.get("spec")
        problems = naming_problems(new["metadata"].get("name", ""), spec)
        return problems or definition_problems(spec or {})


def _with_names(definition: Json) -> Json:
    """Update the accepted names and stored versions in the status of a definition."""
    spec, status = definition.get("spec"), definition.get("status")
    if not isinstance(spec, dict) or not isinstance(status, dict):
        return definition
    versions = spec.get("versions")
    stored = list(status.get("storedVersions") or ())
    for version in versions if isinstance(versions, list) else ():
        name = version.get("name") if isinstance(version, dict) and version.get("storage") else None
        if name is not None and name not in stored:
            stored.append(name)
    names = spec.get("names")
    return {**definition, "status": {**status, "acceptedNames": names, "storedVersions": stored}}


CUSTOM_RESOURCE_DEFINITION = msgspec.structs.replace(
    custom_resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
    strategy=_DefinitionStrategy(),
    type=plain_type("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
)


def _resources(definition: Json) -> list[Resource]:
    """Create a resource for each version, the storage version first."""
    spec = definition["spec"]
    names = spec["names"]
    made: list[Resource] = []
    for version in sorted(spec["versions"], key=lambda each: not each.get("storage")):
        resource = custom_resource(
            spec["group"],
            version["name"],
            names["kind"],
            names["plural"],
            namespaced=spec.get("scope", "Namespaced") == "Namespaced",
            has_status="status" in (version.get("subresources") or {}),
            custom=read_schema(version),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
        )
        if made:
            resource = msgspec.structs.replace(resource, to_stored=_same, from_stored=_same)
        made.append(resource)
    return made


def _same(document: Json) -> Json:
    return document


def serve_definition(store: Store, definition: Json) -> None:
    """Register the resource that a definition describes, in its served versions.

    Stored objects get the defaults of the definition's schema.
    """
    resources = _resources(definition)
    served = {each["name"] for each in definition["spec"]["versions"] if each.get("served", True)}
    for resource in resources:
        store.register(resource)
        if resource.version not in served:
            store.catalog.remove(resource)
    listed = {resource.version for resource in resources}
    stored = resources[0]
    for resource in list(store.catalog.all()):
        if resource.group_resource == stored.group_resource and resource.version not in listed:
            store.catalog.remove(resource)
    collection = store.collection(stored)
    collection.resource = stored
    for record in collection.objects.values():
        record.redefine(stored, stored.strategy.default(record.data))


def serve_stored_definitions(store: Store) -> None:
    """Register the resource of definitions, and the resources that stored definitions describe."""
    store.register(CUSTOM_RESOURCE_DEFINITION)
    strategy = CUSTOM_RESOURCE_DEFINITION.strategy
    for record in store.collection(CUSTOM_RESOURCE_DEFINITION).objects.values():
        if problems := strategy.check_new(record.data):
            # An earlier version of this server accepted it. The others must stay usable.
            log.error("A custom resource cannot be served", name=record.key, err=str(problems[0]))
        else:
            serve_definition(store, record.data)


def sync_definition(store: Store, definition: Json, now_ns: int) -> None:
    """Update the served resources after a definition was written or deleted."""
    name = definition["metadata"]["name"]
    if store.find_record(CUSTOM_RESOURCE_DEFINITION, None, name) is not None:
        serve_definition(store, definition)
        return
    resources = _resources(definition)
    store.delete_collection(resources[0], None, now_ns)
    for resource in resources:
        store.catalog.remove(resource)
