"""What becomes of objects whose owners go.

An object whose owners are all gone is deleted. An owner that is deleted in the foreground waits for
what it owns and blocks it. It looks at every resource of the store, custom ones included, which is
why it follows the store itself and not typed objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
_REMEMBERED = 100_000
"""Objects that went and are still known to have been there."""
_RETRY_NS = SECOND
_UNIMPORTANT = frozenset({404, 409})

Json = dict[str, Any]

log = get_logger(__name__)


class _TrackedObject(NamedTuple):
    """An object, as far as ownership is concerned."""

    resource: Resource
    namespace: str | None
    name: str
    uid: str
    owners: tuple[Json, ...]
    is_deleting: bool
    waits: bool
    """Whether it is being deleted in the foreground."""


class GarbageDecision(NamedTuple):
    """What is to be done about an object."""

    kind: Literal["keep", "delete", "delete in foreground", "drop references", "finish"]
    references: tuple[str, ...] = ()
    """Uids of owners that the object no longer has."""


def decide(
    known: _TrackedObject,
    find: Callable[[Json], _TrackedObject | None],
    dependents: list[_TrackedObject],
) -> GarbageDecision:
    """`find` gives the owner that a reference names, if there is one."""
    if known.waits and not any(_blocks(each, known.uid) for each in dependents):
        return GarbageDecision("finish")
    if known.is_deleting or not known.owners:
        return GarbageDecision("keep")
    solid, waiting, dangling = [], [], []
    for owner in known.owners:
        found = find(owner)
        if found is None:
            dangling.append(owner["uid"])
        elif found.waits:
            waiting.append(owner["uid"])
        else:
            solid.append(owner["uid"])
    if solid:
        if not dangling and not waiting:
            return GarbageDecision("keep")
        return GarbageDecision("drop references", (*dangling, *waiting))
    # What itself owns something goes after it, unless that would close a circle.
    if waiting and dependents and not any(each.waits for each in dependents):
        return GarbageDecision("delete in foreground")
    return GarbageDecision("delete")


def _blocks(dependent: _TrackedObject, uid: str) -> bool:
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in dependent.owners
    )


class GarbageCollector:
    """Deletes what nobody owns any more, and lets go of owners that waited for it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._known: dict[str, _TrackedObject] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        self._watchers: dict[str, Watcher] = {}
        self._changed_resources: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        """Uids of objects that were here and went, the latest last."""
        self._todo: dict[str, None] = {}
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
                self._follow_new_resources()
                self._read()
                self._judge_all()
            except ApiError as error:
                log.warning("Garbage collection failed, trying again", error=error)
                await self._clock.sleep(_RETRY_NS)
                continue
            if not self._todo and not self._changed_resources:
                await self._changed.wait()

    def _follow_new_resources(self) -> None:
        for resource in self._store.catalog.all():
            key = resource.group_resource
            if key in self._watchers or resource.to_stored is not None or key in _IGNORED:
                continue
            self._watchers[key] = self._store.watch(resource)
            self._changed_resources[key] = None

    def _read(self) -> None:
        changed, self._changed_resources = self._changed_resources, {}
        for key in changed:
            watcher = self._watchers[key]
            try:
                while not watcher.idle:
                    for seen in watcher.read():
                        if seen.record is not None:
                            self._observe(seen.type, seen.record.resource, seen.record.data)
            except ApiError:
                watcher = self._begin_anew(key)
            watcher.collection.call_on_change(lambda key=key: self._wake(key))  # type: ignore[misc]

    def _begin_anew(self, key: str) -> Watcher:
        """Having fallen behind, see what is gone and begin with what is there."""
        collection = self._watchers[key].collection
        there = {record.data["metadata"]["uid"] for record in collection.objects.values()}
        for known in list(self._known.values()):
            if known.resource.group_resource == key and known.uid not in there:
                self._observe("DELETED", known.resource, {"metadata": {"uid": known.uid}})
        self._watchers[key] = self._store.watch(collection.resource)
        self._wake(key)
        return self._watchers[key]

    def _wake(self, key: str) -> None:
        self._changed_resources[key] = None
        self._changed.set()

    def _observe(self, kind: str, resource: Resource, data: Json) -> None:
        metadata = data["metadata"]
        uid = metadata["uid"]
        before = self._known.get(uid)
        for owner in () if before is None else before.owners:
            owned = self._dependents.get(owner["uid"])
            if owned is not None:
                owned.pop(uid, None)
                if not owned:
                    del self._dependents[owner["uid"]]
        if kind == "DELETED":
            self._known.pop(uid, None)
            self._todo.pop(uid, None)
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
            for owner in () if before is None else before.owners:
                self._look_at(owner["uid"])
            for dependent in self._dependents.get(uid, ()):
                self._look_at(dependent)
            return
        deleting = "deletionTimestamp" in metadata
        waits = deleting and FOREGROUND in metadata.get("finalizers", ())
        # What was restored from a file was never checked; who has no uid is nobody's owner.
        references = metadata.get("ownerReferences") or ()
        owners = tuple(each for each in references if each.get("uid"))
        namespace = metadata.get("namespace")
        self._known[uid] = _TrackedObject(
            resource, namespace, metadata["name"], uid, owners, deleting, waits
        )
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[uid] = None
        if before is not None and before.owners != owners:
            for owner in before.owners:
                self._look_at(owner["uid"])  # it may have waited for this one
        if waits and (before is None or not before.waits):
            for dependent in self._dependents.get(uid, ()):
                self._look_at(dependent)
        if waits or (owners and (before is None or before.owners != owners)):
            self._look_at(uid)

    def _look_at(self, uid: str) -> None:
        if uid in self._known:
            self._todo[uid] = None

    def _judge_all(self) -> None:
        todo, self._todo = self._todo, {}
        for uid in list(todo):
            known = self._known.get(uid)
            if known is None:
                del todo[uid]
                continue
            dependents = [self._known[each] for each in self._dependents.get(uid, ())]
            verdict = decide(known, lambda owner, of=known: self._owner(of, owner), dependents)  # type: ignore[misc]
            try:
                if verdict.kind != "keep":
                    self._carry_out(known, verdict)
            except ApiError as error:
                if error.code not in _UNIMPORTANT:
                    self._todo = {**todo, **self._todo}  # this one and those after it
                    raise
            del todo[uid]

    def _owner(self, known: _TrackedObject, owner: Json) -> _TrackedObject | None:
        """The owner that a reference names; None if it is gone.

        One that never was here counts as there: objects from another cluster's dump may name
        owners that were left behind, and stay.
        """
        found = self._known.get(owner["uid"])
        if found is None and owner["uid"] not in self._gone:
            return known
        return found

    def _carry_out(self, known: _TrackedObject, verdict: GarbageDecision) -> None:
        now_ns = self._clock.now_ns()
        where = (known.resource, known.namespace, known.name)
        if verdict.kind in ("delete", "delete in foreground"):
            policy = "Foreground" if verdict.kind == "delete in foreground" else ""
            self._store.delete(*where, now_ns, uid=known.uid, propagation=policy)
            return
        metadata = self._store.get(*where).data["metadata"]
        if metadata["uid"] != known.uid:
            return
        if verdict.kind == "finish":
            kept = [each for each in metadata.get("finalizers", ()) if each != FOREGROUND]
            patch: Json = {"finalizers": kept or None}
        else:
            dropped = frozenset(verdict.references)
            references = metadata.get("ownerReferences", ())
            kept = [each for each in references if each.get("uid") not in dropped]
            patch = {"ownerReferences": kept or None}
        self._store.patch(*where, {"metadata": patch}, now_ns, patch_type="merge")
