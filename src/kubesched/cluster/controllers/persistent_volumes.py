"""Claims find volumes, volumes keep claims, and both are kept while somebody uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import PersistentVolume, PersistentVolumeClaim, StorageClass
from kubesched.api.labels import Selector
from kubesched.api.quantity import parse_quantity
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Delete,
    Patch,
    RecordEvent,
    status_patch,
)
from kubesched.cluster.controllers.volume_provisioning import PROVISIONER, plan_provisioning

__all__ = ["plan_claim_binding", "plan_volume"]

Json = dict[str, Any]

_CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
_VOLUME_PROTECTION = "kubernetes.io/pv-protection"
_COMPLETED = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_FINISHED = ("Succeeded", "Failed")


# Claims


def plan_claim_binding(
    objects: ObjectIndex, claim: PersistentVolumeClaim, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    metadata = claim.metadata
    if metadata.deletion_timestamp is not None:
        if _CLAIM_PROTECTION in metadata.finalizers and not _is_used(objects, claim):
            kept = [each for each in metadata.finalizers if each != _CLAIM_PROTECTION]
            return ActionPlan([Patch(claim, {"metadata": {"finalizers": kept or None}})])
        return ActionPlan()
    if _CLAIM_PROTECTION not in metadata.finalizers:
        finalizers = [*metadata.finalizers, _CLAIM_PROTECTION]
        return ActionPlan([Patch(claim, {"metadata": {"finalizers": finalizers}})])
    if _COMPLETED in metadata.annotations:
        return _bound_claim(objects, claim, document)
    if claim.spec.volume_name:
        volume: PersistentVolume | None = objects.find(PersistentVolume, "", claim.spec.volume_name)
        if volume is None or not _may_have(volume, claim):
            return ActionPlan(status_patch(claim, document, {"phase": "Pending"}))
        return _bind(claim, volume)
    found = _promised(objects, claim)
    if found is not None:
        return _bind(claim, found)
    storage_class = _class_of(objects, claim)
    waits = storage_class is not None and storage_class.volume_binding_mode == (
        "WaitForFirstConsumer"
    )
    if waits and _SELECTED_NODE not in metadata.annotations:
        text = "waiting for first consumer to be created before binding"
        users = objects.storage.users(metadata.namespace, metadata.name)
        if (user := min((pod.metadata.name for pod in users), default="")) != "":
            text = f"waiting for pod {user} to be scheduled"
            return ActionPlan([RecordEvent(claim, "WaitForPodScheduled", text)])
        return ActionPlan([RecordEvent(claim, "WaitForFirstConsumer", text)])
    if not waits and (best := _best_match(objects, claim)) is not None:
        return _bind(claim, best)
    return _unprovided(objects, claim, storage_class, now_ns)


def _is_used(objects: ObjectIndex, claim: PersistentVolumeClaim) -> bool:
    users = objects.storage.users(claim.metadata.namespace, claim.metadata.name)
    return any(pod.status.phase not in _FINISHED for pod in users)


def _class_of(objects: ObjectIndex, claim: PersistentVolumeClaim) -> StorageClass | None:
    name = claim.spec.storage_class_name
    return objects.find(StorageClass, "", name) if name else None


def _unprovided(
    objects: ObjectIndex,
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    now_ns: int,
) -> ActionPlan:
    """No volume that is there will do."""
    name = claim.spec.storage_class_name
    if not name:
        text = "no persistent volumes available for this claim and no storage class is set"
        return ActionPlan([RecordEvent(claim, "FailedBinding", text)])
    if storage_class is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        return ActionPlan([RecordEvent(claim, "ProvisioningFailed", text, warning=True)])
    if storage_class.provisioner == _NO_PROVISIONER:
        text = "no persistent volumes available for this claim and no storage class is set"
        return ActionPlan([RecordEvent(claim, "FailedBinding", text)])
    return plan_provisioning(objects, claim, storage_class, now_ns)


def _bound_claim(
    objects: ObjectIndex, claim: PersistentVolumeClaim, document: Mapping[str, Any]
) -> ActionPlan:
    volume: PersistentVolume | None = objects.find(PersistentVolume, "", claim.spec.volume_name)
    if volume is None or not _is_of(volume, claim):
        if claim.status.phase == "Lost":
            return ActionPlan()
        text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        event = RecordEvent(claim, "ClaimLost", text, warning=True)
        return ActionPlan([*status_patch(claim, document, {"phase": "Lost"}), event])
    return ActionPlan(_claim_status(claim, document, volume))


def _claim_status(
    claim: PersistentVolumeClaim, document: Mapping[str, Any], volume: PersistentVolume
) -> list[Action]:
    status: Json = {
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes),
    }
    if "capacity" not in document.get("status", {}):
        status["capacity"] = dict(volume.spec.capacity)
        if volume.spec.volume_attributes_class_name:
            name = volume.spec.volume_attributes_class_name
            status["currentVolumeAttributesClassName"] = name
    return status_patch(claim, document, status)


def _is_of(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is kept for a claim, and knows it well."""
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid == claim.metadata.uid


