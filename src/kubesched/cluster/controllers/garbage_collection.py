"""Garbage collection: deletion of objects whose owners are gone.

An object is deleted when all of its owners are gone. An owner that is deleted in the foreground
stays until the dependents that block its deletion are gone. The collector covers every resource,
custom ones included, so it watches the store itself and not typed objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

from kubesched.api import ApiError
from kubesched.cluster.apiserver.rules.deletion_plan import FOREGROUND
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.store_watch import Watcher
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["GarbageCollector", "GarbageDecision", "decide"]

_IGNORED = frozenset({"events"})
# The number of deleted objects whose uids the collector stores.
_MOST_DELETED_UIDS = 100_000
_RETRY_NS = SECOND
_HARMLESS_ERRORS = frozenset({404, 409})

Json = dict[str, Any]

log = get_logger(__name__)


class _TrackedObject(NamedTuple):
    """The part of an object that garbage collection depends on."""

    resource: Resource
    namespace: str | None
    name: str
    uid: str
    owners: tuple[Json, ...]
    is_deleting: bool
    waits: bool  # whether it is being deleted in the foreground


class GarbageDecision(NamedTuple):
    """What to do with an object."""

    kind: Literal["keep", "delete", "delete in foreground", "drop references", "finish"]
    references: tuple[str, ...] = ()  # uids of the owner references to remove


def decide(
    tracked: _TrackedObject,
    find: Callable[[Json], _TrackedObject | None],
    dependents: list[_TrackedObject],
) -> GarbageDecision:
    """Decide about an object. `find` returns the owner of a reference, or None if it is gone."""
    if tracked.waits and not any(_blocks(each, tracked.uid) for each in dependents):
        return GarbageDecision("finish")
    if tracked.is_deleting or not tracked.owners:
        return GarbageDecision("keep")
    return _decide_by_owners(tracked, find, dependents)


def _decide_by_owners(
    tracked: _TrackedObject,
    find: Callable[[Json], _TrackedObject | None],
    dependents: list[_TrackedObject],
) -> GarbageDecision:
    owners = {reference["uid"]: find(reference) for reference in tracked.owners}
    unusable = [uid for uid, owner in owners.items() if owner is None or owner.waits]
    if not unusable:
        return GarbageDecision("keep")
    if len(unusable) < len(owners):
        return GarbageDecision("drop references", tuple(unusable))
    # An object with dependents is deleted after them, unless the owners form a cycle.
    is_awaited = any(owner is not None for owner in owners.values())
    if is_awaited and dependents and not any(each.waits for each in dependents):
        return GarbageDecision("delete in foreground")
    return GarbageDecision("delete")


def _blocks(dependent: _TrackedObject, uid: str) -> bool:
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in dependent.owners
    )


def _tracked_object(resource: Resource, data: Json) -> _TrackedObject:
    metadata = data["metadata"]
    is_deleting = "deletionTimestamp" in metadata
    # Objects restored from a file were not validated. A reference without a uid names no owner.
    references = metadata.get("ownerReferences") or ()
    return _TrackedObject(
        resource,
        metadata.get("namespace"),
        metadata["name"],
        metadata["uid"],
        owners=tuple(each for each in references if each.get("uid")),
        is_deleting=is_deleting,
        waits=is_deleting and FOREGROUND in metadata.get("finalizers", ()),
    )


class GarbageCollector:
    """Deletes objects without owners, and finishes foreground deletions of owners."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._tracked: dict[str, _TrackedObject] = {}  # by uid
        self._dependents: dict[str, dict[str, None]] = {}  # uids, by the uid of the owner
        self._watchers: dict[str, Watcher] = {}
        self._changed_resources: dict[str, None] = {}
        self._deleted: dict[str, None] = {}  # uids of deleted objects, the latest last
        self._queue: dict[str, None] = {}  # uids of the objects to decide about
        self._changed = asyncio.Event()
        self._stopping = StopSwitch()

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        while True:
            self._changed.clear()
            try:
                self._watch_new_resources()
                self._read_watches()
                self._process_queue()
            except ApiError as error:
                log.warning("Garbage collection failed; retrying", error=error)
                await self._clock.sleep(_RETRY_NS)
                continue
            if not self._queue and not self._changed_resources:
                await self._changed.wait()

    def _watch_new_resources(self) -> None:
        for resource in self._store.catalog.all():
            key = resource.group_resource
            if key in self._watchers or resource.to_stored is not None or key in _IGNORED:
                continue
            self._watchers[key] = self._store.watch(resource)
            self._changed_resources[key] = None

    def _read_watches(self) -> None:
        changed, self._changed_resources = self._changed_resources, {}
        for key in changed:
            watcher = self._watchers[key]
            try:
                while not watcher.idle:
                    for change in watcher.read():
                        if change.record is not None:
                            record = change.record
                            self._observe(change.type, record.resource, record.data)
            except ApiError:
                watcher = self._relist(key)
            watcher.collection.call_on_change(lambda key=key: self._wake(key))  # type: ignore[misc]

    def _relist(self, key: str) -> Watcher:
        """Remove deleted objects after the watch has expired, and start a new watch."""
        collection = self._watchers[key].collection
        present = {record.data["metadata"]["uid"] for record in collection.objects.values()}
        for known in list(self._tracked.values()):
            if known.resource.group_resource == key and known.uid not in present:
                self._observe("DELETED", known.resource, {"metadata": {"uid": known.uid}})
        self._watchers[key] = self._store.watch(collection.resource)
        self._wake(key)
        return self._watchers[key]

    def _wake(self, key: str) -> None:
        self._changed_resources[key] = None
        self._changed.set()

    def _observe(self, kind: str, resource: Resource, data: Json) -> None:
        """Update the ownership graph, and queue the objects that the change may affect."""
        uid = data["metadata"]["uid"]
        before = self._tracked.get(uid)
        if before is not None:
            self._remove_from_owners(before)
        if kind == "DELETED":
            self._remove(uid, before)
        else:
            self._update(_tracked_object(resource, data), before)

    def _remove_from_owners(self, tracked: _TrackedObject) -> None:
        for owner in tracked.owners:
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.pop(tracked.uid, None)
                if not dependents:
                    del self._dependents[owner["uid"]]

    def _remove(self, uid: str, before: _TrackedObject | None) -> None:
        self._tracked.pop(uid, None)
        self._queue.pop(uid, None)
        self._deleted[uid] = None
        if len(self._deleted) > _MOST_DELETED_UIDS:
            del self._deleted[next(iter(self._deleted))]
        for owner in () if before is None else before.owners:
            self._enqueue(owner["uid"])
        for dependent in self._dependents.get(uid, ()):
            self._enqueue(dependent)

    def _update(self, tracked: _TrackedObject, before: _TrackedObject | None) -> None:
        uid = tracked.uid
        self._tracked[uid] = tracked
        for owner in tracked.owners:
            self._dependents.setdefault(owner["uid"], {})[uid] = None
        has_new_owners = before is None or before.owners != tracked.owners
        if before is not None and has_new_owners:
            for owner in before.owners:
                # The former owner may have waited for this dependent.
                self._enqueue(owner["uid"])
        if tracked.waits and (before is None or not before.waits):
            for dependent in self._dependents.get(uid, ()):
                self._enqueue(dependent)
        if tracked.waits or (tracked.owners and has_new_owners):
            self._enqueue(uid)

    def _enqueue(self, uid: str) -> None:
        if uid in self._tracked:
            self._queue[uid] = None

    def _process_queue(self) -> None:
        queue, self._queue = self._queue, {}
        for uid in list(queue):
            tracked = self._tracked.get(uid)
            if tracked is None:
                del queue[uid]
                continue
            dependents = [self._tracked[each] for each in self._dependents.get(uid, ())]
            decision = decide(tracked, partial(self._owner, tracked), dependents)
            try:
                if decision.kind != "keep":
                    self._carry_out(tracked, decision)
            except ApiError as error:
                if error.code not in _HARMLESS_ERRORS:
                    # Retry this object and those after it.
                    self._queue = {**queue, **self._queue}
                    raise
            del queue[uid]

    def _owner(self, tracked: _TrackedObject, owner: Json) -> _TrackedObject | None:
        """Return the owner of a reference; None if it was deleted.

        An owner that never existed here counts as existing: objects from the dump of another
        cluster may have owners that the dump left out. They must not be deleted.
        """
        found = self._tracked.get(owner["uid"])
        if found is None and owner["uid"] not in self._deleted:
            return tracked
        return found

    def _carry_out(self, tracked: _TrackedObject, decision: GarbageDecision) -> None:
        now_ns = self._clock.now_ns()
        where = (tracked.resource, tracked.namespace, tracked.name)
        if decision.kind in ("delete", "delete in foreground"):
            policy = "Foreground" if decision.kind == "delete in foreground" else ""
            self._store.delete(*where, now_ns, uid=tracked.uid, propagation=policy)
            return
        metadata = self._store.get(*where).data["metadata"]
        if metadata["uid"] != tracked.uid:
            return
        if decision.kind == "finish":
            finalizers = [each for each in metadata.get("finalizers", ()) if each != FOREGROUND]
            patch: Json = {"finalizers": finalizers or None}
        else:
            dropped = frozenset(decision.references)
            references = metadata.get("ownerReferences", ())
            remaining = [each for each in references if each.get("uid") not in dropped]
            patch = {"ownerReferences": remaining or None}
        self._store.patch(*where, {"metadata": patch}, now_ns, patch_type="merge")
