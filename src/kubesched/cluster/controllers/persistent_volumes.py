"""Persistent volumes and claims: binding, phases, reclaiming, and protection while in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from kubesched.api.labels import Selector
from kubesched.api.quantity import parse_quantity
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Delete,
    Patch,
    RecordEvent,
    status_patch,
)
from kubesched.cluster.controllers.storage_index import claims_of
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange
from kubesched.cluster.controllers.volume_provisioning import PROVISIONER, plan_provisioning

__all__ = ["CLAIM_CONTROLLER", "VOLUME_CONTROLLER", "plan_claim_binding", "plan_volume"]

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
    """Protect a claim, bind it to a volume, or have a volume provisioned."""
    metadata = claim.metadata
    is_protected = _CLAIM_PROTECTION in metadata.finalizers
    if metadata.deletion_timestamp is not None:
        if is_protected and not _is_used(objects, claim):
            return ActionPlan([_remove_finalizer(claim, _CLAIM_PROTECTION)])
        return ActionPlan()
    if not is_protected:
        return ActionPlan([_add_finalizer(claim, _CLAIM_PROTECTION)])
    if _COMPLETED in metadata.annotations:
        return _plan_bound_claim(objects, claim, document)
    if claim.spec.volume_name:
        volume: PersistentVolume | None = objects.find(PersistentVolume, "", claim.spec.volume_name)
        if volume is None or not _is_available_to(volume, claim):
            return ActionPlan(status_patch(claim, document, {"phase": "Pending"}))
        if volume.spec.claim_ref is None and (mismatch := _mismatch(claim, volume)):
            text = f'Cannot bind to requested volume "{volume.metadata.name}": {mismatch}'
            event = RecordEvent(claim, "VolumeMismatch", text, warning=True)
            return ActionPlan([*status_patch(claim, document, {"phase": "Pending"}), event])
        return _bind(claim, volume)
    return _plan_unbound_claim(objects, claim, now_ns)


def _plan_unbound_claim(
    objects: ObjectIndex, claim: PersistentVolumeClaim, now_ns: int
) -> ActionPlan:
    """Bind a claim that names no volume, or wait for its first consumer, or provision."""
    reserved = _reserved_volume(objects, claim)
    if reserved is not None:
        return _bind(claim, reserved)
    storage_class = _class_of(objects, claim)
    if storage_class is None or storage_class.volume_binding_mode != "WaitForFirstConsumer":
        best = _best_match(objects, claim)
        if best is not None:
            return _bind(claim, best)
    elif _SELECTED_NODE not in claim.metadata.annotations:
        return ActionPlan([_waiting_event(objects, claim)])
    return _plan_missing_volume(objects, claim, storage_class, now_ns)


def _waiting_event(objects: ObjectIndex, claim: PersistentVolumeClaim) -> RecordEvent:
    users = objects.storage.users(claim.metadata.namespace, claim.metadata.name)
    if (user := min((pod.metadata.name for pod in users), default="")) != "":
        text = f"waiting for pod {user} to be scheduled"
        return RecordEvent(claim, "WaitForPodScheduled", text)
    text = "waiting for first consumer to be created before binding"
    return RecordEvent(claim, "WaitForFirstConsumer", text)


def _remove_finalizer(subject: Any, finalizer: str) -> Patch:
    remaining = [each for each in subject.metadata.finalizers if each != finalizer]
    return Patch(subject, {"metadata": {"finalizers": remaining or None}}, unless_changed=True)


def _add_finalizer(subject: Any, finalizer: str) -> Patch:
    return Patch(
        subject,
        {"metadata": {"finalizers": [*subject.metadata.finalizers, finalizer]}},
        unless_changed=True,
    )


def _is_used(objects: ObjectIndex, claim: PersistentVolumeClaim) -> bool:
    users = objects.storage.users(claim.metadata.namespace, claim.metadata.name)
    # A kubelet starts no pod whose claim is being deleted, so pods without a node do not count.
    return any(pod.spec.node_name and pod.status.phase not in _FINISHED for pod in users)


def _class_of(objects: ObjectIndex, claim: PersistentVolumeClaim) -> StorageClass | None:
    name = claim.spec.storage_class_name
    return objects.find(StorageClass, "", name) if name else None


def _plan_missing_volume(
    objects: ObjectIndex,
    claim: PersistentVolumeClaim,
    storage_class: StorageClass | None,
    now_ns: int,
) -> ActionPlan:
    """Provision a volume for a claim, or record why none can be provisioned."""
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


def _plan_bound_claim(
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
    """Whether the `claimRef` of a volume has the uid of a claim."""
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid == claim.metadata.uid


def _names(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the `claimRef` of a volume names a claim, with its uid or without any."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
        and reference.uid in (None, "", claim.metadata.uid)
    )


def _is_available_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.spec.claim_ref is None or _names(volume, claim)


def _reserved_volume(objects: ObjectIndex, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """Return a volume whose `claimRef` an administrator or the scheduler has set to the claim."""
    volumes = [
        each
        for each in objects.storage.reserved(claim.metadata.namespace, claim.metadata.name)
        if _names(each, claim) and each.metadata.deletion_timestamp is None
    ]
    return min(volumes, key=_size_and_name, default=None)


def _best_match(objects: ObjectIndex, claim: PersistentVolumeClaim) -> PersistentVolume | None:
    """Return the smallest free volume that satisfies the claim."""
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


def _mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """Say why a volume does not satisfy the claim that names it, as the reference does."""
    wanted = parse_quantity(claim.spec.resources.requests.get("storage", "0"))
    if parse_quantity(volume.spec.capacity.get("storage", "0")) < wanted:
        return "requested PV is too small"
    if (volume.spec.storage_class_name or "") != (claim.spec.storage_class_name or ""):
        return "storageClassName does not match"
    if (volume.spec.volume_mode or "Filesystem") != (claim.spec.volume_mode or "Filesystem"):
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def _size_and_name(volume: PersistentVolume) -> tuple[Any, str]:
    return parse_quantity(volume.spec.capacity.get("storage", "0")), volume.metadata.name


def _bind(claim: PersistentVolumeClaim, volume: PersistentVolume) -> ActionPlan:
    """Let volume and claim name each other; the volume first, so no other claim gets it."""
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
    # The next plan sets the status, when the index has both changes.
    return ActionPlan(actions)


# Volumes


def plan_volume(
    objects: ObjectIndex, volume: PersistentVolume, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Protect a volume, set its phase, and reclaim it when its claim is gone."""
    metadata = volume.metadata
    claim = _claim_of(objects, volume)
    is_protected = _VOLUME_PROTECTION in metadata.finalizers
    if metadata.deletion_timestamp is not None:
        if is_protected and claim is None:
            return ActionPlan([_remove_finalizer(volume, _VOLUME_PROTECTION)])
        return ActionPlan()
    if not is_protected:
        return ActionPlan([_add_finalizer(volume, _VOLUME_PROTECTION)])
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
    """Return the claim in the `claimRef` of a volume, if it still exists."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return None
    claim: PersistentVolumeClaim | None = objects.find(
        PersistentVolumeClaim, reference.namespace or "", reference.name
    )
    return claim if claim is not None and claim.metadata.uid == reference.uid else None


# Triggers


def _claims_of_changed_pod(
    objects: ObjectIndex, pod: Pod, before: Pod | None, _gone: bool
) -> Sequence[str]:
    """Find the claims of a new pod, and the terminating claims of any pod."""
    if not pod.spec.volumes:
        return ()
    claims = (
        objects.find(PersistentVolumeClaim, pod.metadata.namespace, name) for name in claims_of(pod)
    )
    return [
        claim.metadata.uid
        for claim in claims
        if claim is not None and (before is None or claim.metadata.deletion_timestamp)
    ]


def _volume_of_claim(
    objects: ObjectIndex,
    claim: PersistentVolumeClaim,
    _before: PersistentVolumeClaim | None,
    _gone: bool,
) -> Sequence[str]:
    volume = objects.find(PersistentVolume, "", claim.spec.volume_name)
    return () if volume is None else (volume.metadata.uid,)


def _claims_for_volume(
    objects: ObjectIndex, volume: PersistentVolume, _before: PersistentVolume | None, _gone: bool
) -> Sequence[str]:
    """Find the claim of a volume; without `claimRef`, the unbound claims of its class."""
    reference = volume.spec.claim_ref
    if reference is None:
        return _unbound_claims(objects, volume.spec.storage_class_name or "")
    claim = objects.find(PersistentVolumeClaim, reference.namespace or "", reference.name)
    return () if claim is None else (claim.metadata.uid,)


def _claims_of_class(
    objects: ObjectIndex, storage_class: StorageClass, _before: StorageClass | None, _gone: bool
) -> Sequence[str]:
    return _unbound_claims(objects, storage_class.metadata.name)


def _unbound_claims(objects: ObjectIndex, class_name: str) -> list[str]:
    return [
        claim.metadata.uid
        for claim in objects.all(PersistentVolumeClaim)
        if claim.status.phase != "Bound" and (claim.spec.storage_class_name or "") == class_name
    ]


CLAIM_CONTROLLER = Controller(
    "persistentvolume-controller",
    PersistentVolumeClaim,
    plan_claim_binding,
    triggers=(
        OwnChange(PersistentVolumeClaim),
        RelatedChange(Pod, PersistentVolumeClaim, _claims_of_changed_pod),
        RelatedChange(PersistentVolume, PersistentVolumeClaim, _claims_for_volume),
        RelatedChange(StorageClass, PersistentVolumeClaim, _claims_of_class),
    ),
)

VOLUME_CONTROLLER = Controller(
    "persistentvolume-controller",
    PersistentVolume,
    plan_volume,
    triggers=(
        OwnChange(PersistentVolume),
        RelatedChange(PersistentVolumeClaim, PersistentVolume, _volume_of_claim),
    ),
)