def _names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in (None, "", claim.metadata.uid)
    )


def _may_have(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.spec.claim_ref is None or _names(volume, claim)


def _promised(objects: ObjectIndex, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """A volume that somebody, an administrator or the scheduler, has set aside for the claim."""
    volumes = [
        each
        for each in objects.storage.promised(claim.metadata.namespace, claim.metadata.name)
        if _names(each, claim) and each.metadata.deletion_timestamp is None
    ]
    return min(volumes, key=_size_and_name, default=None)


def _best_match(objects: ObjectIndex, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """The smallest volume that has what the claim asks for."""
    wanted = parse_quantity(claim.spec.resources.requests.get("storage", "0"))
    selector = None
    if claim.spec.selector is not None:
        selector = Selector.from_label_selector(claim.spec.selector)
    fitting = [
        each
        for each in objects.storage.free(claim.spec.storage_class_name or "")
        if each.metadata.deletion_timestamp is None
        and (each.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and (each.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and set(claim.spec.access_modes) <= set(each.spec.access_modes)
        and parse_quantity(each.spec.capacity.get("storage", "0")) >= wanted
        and (selector is None or selector.matches(each.metadata.labels))
    ]
    return min(fitting, key=_size_and_name, default=None)


def _size_and_name(volume: PersistentVolume) -> tuple[Any, str]:
    return parse_quantity(volume.spec.capacity.get("storage", "0")), volume.metadata.name


def _bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> ActionPlan:
    """Make each name the other: the volume first, so that nobody else gets it."""
    actions: list[Action] = []
    metadata = claim.metadata
    if not _is_of(volume, claim):
        reference = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
        patch: Json = {"spec": {"claimRef": reference}}
        if volume.spec.claim_ref is None:
            patch["metadata"] = {"annotations": {_BY_CONTROLLER: "yes"}}
        actions.append(Patch(volume, patch))
    notes = {_COMPLETED: "yes"}
    patch = {"metadata": {"annotations": notes}}
    if not claim.spec.volume_name:
        notes[_BY_CONTROLLER] = "yes"
        patch["spec"] = {"volumeName": volume.metadata.name}
    actions.append(Patch(claim, patch))
    # The status follows at the next look, when both are known to be so.
    return ActionPlan(actions)


# Volumes


def plan_volume(
    objects: ObjectIndex, volume: PersistentVolume, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    metadata = volume.metadata
    claim = _claim_of(objects, volume)
    if metadata.deletion_timestamp is not None:
        if _VOLUME_PROTECTION in metadata.finalizers and claim is None:
            kept = [each for each in metadata.finalizers if each != _VOLUME_PROTECTION]
            return ActionPlan([Patch(volume, {"metadata": {"finalizers": kept or None}})])
        return ActionPlan()
    if _VOLUME_PROTECTION not in metadata.finalizers:
        finalizers = [*metadata.finalizers, _VOLUME_PROTECTION]
        return ActionPlan([Patch(volume, {"metadata": {"finalizers": finalizers}})])
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return ActionPlan(status_patch(volume, document, {"phase": "Available"}))
    if claim is not None:
        if claim.spec.volume_name == metadata.name:
            return ActionPlan(status_patch(volume, document, {"phase": "Bound"}))
        return ActionPlan()
    actions = status_patch(volume, document, {"phase": "Released"})
    policy = volume.spec.persistent_volume_reclaim_policy
    if policy == "Delete" and metadata.annotations.get(_PROVISIONED_BY) == PROVISIONER:
        actions.append(Delete(volume))
    elif policy == "Recycle":
        actions.append(Patch(volume, {"spec": {"claimRef": None}}))
    return ActionPlan(actions)


def _claim_of(objects: ObjectIndex, volume: PersistentVolume) -> PersistentVolumeClaim | None:
    """The claim that a volume is kept for, if it is still there."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return None
    claim: PersistentVolumeClaim | None = objects.find(
        PersistentVolumeClaim, reference.namespace or "", reference.name
    )
    return claim if claim is not None and claim.metadata.uid == reference.uid else None
