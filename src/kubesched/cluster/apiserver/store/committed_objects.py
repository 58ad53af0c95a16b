"""Commits of the store: every change of an object gets a number and enters the log.

A commit also counts quotas. The removal of an object continues the deletion of its namespace.
Which changes are legal is decided in `object_store.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.rules.deletion_plan import add_foreground_finalizer, plan_deletion
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.conversion_webhooks import VersionConversion
from kubesched.cluster.apiserver.store.namespace_deletion import NamespaceDeletion
from kubesched.cluster.apiserver.store.quota_accounting import QuotaAccounting
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_objects import StoredObjects
from kubesched.cluster.apiserver.store.stored_records import ChangeType, Record, StoredChange

__all__ = ["CommittedObjects", "Deletion"]

Json = dict[str, Any]


class Deletion(NamedTuple):
    """The result of a deletion: the last state of the object."""

    record: Record
    gone: bool  # False if finalizers or a grace period delay the removal


class CommittedObjects(StoredObjects):
    """The objects of all resources, with the means to commit a change of one."""

    def __init__(
        self,
        features: frozenset[str],
        history: int,
        rng: random.Random,
        now_ns: int,
        on_change: Callable[[StoredChange], None] | None,
    ) -> None:
        """Create empty collections. `on_change` is called before each commit, and may refuse it."""
        super().__init__(features, history, rng)
        self._on_change = on_change
        # Called after the last object of a custom resource was removed.
        self.emptied: Callable[[Resource, int], None] | None = None
        # The time of the last write that was called with one.
        self._now_ns = now_ns
        self._namespace_deletion = NamespaceDeletion(
            self._collections,
            self._empty_namespace,
            lambda record, data: self._commit(
                "MODIFIED", record.resource, record.key, data, record
            ),
            self._finish,
        )
        self._quotas = QuotaAccounting(self._collections, self._write_quota)
        self._quota_records = self._collections["resourcequotas"].objects

    def finish_deletions(self, now_ns: int) -> None:
        """Resume the deletion of namespaces that was under way when the process ended."""
        namespaces = self._collections["namespaces"]
        for record in list(namespaces.objects.values()):
            if "deletionTimestamp" in record.data["metadata"]:
                self._delete_namespace(record, now_ns)

    def recount_quotas(self, now_ns: int) -> None:
        """Correct the statuses of quotas that clients have changed."""
        self._now_ns = now_ns
        self._quotas.recount()

    def _delete(
        self,
        resource: Resource,
        old: Record,
        grace_period_seconds: int | None,
        now_ns: int,
        *,
        foreground: bool = False,
    ) -> Deletion:
        data = add_foreground_finalizer(old.data) if foreground else old.data
        self._now_ns = now_ns
        plan = plan_deletion(resource.strategy, data, grace_period_seconds, now_ns)
        if plan.marked is not None:
            old = self._commit("MODIFIED", resource, old.key, plan.marked, old)
        if not plan.remove:
            return Deletion(old, gone=False)
        return Deletion(self._remove(resource, old), gone=True)

    def _delete_namespace(self, old: Record, now_ns: int) -> Deletion:
        self._namespace_deletion.begin(old, now_ns)
        remaining = self._collections["namespaces"].objects.get(old.key)
        return Deletion(remaining or old, gone=remaining is None)

    def _commit(
        self,
        kind: ChangeType,
        resource: Resource,
        key: str,
        data: Json,
        previous: Record | None,
        *,
        base: tuple[Any, Json] | None = None,
    ) -> Record:
        _fetch_conversion(resource, data)
        self.revision = revision = self.revision + 1
        collection = self._collections[resource.group_resource]
        if base is None and previous is not None:
            base = previous.base
        record = Record.numbered(collection.resource, key, data, revision, base)
        self._publish(collection, StoredChange(kind, record, previous, revision))
        return record

    def _remove(self, resource: Resource, old: Record) -> Record:
        _fetch_conversion(resource, old.data)
        self.revision += 1
        record = old.with_revision(self.revision)
        self._publish(
            self.collection(resource), StoredChange("DELETED", record, old, record.revision)
        )
        if resource.namespaced:
            self._namespace_deletion.advance(old.data["metadata"]["namespace"], self._now_ns)
        if (
            self.emptied is not None
            and resource.type is None
            and not self.collection(resource).objects
        ):
            self.emptied(resource, self._now_ns)
        return record

    def _publish(self, collection: Collection, change: StoredChange) -> None:
        if self._on_change is not None:
            try:
                self._on_change(change)
            except BaseException:
                # No client may see the number of a failed write: after a restart the store would
                # use it again.
                self.revision = change.revision - 1
                raise
        collection.commit(change)
        if self._quota_records:
            self._quotas.account(collection.resource, change)

    def _empty_namespace(self, record: Record, now_ns: int) -> None:
        self._delete(record.resource, record, None, now_ns)

    def _finish(self, record: Record) -> None:
        self._remove(record.resource, record)

    def _write_quota(self, old: Record, data: Json) -> None:
        self._commit("MODIFIED", old.resource, old.key, data, old)


def _fetch_conversion(resource: Resource, data: Json) -> None:
    """Make sure that the response to a write can be converted. Raises CallsNeededError."""
    if isinstance(resource.from_stored, VersionConversion):
        resource.from_stored.fetch([data])
