"""PodGroups: kept while pods of them are there (docs/reference/09 §15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import ActionPlan, Patch

__all__ = ["group_of", "plan_protection"]

_PROTECTION = "scheduling.k8s.io/podgroup-protection"
_FINISHED = ("Succeeded", "Failed")


def group_of(objects: ObjectIndex, pod: Pod) -> PodGroup | None:
    """The group that a pod names, if it is there."""
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
    """Let a group go that is to be deleted once no pod of it may still run."""
    metadata = owner.metadata
    if metadata.deletion_timestamp is None or _PROTECTION not in metadata.finalizers:
        return ActionPlan()
    for pod in objects.within(Pod, metadata.namespace):
        if group_of(objects, pod) is owner and pod.status.phase not in _FINISHED:
            return ActionPlan()
    left = [each for each in metadata.finalizers if each != _PROTECTION]
    return ActionPlan([Patch(owner, {"metadata": {"finalizers": left or None}})])
