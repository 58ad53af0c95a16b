"""Ephemeral volumes: claims that are created for a pod and deleted with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import PersistentVolumeClaim, Pod
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference, is_active
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, RecordEvent
from kubesched.cluster.controllers.triggers import OwnChange, controlled

__all__ = ["EPHEMERAL_VOLUME_CONTROLLER", "plan_ephemeral_claims"]


def plan_ephemeral_claims(
    objects: ObjectIndex, pod: Pod, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Create the claims for the claim templates in a pod's volumes."""
    if not is_active(pod):
        return ActionPlan()
    actions: list[Action] = []
    for volume in document["spec"].get("volumes", ()):
        template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
        if template is None:
            continue
        name = f"{pod.metadata.name}-{volume['name']}"
        claim = objects.find(PersistentVolumeClaim, pod.metadata.namespace, name)
        if claim is not None:
            if not any(owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references):
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
        claim_document = {"metadata": metadata, "spec": template.get("spec", {})}
        actions.append(Create(PersistentVolumeClaim, claim_document, optional=True))
    return ActionPlan(actions)


def _has_ephemeral_volumes(pod: Pod, _before: Pod | None = None) -> bool:
    volumes = pod.spec.volumes
    return bool(volumes) and any(volume.ephemeral is not None for volume in volumes)


EPHEMERAL_VOLUME_CONTROLLER = Controller(
    "ephemeral-volume-controller",
    Pod,
    plan_ephemeral_claims,
    triggers=(OwnChange(Pod, _has_ephemeral_volumes), controlled(PersistentVolumeClaim, by=Pod)),
    applies=_has_ephemeral_volumes,
)
