"""Whom a change concerns: which objects are to be looked at again, and how soon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kubesched.api import (
    DaemonSet,
    Deployment,
    Job,
    Lease,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceSlice,
    Service,
    StatefulSet,
)
from kubesched.api.apps import ControllerRevision
from kubesched.api.base import ApiObject
from kubesched.api.core import ConfigMap, ServiceAccount
from kubesched.api.storage import StorageClass
from kubesched.api.taints import NO_EXECUTE
from kubesched.api.volume import PersistentVolume, PersistentVolumeClaim
from kubesched.cluster.controllers.adoption import selector_of
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_of
from kubesched.cluster.controllers.planners import PLANNED
from kubesched.cluster.controllers.pod_group_protection import group_of
from kubesched.cluster.controllers.storage_index import claims_of
from kubesched.cluster.nodes.node_agent import LEASE_NAMESPACE

__all__ = ["LOST_NODE", "concerned", "settles"]

LOST_NODE = "lost-node/"
"""Begins the key of a node that does not exist and yet has pods."""

_NOBODY: Mapping[str, Any] = {}
_ADOPT_PODS: tuple[type[ApiObject], ...] = (
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
)


def concerned(
    objects: ObjectIndex, subject: Any, before: Any | None, *, gone: bool
) -> Iterable[str]:
    """Keys of those to look at soon."""
    if type(subject) is Pod:
        if _is_alone(objects, subject, before):
            return _concerned_by_place(objects, subject, before)
        return _concerned_by_pod(objects, subject, before, gone=gone)
    return _concerned_by_other(objects, subject, before, gone=gone)


def _concerned_by_other(
    objects: ObjectIndex, subject: Any, before: Any | None, *, gone: bool
) -> Iterator[str]:
    kind = type(subject)
    if kind is Node:
        yield from _concerned_by_node(objects, subject, before, gone=gone)
    elif kind in PLANNED and not gone:
        yield subject.metadata.uid
    if kind is PodGroup and objects.has_group_claims:
        yield from _concerned_by_group(objects, subject, gone=gone)
    owner = controller_of(subject)
    if owner is not None and kind is not ControllerRevision:
        # A version that somebody changes changes nothing until its owner has something to do.
        yield owner.uid
    if kind is Job and gone:
        for pod in objects.controlled(subject.metadata.uid, Pod):
            yield pod.metadata.uid
    if before is not None and (owned := controller_of(before)) is not None and owned != owner:
        yield owned.uid
    if kind is ReplicaSet and owner is None:
        yield from _adopters(objects, subject, (Deployment,))
    elif kind in (PersistentVolumeClaim, PersistentVolume, StorageClass):
        yield from _concerned_by_storage(objects, subject)
    elif kind is ResourceSlice and gone:
        node = objects.find(Node, "", subject.spec.node_name or "")
        if node is not None:
            yield node.metadata.uid
    elif kind is Lease and (gone or before is None):
        # Renewals concern nobody: a node is looked at when its lease would have run out.
        node = objects.find(Node, "", subject.metadata.name)
        if node is not None and subject.metadata.namespace == LEASE_NAMESPACE:
            yield node.metadata.uid
    elif kind in (ServiceAccount, ConfigMap):
        home = objects.find(Namespace, "", subject.metadata.namespace)
        if home is not None and subject.metadata.name in ("default", "kube-root-ca.crt"):
            yield home.metadata.uid


def settles(objects: ObjectIndex, subject: Any) -> Sequence[str]:
    """Keys of those that look at a whole namespace: a little later, once for many changes."""
    kind = type(subject)
    if kind in (Node, Lease) or not subject.metadata.namespace:
        return ()
    here = objects.uids_within(subject.metadata.namespace)
    budgets = here.get(PodDisruptionBudget, _NOBODY) if kind is not PodDisruptionBudget else _NOBODY
    services = here.get(Service, _NOBODY) if kind is Pod else _NOBODY
    return (*budgets, *services) if budgets or services else ()


def _concerned_by_pod(
    objects: ObjectIndex, pod: Pod, before: Pod | None, *, gone: bool
) -> Iterator[str]:
    metadata, spec = pod.metadata, pod.spec
    if not gone and (spec.resource_claims or spec.volumes or metadata.finalizers):
        yield metadata.uid
    yield from objects.reserved_by(metadata.uid)
    for name in _device_claims(pod):
        held = objects.find(ResourceClaim, metadata.namespace, name)
        if held is not None:
            yield held.metadata.uid
    if gone:
        # One that was made for extended resources, of which the pod may never have heard.
        for claim in objects.controlled(metadata.uid, ResourceClaim):
            yield claim.metadata.uid
    if spec.volumes:
        for name in claims_of(pod):
            used = objects.find(PersistentVolumeClaim, metadata.namespace, name)
            if used is not None and (used.metadata.deletion_timestamp or before is None):
                yield used.metadata.uid
    owner = controller_of(pod)
    if owner is None and metadata.labels:
        yield from _adopters(objects, pod, _ADOPT_PODS)
    if spec.scheduling_group is not None and (group := group_of(objects, pod)) is not None:
        yield group.metadata.uid
    yield from _concerned_by_place(objects, pod, before)
    if owner is not None:
        yield owner.uid
        if gone:
            # A Deployment that recreates its pods waits for the last of the old ones.
            maker = objects.get(owner.uid)
            above = None if maker is None else controller_of(maker)
            if above is not None:
                yield above.uid
    if before is not None and before.metadata.owner_references != metadata.owner_references:
        former = controller_of(before)
        if former is not None and former != owner:
            yield former.uid


def _is_alone(objects: ObjectIndex, pod: Pod, before: Pod | None) -> bool:
    """Whether a pod has to do with nothing but its node, as most pods of a simulation.

    To find that out takes less time than to ask everybody else.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    return not (
        metadata.owner_references
        or metadata.finalizers
        or spec.volumes
        or spec.resource_claims
        or spec.scheduling_group is not None
        or status.resource_claim_statuses
        or status.extended_resource_claim_status is not None
        or (before is not None and before.metadata.owner_references)
        or not objects.uids_within(metadata.namespace).keys().isdisjoint(_ADOPT_PODS)
        or objects.has_claims_of(metadata.uid)
    )


