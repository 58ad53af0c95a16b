"""The loop that runs all controllers: it watches, calls plan functions and carries plans out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from kubesched.api import ApiAccess, ApiError, Pod, PodGroup, ResourceClaim
from kubesched.api.access import ObjectList, WatchEvent, deliver
from kubesched.api.base import ApiObject
from kubesched.api.core import ServiceAccount
from kubesched.api.scheduling import Workload
from kubesched.cluster.apiserver.http.metrics_api import PodUsage
from kubesched.cluster.apiserver.rules.errors.api_errors import missing_account
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.controller_registry import FOLLOWED, all_controllers
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    Patch,
    RecordEvent,
)
from kubesched.cluster.controllers.pod_autoscalers import PodAutoscalers
from kubesched.cluster.controllers.pod_garbage_collection import LOST_NODE, LostNodes
from kubesched.cluster.controllers.taint_eviction import TaintEvictions
from kubesched.cluster.controllers.triggers import TriggerIndex
from kubesched.foundation.util.clock import MICROSECOND, MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.heap import KeyedHeap
from kubesched.foundation.util.logging import get_logger

__all__ = ["Controllers", "DocumentAccess", "EventSink"]

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

_DEFAULT_ACCOUNT = "default"
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _GONE, _INVALID = 403, 404, 409, 410, 422
# The delay of plans that read a whole namespace, so that one plan covers many changes.
_SETTLING_NS = 100 * MILLISECOND
# The pause between two plans for one object.
_PAUSE_NS = 10 * MILLISECOND
# The pause per owned object if there are many of them, since a plan reads all of them.
_PAUSE_PER_OWNED_NS = 20 * MICROSECOND
# After this number of actions the loop yields to other tasks. A server in this process never
# suspends.
_ACTIONS_PER_TURN = 100
_FIRST_RETRY_NS, _LAST_RETRY_NS = 10 * MILLISECOND, 10 * SECOND

log = get_logger(__name__)


class DocumentAccess(ApiAccess, Protocol):
    """Access to objects and to their whole JSON, since templates have undeclared fields."""

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
        """Delete an object, with a propagation policy for its dependents."""
        ...


class EventSink(Protocol):
    """Records an event about an object, with the name of the reporting controller."""

    def __call__(
        self, controller: str, subject: ApiObject, kind: str, reason: str, message: str
    ) -> None: ...


# The kinds that a ResourceClaim may be reserved for, by resource name.
_CLAIM_USERS: dict[str, type[ApiObject]] = {"pods": Pod, "podgroups": PodGroup}


class _Due(NamedTuple):
    key: str
    due_ns: int


class Controllers:
    """The controllers of workloads, nodes, namespaces, services, volumes and claims.

    `controller_registry.py` lists them. Each declares which changes trigger it. A change makes
    the objects that the triggers find due for a plan.
    """

    def __init__(
        self,
        api: DocumentAccess,
        clock: Clock,
        *,
        events: EventSink | None = None,
        authority: Callable[[], str] = str,
        usage: PodUsage | None = None,
        needs_accounts: bool = False,
        has_pod_groups: bool = False,
        has_group_claims: bool = False,
        has_job_groups: bool = False,
    ) -> None:
        """`authority` returns the certificates, as text, that clients need to trust the server.

        `usage` returns what a running pod uses, for autoscalers. With `needs_accounts` pods whose
        service account does not exist are refused.

        `has_pod_groups` says whether the server has PodGroups, and `has_group_claims` whether
        they can have ResourceClaims. With `has_job_groups` Jobs create PodGroups.
        """
        self._api, self._clock, self._events = api, clock, events
        self._needs_accounts = needs_accounts
        self._objects = ObjectIndex()
        self._objects.documents = self._document
        self._objects.has_group_claims = has_group_claims
        self._evictions = TaintEvictions()
        self._lost_nodes = LostNodes()
        controllers = all_controllers(
            self._evictions, authority, PodAutoscalers(usage), has_job_groups=has_job_groups
        )
        self._triggers = TriggerIndex(each for one in controllers for each in one.triggers)
        self._controllers: dict[type, list[Controller]] = {}
        for controller in controllers:
            self._controllers.setdefault(controller.kind, []).append(controller)
        # When the next plan for an object is due, by its uid; for a lost node, by LOST_NODE + name.
        self._due: KeyedHeap[str, _Due] = KeyedHeap(key=itemgetter(0), sort_key=itemgetter(1))
        # The earliest time of the next plan for an object, by its uid.
        self._paused_until: dict[str, int] = {}
        # Failed attempts in a row, by uid.
        self._failures: dict[str, int] = {}
        self._action_count = 0
        # The versions that the present plan has written with `unless_changed`, by uid.
        self._written: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._stopping = StopSwitch()
        groups: tuple[type[ApiObject], ...] = (PodGroup,) if has_pod_groups else ()
        if has_job_groups:
            groups = (*groups, Workload)
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
                await self._run_due_plans()
                now_ns = self._clock.now_ns()
                first = self._due.peek()
                # A plan before every kind has synced would create pods that already exist.
                waits = first is None or bool(self._unsynced)
                timeout_ns = None if waits or first is None else max(0, first.due_ns - now_ns)
                await self._clock.wait(self._changed, timeout_ns)

    # Watching

    async def _follow(self, kind: type[ApiObject]) -> None:
        while True:
            try:
                await self._list_and_watch(kind)
            except ApiError as error:
                if error.code != _GONE:
                    log.warning("A watch failed; listing again", kind=kind, error=error)
                    await self._clock.sleep(SECOND)

    async def _list_and_watch(self, kind: type[ApiObject]) -> None:
        listed: ObjectList[Any] = await self._api.list(kind)
        present = {each.metadata.uid for each in listed.items}
        for uid in sorted(self._objects.uids(kind) - present):
            self._remove(self._objects.get(uid))
        for each in listed.items:
            self._observe(each)
        self._unsynced.discard(kind)
        self._changed.set()
        events = self._api.watch(kind, resource_version=listed.resource_version)
        await deliver(events, self._handle)

    def _handle(self, event: WatchEvent[Any]) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            self._remove(event.object)
        else:
            self._observe(event.object)

    def _observe(self, subject: Any) -> None:
        before = self._objects.get(subject.metadata.uid)
        if self._objects.observe(subject):
            self._trigger(subject, before)

    def _remove(self, subject: Any) -> None:
        uid = subject.metadata.uid
        before = self._objects.get(uid)
        self._objects.remove(uid)
        self._trigger(subject, before, gone=True)
        self._due.delete(uid)
        self._paused_until.pop(uid, None)
        self._failures.pop(uid, None)
        if isinstance(subject, Pod):
            self._evictions.remove_pod(uid)

    def _trigger(self, subject: Any, before: Any | None, *, gone: bool = False) -> None:
        """Schedule the plans that a change triggers."""
        for key in self._triggers.keys(self._objects, subject, before, gone=gone):
            self._plan_soon(key)
        if not self._objects.has_namespace_readers:
            return
        for key in self._triggers.delayed_keys(self._objects, subject):
            if self._due.get(key) is None:
                self._due.add(_Due(key, self._clock.now_ns() + _SETTLING_NS))
                self._changed.set()

    def _plan_soon(self, key: str) -> None:
        """Schedule a plan for now, or for the end of the object's pause."""
        self._plan_at(key, self._paused_until.get(key, 0))
        self._changed.set()

    def _plan_at(self, key: str, due_ns: int) -> None:
        """Schedule a plan for a time, unless an earlier one is scheduled."""
        scheduled = self._due.get(key)
        if scheduled is None:
            self._due.add(_Due(key, due_ns))
        elif scheduled.due_ns > due_ns:
            self._due.update(_Due(key, due_ns))

    # Planning

    async def _run_due_plans(self) -> None:
        if self._unsynced:
            return
        now_ns = self._clock.now_ns()
        due = []
        while (first := self._due.peek()) is not None and first.due_ns <= now_ns:
            due.append(self._due.pop().key)
        for key in due:
            if key.startswith(LOST_NODE):
                name = key.removeprefix(LOST_NODE)
                await self._collect_pods_of_lost_node(name, key, now_ns)
                continue
            subject = self._objects.get(key)
            if subject is not None:
                pause_ns = max(_PAUSE_NS, self._objects.count_owned(key) * _PAUSE_PER_OWNED_NS)
                self._paused_until[key] = now_ns + pause_ns
                await self._attempt(subject, now_ns)

    async def _collect_pods_of_lost_node(self, node: str, key: str, now_ns: int) -> None:
        plan = self._lost_nodes.plan(self._objects, node, now_ns)
        try:
            for action in plan.actions:
                await self._carry_out("pod-garbage-collector", action)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                log.warning("A controller failed; retrying", node=node, error=error)
            self._plan_at(key, now_ns + SECOND)
        if plan.again_ns is not None:
            self._plan_at(key, plan.again_ns)

    async def _attempt(self, subject: Any, now_ns: int) -> None:
        uid = subject.metadata.uid
        try:
            refusals = [
                await self._plan(controller, subject, now_ns)
                for controller in self._controllers.get(type(subject), ())
            ]
            self._record_refusal(uid, next(filter(None, refusals), ""), now_ns)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                log.warning("A controller failed; retrying", object=subject, error=error)
            self._retry(uid, now_ns)
        except Exception as error:
            # A bug that one object triggers must not stop the plans for the others.
            log.exception("A controller raised an exception; retrying", error, object=subject)
            self._retry(uid, now_ns)

    def _record_refusal(self, uid: str, refused: str, now_ns: int) -> None:
        """Retry a rejected creation with backoff, and report the reason in the owner's status."""
        was_refused = uid in self._objects.refused
        if refused and was_refused:
            # Keep the first reason: the text has a generated name, which differs each time.
            self._retry(uid, now_ns)
        elif refused:
            self._objects.refused[uid] = refused
            self._plan_soon(uid)
        else:
            self._failures.pop(uid, None)
            if was_refused:
                del self._objects.refused[uid]
                self._plan_soon(uid)

    def _retry(self, uid: str, now_ns: int) -> None:
        failures = self._failures.get(uid, 0)
        self._failures[uid] = failures + 1
        self._plan_at(uid, now_ns + min(_FIRST_RETRY_NS << min(failures, 20), _LAST_RETRY_NS))

    async def _plan(self, controller: Controller, subject: Any, now_ns: int) -> str:
        """Plan for an object. Return why the server rejected a creation, or an empty text."""
        metadata = subject.metadata
        if not controller.applies(subject):
            return ""
        document = self._api.document(type(subject), metadata.name, metadata.namespace)
        if document["metadata"]["uid"] != metadata.uid:
            return ""
        # The document may be newer than the watched object: plan from the newest version.
        if document["metadata"]["resourceVersion"] != metadata.resource_version:
            subject = msgspec.convert(document, type(subject))
        if isinstance(subject, ResourceClaim):
            self._fetch_users(subject)
        plan = controller.plan(self._objects, subject, document, now_ns)
        refused = await self._carry_out_all(controller.name, subject, plan)
        if plan.again_ns is not None:
            self._plan_at(metadata.uid, max(plan.again_ns, now_ns + _PAUSE_NS))
        return refused

    def _fetch_users(self, claim: ResourceClaim) -> None:
        """Fetch users of a claim that no watch has reported yet: they do not count as deleted."""
        for user in claim.status.reserved_for:
            kind = _CLAIM_USERS.get(user.resource)
            if kind is None or self._objects.get(user.uid) is not None:
                continue
            try:
                document = self._api.document(kind, user.name, claim.metadata.namespace)
            except ApiError:
                continue
            if document["metadata"]["uid"] == user.uid:
                self._objects.observe(msgspec.convert(document, kind))

    async def _carry_out_all(self, controller: str, subject: Any, plan: ActionPlan) -> str:
        """Carry out a plan and return why a creation was rejected, or an empty text.

        After a rejection the plan's other creations are skipped. Its other actions are not.
        """
        refused = ""
        self._written.clear()
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
        self._action_count += 1
        if self._action_count % _ACTIONS_PER_TURN == 0:
            await asyncio.sleep(0)
        match action:
            case Create():
                await self._create(controller, action, owner)
            case Delete():
                await self._delete(controller, action, owner)
            case RecordEvent():
                self._record(controller, action)
            case Patch():
                await self._patch(action)

    async def _patch(self, action: Patch) -> None:
        metadata = action.subject.metadata
        preconditions = {"uid": metadata.uid}
        if action.unless_changed:
            version = self._written.get(metadata.uid, metadata.resource_version)
            preconditions["resourceVersion"] = version
        changed: Any = await self._api.patch(
            type(action.subject),
            metadata.name,
            metadata.namespace or None,
            {**action.patch, "metadata": {**action.patch.get("metadata", {}), **preconditions}},
            patch_type="strategic" if action.strategic else "merge",
            subresource=action.subresource,
        )
        if action.unless_changed:
            self._written[metadata.uid] = changed.metadata.resource_version
        self._observe(changed)

    async def _create(self, controller: str, action: Create, owner: Any | None) -> None:
        namespace = action.document["metadata"].get("namespace")
        if self._needs_accounts and action.kind is Pod:
            self._check_account(namespace, action.document)
        try:
            created: Any = await self._api.create_document(action.kind, namespace, action.document)
        except ApiError as error:
            if action.optional and error.code == _CONFLICT:
                return
            raise
        self._observe(created)
        if action.reports and owner is not None:
            text = f"Created {_noun(created)}: {created.metadata.name}"
            self._record(controller, RecordEvent(owner, "SuccessfulCreate", text))

    def _check_account(self, namespace: str, pod: Mapping[str, Any]) -> None:
        """Raises ApiError 403 if the service account of a new pod does not exist."""
        name = pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT
        if name == _DEFAULT_ACCOUNT or self._document(ServiceAccount, name, namespace) is not None:
            return
        raise missing_account(pod["metadata"], namespace, name)

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
        self._observe_deletion(subject)

    def _observe_deletion(self, subject: Any) -> None:
        """Update the index after a deletion: the object is gone, or it is terminating."""
        metadata = subject.metadata
        try:
            document = self._api.document(type(subject), metadata.name, metadata.namespace or None)
        except ApiError:
            document = {"metadata": {"uid": ""}}
        if document["metadata"]["uid"] != metadata.uid:
            self._objects.mark_deleted(metadata.uid)
        else:
            self._observe(msgspec.convert(document, type(subject)))

    def _record(self, controller: str, event: RecordEvent) -> None:
        if self._events is not None:
            kind = "Warning" if event.warning else "Normal"
            self._events(controller, event.subject, kind, event.reason, event.message)


def _noun(subject: Any) -> str:
    """Return the word for a kind in events, as in `Created pod: web-1`."""
    word: str = type(subject).kind.lower()
    return word
