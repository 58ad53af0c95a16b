"""Custom resources: the store serves the resources that CustomResourceDefinitions define.

All versions of a custom resource share one collection, which holds objects in the storage
version. Without a conversion webhook the other versions differ from it only in the name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver.rules.custom import (
    CustomStrategy,
    definition_problems,
    read_schema,
)
from kubesched.cluster.apiserver.rules.custom.definition_names import (
    approval_problems,
    deprecation_warning,
    fixed_problems,
    naming_problems,
    stored_version_problems,
)
from kubesched.cluster.apiserver.rules.custom.structural_schema import prune
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource, custom_resource
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    ObjectLookup,
    ResourceStrategy,
    set_part,
)
from kubesched.cluster.apiserver.store.conversion_webhooks import (
    ConversionWebhooks,
    VersionConversion,
    conversion_hook,
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
        return {**new, "spec": {**spec, "conversion": _conversion(spec), "names": filled}}

    def admit_update(self, new: Json, _old: Json, cluster: ObjectLookup, /) -> Json:
        """Convert the stored objects before their definition gets another storage version."""
        assert isinstance(cluster, Store)
        _migrated(cluster, new)
        return new

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

    def check(self, new: Json, *, namespaced: bool) -> list[FieldProblem]:
        problems = super().check(new, namespaced=namespaced)
        return problems or approval_problems(new)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        spec = new.get("spec")
        problems = naming_problems(new["metadata"].get("name", ""), spec)
        return problems or definition_problems(spec or {})

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = super().check_update(new, old)
        return problems or fixed_problems(new, old)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return super().check_status(new, old) + stored_version_problems(new)


def _conversion(spec: Json) -> Json:
    conversion: Json = spec.get("conversion") or {"strategy": "None"}
    webhook: Any = conversion.get("webhook") if isinstance(conversion, dict) else None
    config = webhook.get("clientConfig") if isinstance(webhook, dict) else None
    service = config.get("service") if isinstance(config, dict) else None
    if webhook is None or config is None or not isinstance(service, dict):
        return conversion
    config = {**config, "service": {"port": 443, **service}}
    return {**conversion, "webhook": {**webhook, "clientConfig": config}}


def _stored_version(definition: Json) -> str:
    versions = definition["spec"]["versions"]
    return next((each["name"] for each in versions if each.get("storage")), "")


def _migrated(store: Store, definition: Json) -> dict[str, Json]:
    """Return the stored objects in a new storage version, by key; empty if it has not changed.

    Raises CallsNeededError, and ApiError if the webhook fails.
    """
    hook, name = conversion_hook(definition), definition["metadata"]["name"]
    served = next((each for each in store.catalog.all() if each.group_resource == name), None)
    if hook is None or served is None:
        return {}
    collection, to = store.collection(served), _stored_version(definition)
    source, objects = collection.resource.version, collection.objects
    if source == to or not objects:
        return {}
    documents = [record.data for record in objects.values()]
    converted = store.conversions.convert(hook, documents, source, to)
    return dict(zip(objects, converted, strict=True))


def _write_migrated(
    store: Store, definition: Json, converted: dict[str, Json], now_ns: int
) -> None:
    if not converted:
        return
    spec = definition["spec"]
    version = _stored_version(definition)
    stored = store.catalog.by_url(spec["group"], version, spec["names"]["plural"])
    for key, document in converted.items():
        metadata = document["metadata"]
        namespace = metadata.get("namespace")
        try:
            with store.own_writes():
                store.update(stored, namespace, metadata["name"], document, now_ns)
        except ApiError as error:
            log.warning("An object stays in its old version", name=key, error=error)


class _ConvertedStrategy(CustomStrategy):
    """The strategy of a version that a webhook converts: the store works on the stored form."""

    def __init__(self, own: CustomStrategy, stored: ResourceStrategy) -> None:
        super().__init__(own.custom, has_status=own.has_status)
        self._stored = stored

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        return self._stored.default(new, old)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return self._stored.check_new(new)

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return self._stored.check_update(new, old)


def _prepare(own: Resource) -> Callable[[Json], Json]:
    """Return a function that prunes, completes and validates an object in a version."""

    def prepare(document: Json) -> Json:
        new = own.strategy.default(document)
        if problems := own.strategy.check_new(new):
            name = (new.get("metadata") or {}).get("name", "")
            raise api_errors.invalid(own.group_kind, name, problems)
        return new

    return prepare


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


def _resources(definition: Json, webhooks: ConversionWebhooks | None = None) -> list[Resource]:
    """Create a resource for each version, the storage version first."""
    hook = None if webhooks is None else conversion_hook(definition)
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
            deprecation=deprecation_warning(spec, version),
        )
        if made and hook is not None and webhooks is not None:
            stored, own = made[0], resource.version
            assert isinstance(resource.strategy, CustomStrategy)
            prepare = _prepare(resource)
            resource = msgspec.structs.replace(
                resource,
                strategy=_ConvertedStrategy(resource.strategy, stored.strategy),
                to_stored=VersionConversion(webhooks, hook, own, stored.version, prepare),
                from_stored=VersionConversion(webhooks, hook, stored.version, own),
            )
        elif made:
            resource = _equal_version(resource, made[0])
        made.append(resource)
    return made


def _equal_version(resource: Resource, stored: Resource) -> Resource:
    """Return a version that is not converted, only pruned to the fields of the other version."""
    own, other = (
        each.strategy.custom if isinstance(each.strategy, CustomStrategy) else None
        for each in (resource, stored)
    )
    if own is None or other is None or own.schema == other.schema:
        return msgspec.structs.replace(resource, to_stored=_same, from_stored=_same)
    return msgspec.structs.replace(
        resource,
        to_stored=_same,
        from_stored=functools.partial(prune, schema=own.schema, is_resource=True),
        prune_for_store=functools.partial(prune, schema=other.schema, is_resource=True),
    )


def _same(document: Json) -> Json:
    return document


def serve_definition(store: Store, definition: Json) -> None:
    """Register the resource that a definition describes, in its served versions.

    Stored objects get the defaults of the definition's schema.
    """
    name = definition["metadata"]["name"]
    if conversion_hook(definition) is None:
        store.conversions.definitions.discard(name)
    else:
        store.conversions.definitions.add(name)
    resources = _resources(definition, store.conversions)
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
    if (record := store.find_record(CUSTOM_RESOURCE_DEFINITION, None, name)) is not None:
        if record.data["metadata"].get("deletionTimestamp"):
            store.delete_collection(_resources(record.data)[0], None, now_ns)
            return
        converted = _migrated(store, definition)
        serve_definition(store, definition)
        _write_migrated(store, definition, converted, now_ns)
        return
    store.conversions.definitions.discard(name)
    resources = _resources(definition)
    store.delete_collection(resources[0], None, now_ns)
    for resource in resources:
        store.catalog.remove(resource)
