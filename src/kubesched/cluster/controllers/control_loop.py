"""Follows the cluster, asks for plans, and carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from kubesched.api import ApiAccess, ApiError, Pod, PodGroup, ResourceClaim
from kubesched.api.access import ObjectList, WatchEvent, deliver
from kubesched.api.base import ApiObject
from kubesched.cluster.controllers.interests import LOST_NODE, concerned, settles
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.planners import FOLLOWED, Planner, planners
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    Patch,
    RecordEvent,
)
from kubesched.cluster.controllers.pod_garbage_collection import LostNodes
from kubesched.cluster.controllers.taint_eviction import TaintEvictions
from kubesched.foundation.util.clock import MICROSECOND, MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.heap import KeyedHeap
from kubesched.foundation.util.logging import get_logger

__all__ = ["Controllers", "DocumentAccess", "EventSink"]

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

_FORBIDDEN, _NOT_FOUND, _CONFLICT, _GONE, _INVALID = 403, 404, 409, 410, 422
_SETTLING_NS = 100 * MILLISECOND
"""What looks at all pods of a namespace waits for changes that come together."""
_PAUSE_NS = 10 * MILLISECOND
"""Between two plans for one object."""
_PAUSE_PER_OWNED_NS = 20 * MICROSECOND
"""For each object that it owns if they are many: a plan looks at all of them."""
_ACTIONS_PER_TURN = 100
"""Then others get their turn: a server in this process answers without one."""
_FIRST_RETRY_NS, _LAST_RETRY_NS = 10 * MILLISECOND, 10 * SECOND

log = get_logger(__name__)


class DocumentAccess(ApiAccess, Protocol):
    """Access to objects, and to all of their JSON: templates have fields that no type declares."""

    def document(
        self, kind: type[msgspec.Struct], name: str, namespace: str | None = None
    ) -> Mapping[str, Any]: ...

    async def create_document(
        self, kind: type[T], namespace: str | None, document: Mapping[str, Any]
    ) -> T: ...

    async def remove(
        self,
        kind: type[msgspec.Struct],
        name: str,
        namespace: str | None,
        *,
        uid: str,
        grace_period_seconds: int | None,
        propagation: str,
    ) -> None:
        """Delete, and say what is to become of what the object owns."""
        ...


class EventSink(Protocol):
    """Takes events about objects, in the name of a controller."""

    def __call__(
        self, controller: str, subject: ApiObject, kind: str, reason: str, message: str
    ) -> None: ...


_USERS: dict[str, type[ApiObject]] = {"pods": Pod, "podgroups": PodGroup}
"""Who may have claims for devices reserved."""


class _Due(NamedTuple):
    key: str
    due_ns: int


class Controllers:
    """The controllers of workloads, nodes, namespaces, services, volumes and claims.

    Each kind has plans (`planners.py`); a change makes those look again whom it concerns
    (`interests.py`).
    """

    def __init__(
        self,
        api: DocumentAccess,
        clock: Clock,
        *,
        events: EventSink | None = None,
        authority: Callable[[], str] = str,
        has_pod_groups: bool = False,
        has_group_claims: bool = False,
    ) -> None:
        """`authority` gives the certificates, as text, by which the API server is trusted.

        `has_pod_groups` says whether that server has PodGroups, and `has_group_claims` whether
        those have claims.
        """
        self._api, self._clock, self._events = api, clock, events
        self._objects = ObjectIndex()
        self._objects.documents = self._document
        self._objects.has_group_claims = has_group_claims
        self._evictions = TaintEvictions()
        self._lost_nodes = LostNodes()
        self._planners = planners(self._evictions, authority)
        self._due: KeyedHeap[str, _Due] = KeyedHeap(key=itemgetter(0), sort_key=itemgetter(1))
        """When to plan for an object next, by its uid; for a lost node, by its name."""
        self._rests_until: dict[str, int] = {}
        """When an object may be planned for again, by its uid."""
        self._failures: dict[str, int] = {}
        self._carried_out = 0
        self._changed = asyncio.Event()
        self._stopping = StopSwitch()
        groups: tuple[type[ApiObject], ...] = (PodGroup,) if has_pod_groups else ()
        self._followed = (*FOLLOWED, *groups)
        self._unsynced = set(self._followed)

    def _document(
        self, kind: type[ApiObject], name: str, namespace: str
    ) -> Mapping[str, Any] | None:
        try:
            return self._api.document(kind, name, namespace or None)
        except ApiError:
            return None

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for kind in self._followed:
                name = f"Controllers.{kind.kind}"
                tasks.create_task(self._follow(kind), name=name)
            while True:
                self._changed.clear()
                await self._plan_what_is_due()
                now_ns = self._clock.now_ns()
                first = self._due.peek()
                # Plans before all is known would make pods that are already there.
                waits = first is None or bool(self._unsynced)
                timeout_ns = None if waits or first is None else max(0, first.due_ns - now_ns)
                await self._clock.wait(self._changed, timeout_ns)

    # What the cluster says

    async def _follow(self, kind: type[ApiObject]) -> None:
        while True:
            try:
                await self._list_and_watch(kind)
            except ApiError as error:
                if error.code != _GONE:
                    log.warning("Lost sight of objects, starting over", kind=kind, error=error)
                    await self._clock.sleep(SECOND)

    async def _list_and_watch(self, kind: type[ApiObject]) -> None:
        listed: ObjectList[Any] = await self._api.list(kind)
        there = {each.metadata.uid for each in listed.items}
        for uid in sorted(self._objects.uids(kind) - there):
            self._forget(self._objects.get(uid))
        for each in listed.items:
            self._observe(each)
        self._unsynced.discard(kind)
        self._changed.set()
        events = self._api.watch(kind, resource_version=listed.resource_version)
        await deliver(events, self._take_in)

    def _take_in(self, event: WatchEvent[Any]) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            self._forget(event.object)
        else:
            self._observe(event.object)

    def _observe(self, subject: Any) -> None:
        before = self._objects.get(subject.metadata.uid)
        if self._objects.observe(subject):
            self._touch(subject, before)

    def _forget(self, subject: Any) -> None:
        uid = subject.metadata.uid
        before = self._objects.get(uid)
        self._objects.forget(uid)
        self._touch(subject, before, gone=True)
        self._due.delete(uid)
        self._rests_until.pop(uid, None)
        self._failures.pop(uid, None)
        if isinstance(subject, Pod):
            self._evictions.forget(uid)

    def _touch(self, subject: Any, before: Any | None, *, gone: bool = False) -> None:
        """Look again at whom a change concerns: some at once, some when things have settled."""
        for key in concerned(self._objects, subject, before, gone=gone):
            self._soon(key)
        for key in settles(self._objects, subject) if self._objects.has_onlookers else ():
            if self._due.get(key) is None:
                self._due.add(_Due(key, self._clock.now_ns() + _SETTLING_NS))
                self._changed.set()

    def _soon(self, key: str) -> None:
        self._at(key, self._rests_until.get(key, 0))
        self._changed.set()

    def _at(self, key: str, due_ns: int) -> None:
        """Plan for an object at a time, if not before."""
        known = self._due.get(key)
        if known is None:
            self._due.add(_Due(key, due_ns))
        elif known.due_ns > due_ns:
            self._due.update(_Due(key, due_ns))

    # What is to be done

    async def _plan_what_is_due(self) -> None:
        if self._unsynced:
            return
        now_ns = self._clock.now_ns()
        due = []
        while (first := self._due.peek()) is not None and first.due_ns <= now_ns:
            due.append(self._due.pop().key)
        for key in due:
            if key.startswith(LOST_NODE):
                name = key.removeprefix(LOST_NODE)
                await self._give_up_pods(name, key, now_ns)
                continue
            subject = self._objects.get(key)
            if subject is not None:
                pause_ns = max(_PAUSE_NS, self._objects.count_owned(key) * _PAUSE_PER_OWNED_NS)
                self._rests_until[key] = now_ns + pause_ns
                await self._attempt(subject, now_ns)

    async def _give_up_pods(self, node: str, key: str, now_ns: int) -> None:
        plan = self._lost_nodes.plan(self._objects, node, now_ns)
        try:
            for action in plan.actions:
                await self._carry_out("pod-garbage-collector", action)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                log.warning("A controller failed, trying again", node=node, error=error)
            self._at(key, now_ns + SECOND)
        if plan.again_ns is not None:
            self._at(key, plan.again_ns)

    async def _attempt(self, subject: Any, now_ns: int) -> None:
        uid = subject.metadata.uid
        try:
            refusals = [
                await self._plan(planner, subject, now_ns)
                for planner in self._planners.get(type(subject), ())
            ]
            self._note_refusal(uid, next(filter(None, refusals), ""), now_ns)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                log.warning("A controller failed, trying again", object=subject, error=error)
            self._retry(uid, now_ns)
        except Exception as error:
            # One object that hits a bug must not take the others along.
            log.exception("A controller cannot deal with an object", error, object=subject)
            self._retry(uid, now_ns)

    def _note_refusal(self, uid: str, refused: str, now_ns: int) -> None:
        """Try again what was refused, less and less often, and have the object tell why."""
        was_refused = uid in self._objects.refused
        if refused and was_refused:
            # The first reason stays: its text names what was to be made, anew each time.
            self._retry(uid, now_ns)
        elif refused:
            self._objects.refused[uid] = refused
            self._soon(uid)
        else:
            self._failures.pop(uid, None)
            if was_refused:
                del self._objects.refused[uid]
                self._soon(uid)

    def _retry(self, uid: str, now_ns: int) -> None:
        failures = self._failures.get(uid, 0)
        self._failures[uid] = failures + 1
        self._at(uid, now_ns + min(_FIRST_RETRY_NS << min(failures, 20), _LAST_RETRY_NS))

    async def _plan(self, planner: Planner, subject: Any, now_ns: int) -> str:
        """Returns why something could not be made, if so."""
        metadata = subject.metadata
        if not planner.applies(subject):
            return ""
        document = self._api.document(type(subject), metadata.name, metadata.namespace)
        if document["metadata"]["uid"] != metadata.uid:
            return ""
        # The document may be newer than what a watch has brought: decide by the newest.
        if document["metadata"]["resourceVersion"] != metadata.resource_version:
            subject = msgspec.convert(document, type(subject))
        if isinstance(subject, ResourceClaim):
            self._look_up_users(subject)
        plan = planner.plan(self._objects, subject, document, now_ns)
        refused = await self._carry_out_all(planner.controller, subject, plan)
        if plan.again_ns is not None:
            self._at(metadata.uid, max(plan.again_ns, now_ns + _PAUSE_NS))
        return refused

    def _look_up_users(self, claim: ResourceClaim) -> None:
        """See to it that a user that a watch has not yet brought does not count as gone."""
        for user in claim.status.reserved_for:
            kind = _USERS.get(user.resource)
            if kind is None or self._objects.get(user.uid) is not None:
                continue
            try:
                document = self._api.document(kind, user.name, claim.metadata.namespace)
            except ApiError:
                continue
            if document["metadata"]["uid"] == user.uid:
                self._objects.observe(msgspec.convert(document, kind))

    async def _carry_out_all(self, controller: str, subject: Any, plan: ActionPlan) -> str:
        """Carry out a plan; what may not be made does not keep the rest from being done."""
        refused = ""
        for action in plan.actions:
            if not isinstance(action, Create):
                await self._carry_out(controller, action, subject)
                continue
            if refused:
                continue
            try:
                await self._carry_out(controller, action, subject)
            except ApiError as error:
                if error.code not in (_FORBIDDEN, _INVALID):
                    raise
                refused = str(error)
                if action.reports:
                    text = f"Error creating: {refused}"
                    self._record(controller, RecordEvent(subject, "FailedCreate", text, True))
        return refused

    async def _carry_out(self, controller: str, action: Action, owner: Any | None = None) -> None:
        self._carried_out += 1
        if self._carried_out % _ACTIONS_PER_TURN == 0:
            await asyncio.sleep(0)
        match action:
            case Create():
                await self._create(controller, action, owner)
            case Delete():
                await self._delete(controller, action, owner)
            case RecordEvent():
                self._record(controller, action)
            case Patch(subject, patch, subresource, strategic):
                metadata = subject.metadata
                changed = await self._api.patch(
                    type(subject),
                    metadata.name,
                    metadata.namespace or None,
                    {**patch, "metadata": {**patch.get("metadata", {}), "uid": metadata.uid}},
                    patch_type="strategic" if strategic else "merge",
                    subresource=subresource,
                )
                self._observe(changed)

    async def _create(self, controller: str, action: Create, owner: Any | None) -> None:
        namespace = action.document["metadata"].get("namespace")
        try:
            made: Any = await self._api.create_document(action.kind, namespace, action.document)
        except ApiError as error:
            if action.optional and error.code == _CONFLICT:
                return
            raise
        self._observe(made)
        if action.reports and owner is not None:
            text = f"Created {_noun(made)}: {made.metadata.name}"
            self._record(controller, RecordEvent(owner, "SuccessfulCreate", text))

    async def _delete(self, controller: str, action: Delete, owner: Any | None) -> None:
        subject = action.subject
        metadata = subject.metadata
        try:
            await self._api.remove(
                type(subject),
                metadata.name,
                metadata.namespace or None,
                uid=metadata.uid,
                grace_period_seconds=action.grace_period_seconds,
                propagation=action.propagation,
            )
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise
            return
        if action.reports and owner is not None:
            text = f"Deleted {_noun(subject)}: {metadata.name}"
            self._record(controller, RecordEvent(owner, "SuccessfulDelete", text))
        self._take_in_deletion(subject)

    def _take_in_deletion(self, subject: Any) -> None:
        """Know at once what a deletion did: the object is gone, or on its way."""
        metadata = subject.metadata
        try:
            document = self._api.document(type(subject), metadata.name, metadata.namespace or None)
        except ApiError:
            document = {"metadata": {"uid": ""}}
        if document["metadata"]["uid"] != metadata.uid:
            self._objects.expect_gone(metadata.uid)
        else:
            self._observe(msgspec.convert(document, type(subject)))

    def _record(self, controller: str, event: RecordEvent) -> None:
        if self._events is not None:
            kind = "Warning" if event.warning else "Normal"
            self._events(controller, event.subject, kind, event.reason, event.message)


def _noun(made: Any) -> str:
    """The word for a kind in events: `pod: web-1`, `job hello-1`."""
    word: str = type(made).kind.lower()
    return word