def _concerned_by_place(objects: ObjectIndex, pod: Pod, before: Pod | None) -> Sequence[str]:
    """The node that a pod has come to, if that may not keep it."""
    node = pod.spec.node_name
    if not node or (before is not None and not _moved(before, pod)):
        return ()
    home: Node | None = objects.find(Node, "", node)
    if home is None:
        return (LOST_NODE + node,)
    taints = home.spec.taints
    if taints and any(each.effect == NO_EXECUTE for each in taints):
        return (home.metadata.uid,)
    return ()


def _concerned_by_group(objects: ObjectIndex, group: PodGroup, *, gone: bool) -> Iterator[str]:
    """Pods that wait for claims of their group, and claims that it had."""
    if gone:
        yield from objects.reserved_by(group.metadata.uid)
        return
    for pod in objects.within(Pod, group.metadata.namespace):
        reference = pod.spec.scheduling_group
        if (
            pod.spec.resource_claims
            and reference is not None
            and reference.pod_group_name == group.metadata.name
        ):
            yield pod.metadata.uid


def _device_claims(pod: Pod) -> Sequence[str]:
    """Names of the claims for devices that a pod uses."""
    given, made = pod.spec.resource_claims, pod.status.resource_claim_statuses
    extended = pod.status.extended_resource_claim_status
    if not given and not made and extended is None:
        return ()
    names = [each.resource_claim_name for each in given]
    names += [each.resource_claim_name for each in made]
    if extended is not None:
        names.append(extended.resource_claim_name)
    return [name for name in names if name]


def _concerned_by_storage(objects: ObjectIndex, subject: Any) -> Iterator[str]:
    """The other side of a claim or volume, and claims that still look for one."""
    if isinstance(subject, PersistentVolumeClaim):
        volume = objects.find(PersistentVolume, "", subject.spec.volume_name)
        if volume is not None:
            yield volume.metadata.uid
        return
    if isinstance(subject, PersistentVolume):
        name = subject.spec.storage_class_name or ""
        reference = subject.spec.claim_ref
        if reference is not None:
            claim = objects.find(PersistentVolumeClaim, reference.namespace or "", reference.name)
            if claim is not None:
                yield claim.metadata.uid
            return
    else:
        name = subject.metadata.name
    for claim in objects.all(PersistentVolumeClaim):
        if claim.status.phase != "Bound" and (claim.spec.storage_class_name or "") == name:
            yield claim.metadata.uid


def _moved(before: Pod, pod: Pod) -> bool:
    """Whether a pod has got a node, other tolerations, or an end."""
    if before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp:
        return True
    return before.spec is not pod.spec and before.spec != pod.spec


def _concerned_by_node(
    objects: ObjectIndex, node: Node, before: Node | None, *, gone: bool
) -> Iterator[str]:
    if gone or before is None:
        yield LOST_NODE + node.metadata.name
    if not gone:
        if (
            before is None
            or before.spec != node.spec
            or before.metadata.annotations != node.metadata.annotations
            or _statuses(before) != _statuses(node)
        ):
            yield node.metadata.uid
        if (
            before is not None
            and before.spec == node.spec
            and before.metadata.labels == node.metadata.labels
        ):
            return
    for each in objects.all(DaemonSet):
        yield each.metadata.uid


def _statuses(node: Node) -> list[tuple[str, str]]:
    return [(each.type, each.status) for each in node.status.conditions]


def _adopters(
    objects: ObjectIndex, subject: Any, kinds: tuple[type[ApiObject], ...]
) -> Iterator[str]:
    """Owners that select an object which has no controller."""
    here = objects.uids_within(subject.metadata.namespace)
    for kind in kinds:
        for uid in here.get(kind, ()):
            if selector_of(objects.get(uid)).matches(subject.metadata.labels):
                yield uid
