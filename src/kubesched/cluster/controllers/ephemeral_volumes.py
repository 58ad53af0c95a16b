"""Claims that live and die with a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import PersistentVolumeClaim, Pod
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference, is_active
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, RecordEvent

__all__ = ["plan_ephemeral_claims"]


def plan_ephemeral_claims(
    objects: ObjectIndex, pod: Pod, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Make the claims that stand in a pod's volumes."""
    if not is_active(pod):
        return ActionPlan()
    actions: list[Action] = []
    for volume in document["spec"].get("volumes", ()):
        template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
        if template is None:
            continue
        name = f"{pod.metadata.name}-{volume['name']}"
        held = objects.find(PersistentVolumeClaim, pod.metadata.namespace, name)
        if held is not None:
            if not any(owner.uid == pod.metadata.uid for owner in held.metadata.owner_references):
                key = f"{pod.metadata.namespace}/{name}"
                text = f"PVC {key} was not created for pod (pod is not owner)"
                actions.append(RecordEvent(pod, "FailedBinding", text, warning=True))
            continue
        inner = template.get("metadata", {})
        metadata = {
            **{key: inner[key] for key in ("labels", "annotations") if inner.get(key)},
            "name": name,
            "namespace": pod.metadata.namespace,
            "ownerReferences": [controller_reference(pod)],
        }
        made = {"metadata": metadata, "spec": template.get("spec", {})}
        actions.append(Create(PersistentVolumeClaim, made, optional=True))
    return ActionPlan(actions)
