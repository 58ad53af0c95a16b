"""PersistentVolumeClaims of pods.

Names, owners, classes, and when a claim is bound.

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
    """The volumes of a pod cannot be evaluated; the attempt ends with this error."""


def not_found(kind: type[Any], name: str) -> str:
    """The error text of the reference's listers for a missing object."""
    return f'{_SINGULAR[kind]} "{name}" not found'


def needs_claim(volume: Volume) -> bool:
    """Whether a volume uses a claim, named in the pod or created for it."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The name of the claim behind a volume of the pod, or None."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the pod's claims, including those created for it."""
    for volume in pod.spec.volumes:
        if (name := claim_name(pod, volume)) is not None:
            yield name


def named_claims(pod: Pod) -> Iterator[str]:
    """Yield the claims that the pod names, without those created for it."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str | None:
    """Return why a claim is not the one created for the pod; None if it is."""
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
    """Whether the claim has a volume and the binding is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_delayed(claim: PersistentVolumeClaim, classes: Lister[StorageClass]) -> bool:
    """Whether the claim is bound only after a pod that uses it has a node.

    Raises:
        VolumeClaimError: the class has no binding mode.
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
