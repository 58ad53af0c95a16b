"""Deletion of a CustomResourceDefinition whose objects have finalizers.

The definition stays, and its resource is served, until the last object is gone. Clients can then
remove the finalizers. New objects are refused.
"""

from __future__ import annotations

from typing import Any

from kubesched.api.time import format_time
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
    sync_definition,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["finish_deletions", "hold_for_instances", "refuse_creation"]

Json = dict[str, Any]

_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_TERMINATING = "Terminating"


def hold_for_instances(store: Store, name: str, now_ns: int) -> None:
    """Delay the deletion of a definition by a finalizer, if objects of its kind have finalizers."""
    definition = store.get(CUSTOM_RESOURCE_DEFINITION, None, name).data
    instances = _instances(store, name)
    if not any(each.data["metadata"].get("finalizers") for each in instances):
        return
    metadata = definition["metadata"]
    if _CLEANUP in metadata.get("finalizers", ()):
        return
    condition = {
        "type": _TERMINATING,
        "status": "True",
        "lastTransitionTime": format_time(now_ns),
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    }
    status = definition.get("status", {})
    held = {**metadata, "finalizers": [*metadata.get("finalizers", ()), _CLEANUP]}
    with store.own_writes():
        record = store.update(
            CUSTOM_RESOURCE_DEFINITION, None, name, {**definition, "metadata": held}, now_ns
        )
        conditions = [*status.get("conditions", ()), condition]
        marked = {**record.data, "status": {**status, "conditions": conditions}}
        store.update(CUSTOM_RESOURCE_DEFINITION, None, name, marked, now_ns, subresource="status")


def finish_deletions(store: Store) -> None:
    """Let the store remove a definition that is being deleted with its last object."""

    def finish(resource: Resource, now_ns: int) -> None:
        record = store.find_record(CUSTOM_RESOURCE_DEFINITION, None, resource.group_resource)
        if record is None:
            return
        metadata = record.data["metadata"]
        finalizers = metadata.get("finalizers", ())
        if metadata.get("deletionTimestamp") is None or _CLEANUP not in finalizers:
            return
        others = [each for each in finalizers if each != _CLEANUP]
        document = {**record.data, "metadata": {**metadata, "finalizers": others}}
        with store.own_writes():
            store.update(CUSTOM_RESOURCE_DEFINITION, None, metadata["name"], document, now_ns)
        sync_definition(store, record.data, now_ns)

    store.emptied = finish


def refuse_creation(store: Store, resource: Resource) -> None:
    """Refuse a new object of a definition that is being deleted (ApiError 405)."""
    record = store.find_record(CUSTOM_RESOURCE_DEFINITION, None, resource.group_resource)
    conditions = () if record is None else record.data.get("status", {}).get("conditions", ())
    if any(each["type"] == _TERMINATING and each["status"] == "True" for each in conditions):
        text = "create not allowed while custom resource definition is terminating"
        raise api_errors.not_supported_now(resource.group_resource, text)


def _instances(store: Store, name: str) -> list[Record]:
    resource = next((each for each in store.catalog.all() if each.group_resource == name), None)
    return [] if resource is None else list(store.collection(resource).objects.values())
