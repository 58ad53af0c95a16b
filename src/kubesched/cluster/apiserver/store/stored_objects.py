"""The read side of the store: single objects, pages of a list, watches.

Results are shared between readers, so callers must not change them. The writes are in
`object_store.py`. Here objects are only restored from a file or a capture.
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
from kubesched.cluster.apiserver.store.conversion_webhooks import (
    ConversionWebhooks,
    VersionConversion,
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
from kubesched.cluster.apiserver.store.resource_collection import Collection, RestoredObject
from kubesched.cluster.apiserver.store.selector_matching import Selection
from kubesched.cluster.apiserver.store.store_watch import Watcher
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = ["StoredObjects", "key_of"]

Json = dict[str, Any]


class StoredObjects:
    """The objects of all resources, and the number of the last write."""

    def __init__(self, features: frozenset[str], history: int, rng: random.Random) -> None:
        """Create empty collections for the resources that exist with these features.

        Each collection logs at least `history` changes. `rng` selects which are measured.
        """
        self.revision = 0
        self.conversions = ConversionWebhooks()
        self._history = history
        self._log_budget = LogBudget(rng)
        self.catalog = Catalog(built_in_resources(features))
        # The stored form of a resource comes first. Other API versions share its collection.
        ordered = sorted(self.catalog.all(), key=lambda resource: resource.to_stored is not None)
        self._collections: dict[str, Collection] = {}
        for resource in ordered:
            self.register(resource)

    def register(self, resource: Resource) -> None:
        """Add a resource, or another API version of a resource that has a collection."""
        self.catalog.add(resource)
        if resource.group_resource not in self._collections:
            collection = Collection(resource, self._history, self._log_budget)
            collection.begin_at(self.revision)
            self._collections[resource.group_resource] = collection

    def redefine(self, resource: Resource) -> None:
        """Replace a resource by one with other rules. Its objects are not changed."""
        self.catalog.add(resource)
        self._collections[resource.group_resource].resource = resource

    def restore(self, objects: Iterable[RestoredObject], revision: int) -> None:
        """Restore the objects of a revision. The next write gets the following number."""
        for each in objects:
            self._collections[each.resource].restore(each)
        self.revision = revision
        for collection in self._collections.values():
            collection.begin_at(revision)

    def compact(self) -> None:
        """Drop all logged changes. Watches from an older revision must list again."""
        for collection in self._collections.values():
            collection.compact(self.revision)

    def collection(self, resource: Resource) -> Collection:
        return self._collections[resource.group_resource]

    # The protocol `ObjectLookup` of the strategies

    def find(self, resource: str, name: str) -> Json | None:
        plural = _CLUSTER_RESOURCES.get(resource, resource)
        record = self._collections[plural].objects.get(name)
        return None if record is None else record.data

    def in_namespace(self, resource: str, namespace: str) -> Iterable[Json]:
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
        return self._as_served(resource, self._get_stored(resource, namespace, name))

    def find_record(self, resource: Resource, namespace: str | None, name: str) -> Record | None:
        """Return an object in its stored form, or None."""
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
        """Return one page of objects, ordered by key.

        With `exact` the page shows the objects at `resource_version`. Otherwise it shows any
        state that is not older. All pages of a list show the revision of the first page.

        Raises:
            ApiError: 400 for a selector or token that cannot be parsed, 410 for a revision that
                the log no longer holds.
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
            limit = 0  # the reference reads from a cache then, and ignores the limit
        page = select_page(collection, selection, revision, start, limit)
        if resource.from_stored is None:
            return page
        if isinstance(resource.from_stored, VersionConversion):
            resource.from_stored.fetch(record.data for record in page.records)
        return page._replace(records=[self._as_served(resource, record) for record in page.records])

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
    ) -> Watcher:
        """Watch the changes after a version.

        Without a version, or with "0", the watch begins with all current objects.

        Raises:
            ApiError: 400 for a selector, 410 for a version that the log no longer holds.
        """
        selection = Selection.parse(resource, namespace, label_selector, field_selector)
        collection = self.collection(resource)
        served_as = None if resource.from_stored is None else resource
        if resource_version in ("", "0"):
            now = select_page(collection, selection, self.revision)
            return Watcher(collection, self.revision, selection, served_as, initial=now.records)
        return Watcher(collection, parse_revision(resource_version), selection, served_as)

    # Helpers

    def _get_stored(self, resource: Resource, namespace: str | None, name: str) -> Record:
        record = self.find_record(resource, namespace, name)
        if record is None:
            raise api_errors.not_found(resource.group_resource, name)
        return record

    def _stored_resource(self, resource: Resource) -> Resource:
        return self.collection(resource).resource

    def _as_served(self, resource: Resource, record: Record) -> Record:
        if resource.from_stored is None:
            return record
        return Record(resource, record.key, resource.from_stored(record.data), record.revision)

    def check_invariants(self) -> None:
        """Assert the invariants that hold between any two writes (for tests and simulations)."""
        for collection in self._collections.values():
            collection.check_invariants(self.revision)


_CLUSTER_RESOURCES = {
    "priorityclasses": "priorityclasses.scheduling.k8s.io",
    "runtimeclasses": "runtimeclasses.node.k8s.io",
    "storageclasses": "storageclasses.storage.k8s.io",
}


def key_of(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
