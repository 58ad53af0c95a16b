"""PodGroup protection: a finalizer protects a group while it has pods (docs/reference/09 §15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import ActionPlan, Patch
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange

__all__ = ["POD_GROUP_PROTECTION_CONTROLLER", "group_of", "plan_protection"]

_PROTECTION = "scheduling.k8s.io/podgroup-protection"
_FINISHED = ("Succeeded", "Failed")


def group_of(objects: ObjectIndex, pod: Pod) -> PodGroup | None:
    """Return the pod group that a pod names, if it exists."""
    reference = pod.spec.scheduling_group
    if reference is None or not reference.pod_group_name:
        return None
    found: PodGroup | None = objects.find(
        PodGroup, pod.metadata.namespace, reference.pod_group_name
    )
    return found


def plan_protection(
    objects: ObjectIndex, owner: PodGroup, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Remove the finalizer of a terminating group once all of its pods have finished."""
    metadata = owner.metadata
    if metadata.deletion_timestamp is None or _PROTECTION not in metadata.finalizers:
        return ActionPlan()
    for pod in objects.within(Pod, metadata.namespace):
        if group_of(objects, pod) is owner and pod.status.phase not in _FINISHED:
            return ActionPlan()
    remaining = [each for each in metadata.finalizers if each != _PROTECTION]
    return ActionPlan(
        [Patch(owner, {"metadata": {"finalizers": remaining or None}}, unless_changed=True)]
    )


def _group_of_changed_pod(
    objects: ObjectIndex, pod: Pod, _before: Pod | None, _gone: bool
) -> tuple[str, ...]:
    if pod.spec.scheduling_group is None:
        return ()
    group = group_of(objects, pod)
    return () if group is None else (group.metadata.uid,)


POD_GROUP_PROTECTION_CONTROLLER = Controller(
    "podgroup-protection-controller",
    PodGroup,
    plan_protection,
    triggers=(OwnChange(PodGroup), RelatedChange(Pod, PodGroup, _group_of_changed_pod)),
)
