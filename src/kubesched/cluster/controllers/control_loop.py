"""Follows the cluster, asks for plans, and carries them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from kubesched.api import (
    ApiAccess,
    ApiError,
    DaemonSet,
    Deployment,
    Job,
    Node,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ResourceClaim,
    ResourceClaimTemplate,
    StatefulSet,
)
from kubesched.api.access import ObjectList
from kubesched.api.base import ApiObject
from kubesched.cluster.controllers.cluster_view import View, controller_of
from kubesched.cluster.controllers.daemon_sets import plan_daemon_set
from kubesched.cluster.controllers.deployments import plan_deployment
from kubesched.cluster.controllers.disruption_budgets import plan_disruption_budget
from kubesched.cluster.controllers.garbage_collection import garbage
from kubesched.cluster.controllers.jobs import plan_job
from kubesched.cluster.controllers.plans import Action, Create, Delete, Patch, Plan
from kubesched.cluster.controllers.replica_sets import plan_replica_set
from kubesched.cluster.controllers.resource_claims import plan_claim, plan_claims_of_pod
from kubesched.util.clock import MILLISECOND, SECOND, Clock
from kubesched.util.components import StopSwitch
from kubesched.util.logging import get_logger

__all__ = ["Controllers", "DocumentAccess"]

T = TypeVar("T", bound=msgspec.Struct)
Json = dict[str, Any]

_NOT_FOUND, _CONFLICT, _GONE = 404, 409, 410
_SETTLING_NS = 100 * MILLISECOND
"""Budgets look at all pods: they wait for changes that come together."""
_PAUSE_NS = 10 * MILLISECOND
"""Between two plans for one object: a plan looks at all that it owns."""
_FIRST_RETRY_NS, _LAST_RETRY_NS = 10 * MILLISECOND, 10 * SECOND

log = get_logger(__name__)

_PLANS: Mapping[type[ApiObject], Callable[[View, Any, Mapping[str, Any], int], Plan]] = {
    Deployment: plan_deployment,
    ReplicaSet: plan_replica_set,
    DaemonSet: plan_daemon_set,
    Job: plan_job,
    PodDisruptionBudget: plan_disruption_budget,
    Pod: plan_claims_of_pod,
    ResourceClaim: plan_claim,
}
_FOLLOWED: tuple[type[ApiObject], ...] = (*_PLANS, StatefulSet, Node, ResourceClaimTemplate)
_OWNERS: Mapping[str, type[ApiObject]] = {kind.kind: kind for kind in _FOLLOWED}


class DocumentAccess(ApiAccess, Protocol):
    """Access to objects, and to all of their JSON: templates have fields that no type declares."""

    def document(
        self, kind: type[msgspec.Struct], name: str, namespace: str | None = None
    ) -> Mapping[str, Any]: ...

    async def create_document(
        self, kind: type[T], namespace: str | None, document: Mapping[str, Any]
    ) -> T: ...


class Controllers:
    """The controllers of Deployments, ReplicaSets, DaemonSets, Jobs and PodDisruptionBudgets.

    And garbage collection: what is owned goes with its last owner.
    """

    def __init__(self, api: DocumentAccess, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._view = View()
        self._due: dict[str, int] = {}
        """When to plan for an owner next, by its uid."""
        self._planned: dict[str, int] = {}
        """When an object was last planned for, by its uid."""
        self._failures: dict[str, int] = {}
        self._budgets: dict[str, str] = {}
        """Namespaces of budgets, by their uids."""
        self._changed = asyncio.Event()
        self._stopping = StopSwitch()
        self._unsynced = set(_FOLLOWED)

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        self._stopping.set()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for kind in _FOLLOWED:
                name = f"Controllers.{kind.kind}"
                tasks.create_task(self._follow(kind), name=name)
            while True:
                self._changed.clear()
                await self._plan_what_is_due()
                now_ns = self._clock.now_ns()
                next_ns = min(self._due.values(), default=None)
                # Plans before all is known would make pods that are already there.
                waits = next_ns is None or bool(self._unsynced)
                timeout_ns = None if waits else max(0, (next_ns or 0) - now_ns)
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
        for uid in self._view.uids(kind) - there:
            await self._forget(self._view.get(uid))
        for each in listed.items:
            self._observe(each)
        self._unsynced.discard(kind)
        self._changed.set()
        async for event in self._api.watch(kind, resource_version=listed.resource_version):
            if event.object is None:
                continue
            if event.type == "DELETED":
                await self._forget(event.object)
            else:
                self._observe(event.object)

    def _observe(self, subject: Any) -> None:
        if self._view.observe(subject):
            if isinstance(subject, PodDisruptionBudget):
                self._budgets[subject.metadata.uid] = subject.metadata.namespace
            self._touch(subject)
            if subject.metadata.owner_references:
                self._soon(subject.metadata.uid)

    async def _forget(self, subject: Any) -> None:
        uid = subject.metadata.uid
        dependents = self._view.dependents(uid)
        self._view.forget(uid)
        self._budgets.pop(uid, None)
        self._touch(subject)
        for known in (self._due, self._planned, self._failures):
            known.pop(uid, None)
        for each in dependents:
            self._soon(each.metadata.uid)

    def _touch(self, subject: Any) -> None:
        """Look again at whom a change concerns: itself, its controller, on nodes all daemons."""
        if isinstance(subject, Pod):
            # Most pods ask for no devices, and there are many.
            if subject.spec.resource_claims:
                self._soon(subject.metadata.uid)
                self._touch_claims(subject)
        elif type(subject) in _PLANS:
            self._soon(subject.metadata.uid)
        owner = controller_of(subject)
        if owner is not None:
            self._soon(owner.uid)
        if isinstance(subject, Node):
            for each in self._view.all(DaemonSet):
                self._soon(each.metadata.uid)
        elif not isinstance(subject, PodDisruptionBudget):
            for uid, namespace in self._budgets.items():
                if namespace == subject.metadata.namespace:
                    self._due.setdefault(uid, self._clock.now_ns() + _SETTLING_NS)
                    self._changed.set()

    def _touch_claims(self, pod: Pod) -> None:
        for each in self._view.all(ResourceClaim):
            if any(user.uid == pod.metadata.uid for user in each.status.reserved_for):
                self._soon(each.metadata.uid)

    def _soon(self, uid: str) -> None:
        due_ns = self._planned.get(uid, -_PAUSE_NS) + _PAUSE_NS
        self._due[uid] = min(due_ns, self._due.get(uid, due_ns))
        self._changed.set()

    # What is to be done

    async def _plan_what_is_due(self) -> None:
        if self._unsynced:
            return
        now_ns = self._clock.now_ns()
        for uid in [uid for uid, due_ns in self._due.items() if due_ns <= now_ns]:
            del self._due[uid]
            subject = self._view.get(uid)
            if subject is not None:
                self._planned[uid] = now_ns
                await self._attempt(subject, now_ns)

    async def _attempt(self, subject: Any, now_ns: int) -> None:
        uid = subject.metadata.uid
        try:
            for deletion in garbage([subject], self._is_gone):
                await self._carry_out(deletion)
                return
            await self._plan(subject, now_ns)
            self._failures.pop(uid, None)
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                log.warning("A controller failed, trying again", object=subject, error=error)
            failures = self._failures.get(uid, 0)
            self._failures[uid] = failures + 1
            delay_ns = min(_FIRST_RETRY_NS << min(failures, 20), _LAST_RETRY_NS)
            self._due.setdefault(uid, now_ns + delay_ns)

    async def _plan(self, subject: Any, now_ns: int) -> None:
        plan_for = _PLANS.get(type(subject))
        if plan_for is None or (isinstance(subject, Pod) and not subject.spec.resource_claims):
            return
        metadata = subject.metadata
        document = self._api.document(type(subject), metadata.name, metadata.namespace)
        if document["metadata"]["uid"] != metadata.uid:
            return
        # The document may be newer than what a watch has brought: decide by the newest.
        subject = msgspec.convert(document, type(subject))
        if isinstance(subject, ResourceClaim):
            self._look_up_users(subject)
        plan = plan_for(self._view, subject, document, now_ns)
        for action in plan.actions:
            await self._carry_out(action)
        if plan.again_ns is not None:
            self._due.setdefault(metadata.uid, plan.again_ns)

    def _look_up_users(self, claim: ResourceClaim) -> None:
        """See to it that a pod that a watch has not yet brought does not count as gone."""
        for user in claim.status.reserved_for:
            if user.resource != "pods" or self._view.get(user.uid) is not None:
                continue
            try:
                document = self._api.document(Pod, user.name, claim.metadata.namespace)
            except ApiError:
                continue
            if document["metadata"]["uid"] == user.uid:
                self._view.observe(msgspec.convert(document, Pod))

    def _is_gone(self, owner: OwnerReference) -> bool:
        """Whether an owner of a kind that is followed here does not exist."""
        kind = _OWNERS.get(owner.kind)
        if kind is None or kind.api_version != owner.api_version:
            return False
        return self._view.get(owner.uid) is None

    async def _carry_out(self, action: Action) -> None:
        match action:
            case Create(kind, document):
                namespace = document["metadata"].get("namespace")
                made = await self._api.create_document(kind, namespace, document)
                self._observe(made)
            case Delete(subject):
                await self._delete(subject)
            case Patch(subject, patch, subresource):
                metadata = subject.metadata
                changed = await self._api.patch(
                    type(subject),
                    metadata.name,
                    metadata.namespace or None,
                    {**patch, "metadata": {**patch.get("metadata", {}), "uid": metadata.uid}},
                    patch_type="merge",
                    subresource=subresource,
                )
                self._observe(changed)

    async def _delete(self, subject: Any) -> None:
        metadata = subject.metadata
        try:
            await self._api.delete(
                type(subject), metadata.name, metadata.namespace or None, uid=metadata.uid
            )
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise
        self._view.expect_gone(metadata.uid)
