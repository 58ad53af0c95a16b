"""Which pods of a cluster cannot be moved, and why.

The rules are those of cluster autoscalers: a pod without a controller would not come back, and
local data would be lost. Pods that follow their node, such as those of a DaemonSet, do not count as
pods that keep a node in use.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from kubesched.api import (
    Job,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.pod_facts import controller_of
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["Pin", "follows_node", "why_pinned"]

_OWNERS: Final[dict[str, type[Any]]] = {
    each.__name__: each for each in (Job, ReplicaSet, ReplicationController, StatefulSet)
}
_MIRROR: Final = "kubernetes.io/config.mirror"
_SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"


def follows_node(pod: Pod) -> bool:
    """Whether the pod ends with its node, because it belongs to a DaemonSet or is a static pod."""
    owner = controller_of(pod)
    is_of_node = owner is not None and owner.kind in ("DaemonSet", "Node")
    return is_of_node or _MIRROR in pod.metadata.annotations


class Pin(NamedTuple):
    """Why a pod cannot be moved, and how a user can change that."""

    reason: str
    help: str = ""


def why_pinned(
    pod: Pod, objects: ObjectTable, policy: PlanningPolicy, profiles: Collection[str]
) -> Pin | None:
    """Return why the pod cannot be moved; None if it can."""
    annotations = pod.metadata.annotations
    safe = annotations.get(_SAFE_TO_EVICT)
    profile = pod.spec.scheduler_name or "default-scheduler"
    if policy.pinned_pods.matches(pod.metadata.labels):
        return Pin("pinned by a selector")
    if safe == "false":
        return Pin(f"annotation {_SAFE_TO_EVICT}: false", "remove the annotation")
    if annotations.get(_DO_NOT_DISRUPT) == "true":
        return Pin(f"annotation {_DO_NOT_DISRUPT}: true", "remove the annotation")
    if profile not in profiles:
        return Pin(f"scheduler {profile} is not part of the configuration", "--config FILE")
    owner = controller_of(pod)
    if owner is not None and owner.uid in policy.pinned_owners:
        return Pin("its replacement did not become ready in the rehearsal")
    if pin := _owner_problem(pod, objects):
        return pin
    if pod.spec.resource_claims:
        return Pin("it has claims to devices")
    if not policy.moves_local_storage and safe != "true" and _has_local_storage(pod):
        return Pin("it has local storage", "--local-storage, if its data may be lost")
    return _claim_problem(pod, objects)


def _owner_problem(pod: Pod, objects: ObjectTable) -> Pin | None:
    owner = controller_of(pod)
    if owner is None:
        help_text = "save what it has, then delete it"
        return Pin("it has no controller that would create it again", help_text)
    kind = _OWNERS.get(owner.kind)
    if kind is None:
        return Pin(f"its controller {owner.kind} cannot be rehearsed")
    found = objects.get(kind, owner.name, pod.metadata.namespace)
    if found is None:
        return Pin(f"its {owner.kind} {owner.name} is not among the objects")
    template = found.spec.template
    if template is not None and template.spec.scheduling_gates:
        return Pin(f"the template of its {owner.kind} has scheduling gates")
    return None


def _has_local_storage(pod: Pod) -> bool:
    return any(
        volume.host_path is not None
        or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")
        for volume in pod.spec.volumes
    )


def _claim_problem(pod: Pod, objects: ObjectTable) -> Pin | None:
    for volume in pod.spec.volumes:
        if volume.ephemeral is not None:
            return Pin("it has an ephemeral volume, which would be created again")
        source = volume.persistent_volume_claim
        if source is None:
            continue
        claim = objects.get(PersistentVolumeClaim, source.claim_name, pod.metadata.namespace)
        if claim is None:
            return Pin(f"its volume claim {source.claim_name} is not among the objects")
    return None
