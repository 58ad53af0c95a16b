"""Claims of pods: their names, owners, classes, and when one counts as bound.

The rules are in docs/reference/07 §3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kubesched.api import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    Volume,
)
from kubesched.errors import KubeschedError
from kubesched.framework import Lister

__all__ = [
    "BIND_COMPLETED",
    "BOUND_BY_CONTROLLER",
    "SELECTED_NODE",
    "WAIT_FOR_FIRST_CONSUMER",
    "VolumeClaimError",
    "claim_class",
    "claim_name",
    "claim_names",
    "is_delayed",
    "is_fully_bound",
    "named_claims",
    "needs_claim",
    "not_found",
    "ownership_problem",
    "volume_class",
]

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"

_SINGULAR: Final[Mapping[type[Any], str]] = {
    PersistentVolumeClaim: "persistentvolumeclaim",
    PersistentVolume: "persistentvolume",
    StorageClass: "storageclass.storage.k8s.io",
}


class VolumeClaimError(KubeschedError):
    """Volumes of a pod cannot be judged: the attempt ends in an error."""


def not_found(kind: type[Any], name: str) -> str:
    """What the reference's listers say of an object that they do not have."""
    return f'{_SINGULAR[kind]} "{name}" not found'


def needs_claim(volume: Volume) -> bool:
    """Whether there is a claim behind a volume, named or made for the pod."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a volume of the pod; None if it needs none."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """Claims of the pod, those made for it included."""
    for volume in pod.spec.volumes:
        if (name := claim_name(pod, volume)) is not None:
            yield name


def named_claims(pod: Pod) -> Iterator[str]:
    """Claims that the pod names itself: without those that are made for it."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Why a claim cannot be the one that was made for the pod; None: it is that one."""
    owner, made = pod.metadata, claim.metadata
    if made.namespace == owner.namespace and any(
        reference.controller and reference.uid == owner.uid for reference in made.owner_references
    ):
        return None
    return (
        f"PVC {made.namespace}/{made.name} was not created for pod "
        f"{owner.namespace}/{owner.name} (pod is not owner)"
    )


def claim_class(claim: PersistentVolumeClaim) -> str:
    annotated = claim.metadata.annotations.get(_CLASS_ANNOTATION)
    return claim.spec.storage_class_name or "" if annotated is None else annotated


def volume_class(volume: PersistentVolume) -> str:
    annotated = volume.metadata.annotations.get(_CLASS_ANNOTATION)
    return volume.spec.storage_class_name if annotated is None else annotated


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether binding is finished, from both sides."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_delayed(claim: PersistentVolumeClaim, classes: Lister[StorageClass]) -> bool:
    """Whether the claim is bound only once a pod that uses it has a node.

    Raises:
        VolumeError: the class does not say.
    """
    name = claim_class(claim)
    found = classes.get(name) if name else None
    if found is None:
        return False
    if found.volume_binding_mode is None:
        raise VolumeClaimError(binding_mode_missing(name))
    return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def binding_mode_missing(class_name: str) -> str:
    return f'VolumeBindingMode not set for StorageClass "{class_name}"'
