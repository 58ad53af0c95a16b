"""What a store holds, and how it is read: single objects, pages of a list, watches.

What is read is shared and must not be changed. How objects come to be what they are is
`object_store.py`; here they are at most taken back from an earlier life.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.resource_catalog import Catalog
from kubesched.cluster.apiserver.rules.resources.served_resources import (
    Resource,
    built_in_resources,
)
from kubesched.cluster.apiserver.store.list_pages import (
    CURRENT,
    Continuation,
    Page,
    select_page,
    too_old_to_continue,
)
from kubesched.cluster.apiserver.store.log_budget import LogBudget
from kubesched.cluster.apiserver.store.preconditions import parse_revision
from kubesched.cluster.apiserver.store.resource_collection import Collection, Restored
from kubesched.cluster.apiserver.store.selector_matching import Selection
from kubesched.cluster.apiserver.store.store_watch import Watcher
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["StoredObjects", "key_of"]

Json = dict[str, Any]


class StoredObjects:
    """Objects of all resources, and the number of the last write."""

    def __init__(self, features: frozenset[str], history: int, dice: random.Random) -> None:
        """No objects, of the resources that there are with these features."""
        self.revision = 0
        self._history = history
        self._log_budget = LogBudget(dice)
        self.catalog = Catalog(built_in_resources(features))
        # A stored form comes before its other faces, which then share its collection.
        ordered = sorted(self.catalog.all(), key=lambda resource: resource.to_stored is not None)
        self._collections: dict[str, Collection] = {}
        for resource in ordered:
            self.register(resource)

    def register(self, resource: Resource) -> None:
        """Add a resource, or another face of the objects of a known one."""
        self.catalog.add(resource)
        if resource.group_resource not in self._collections:
            collection = Collection(resource, self._history, self._log_budget)
            collection.begin_at(self.revision)
            self._collections[resource.group_resource] = collection

    def restore(self, objects: Iterable[Restored], revision: int) -> None:
        """Take back objects as they were at a revision, from which counting goes on."""
        for each in objects:
            self._collections[each.resource].restore(each)
        self.revision = revision
        for collection in self._collections.values():
            collection.begin_at(revision)

    def compact(self) -> None:
        """Forget all history: who has not seen the present state must list it."""
        for collection in self._collections.values():
            collection.compact(self.revision)

    def collection(self, resource: Resource) -> Collection:
        return self._collections[resource.group_resource]

    # What rules may look up (strategies.base.Cluster)

    def find(self, resource: str, name: str) -> Json | None:
        plural = _CLUSTER_RESOURCES.get(resource, resource)
        record = self._collections[plural].objects.get(name)
        return None if record is None else record.data

    def within(self, resource: str, namespace: str) -> Iterable[Json]:
        objects = self._collections[resource].objects
        if not objects:
            return ()
        prefix = f"{namespace}/"
        return [record.data for key, record in objects.items() if key.startswith(prefix)]

    def all(self, resource: str) -> Iterable[Json]:
        plural = _CLUSTER_RESOURCES.get(resource, resource)
        return (record.data for record in self._collections[plural].objects.values())

    # Reading

    def get(self, resource: Resource, namespace: str | None, name: str) -> Record:
        """Raises ApiError 404."""
        return self._shown(resource, self._stored(resource, namespace, name))

    def find_record(self, resource: Resource, namespace: str | None, name: str) -> Record | None:
        """An object in its stored form, or None."""
        key = key_of(namespace, name) if resource.namespaced else name
        return self.collection(resource).objects.get(key)

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
    ) -> Page:
        """One page of objects in order of their keys.

        With `exact` the objects as they were at `resource_version`; without, any state that
        is not older. Pages of one list all show the revision of the first.

        Raises:
            ApiError: 400 for a selector or token that cannot be read, 410 for a revision that
                is no longer known.
        """
        selection = Selection.parse(resource, namespace, label_selector, field_selector)
        collection = self.collection(resource)
        revision, start = self.revision, ""
        if continue_token:
            continuation = Continuation.parse(continue_token)
            start = continuation.start
            if continuation.revision != CURRENT:
                revision = continuation.revision
                if revision < collection.oldest_revision:
                    raise too_old_to_continue(continuation)
        elif exact:
            revision = parse_revision(resource_version)
            if revision < collection.oldest_revision:
                raise api_errors.expired("The resourceVersion for the provided list is too old.")
        elif resource_version == "0":
            limit = 0  # any state will do, and the reference then answers whole, from a cache
        page = select_page(collection, selection, revision, start, limit)
        if resource.from_stored is None:
            return page
        return page._replace(records=[self._shown(resource, record) for record in page.records])

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Watcher:
        """Follow changes after a version; from none or "0", begin with what is there.

        Raises:
            ApiError: 400 for a selector, 410 for a version that is no longer known.
        """
        selection = Selection.parse(resource, namespace, label_selector, field_selector)
        collection = self.collection(resource)
        face = None if resource.from_stored is None else resource
        if resource_version in ("", "0"):
            now = select_page(collection, selection, self.revision)
            return Watcher(collection, self.revision, selection, face, initial=now.records)
        return Watcher(collection, parse_revision(resource_version), selection, face)

    # Helpers

    def _stored(self, resource: Resource, namespace: str | None, name: str) -> Record:
        record = self.find_record(resource, namespace, name)
        if record is None:
            raise api_errors.not_found(resource.group_resource, name)
        return record

    def _stored_as(self, resource: Resource) -> Resource:
        return self.collection(resource).resource

    def _shown(self, resource: Resource, record: Record) -> Record:
        if resource.from_stored is None:
            return record
        return Record(resource, record.key, resource.from_stored(record.data), record.revision)

    def check_invariants(self) -> None:
        """Assert what must hold between any two writes; for tests and the simulator."""
        for collection in self._collections.values():
            collection.check_invariants(self.revision)


_CLUSTER_RESOURCES = {
    "priorityclasses": "priorityclasses.scheduling.k8s.io",
    "runtimeclasses": "runtimeclasses.node.k8s.io",
    "storageclasses": "storageclasses.storage.k8s.io",
}


def key_of(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
