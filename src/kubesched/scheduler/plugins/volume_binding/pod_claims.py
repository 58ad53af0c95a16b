"""The claims of a pod, grouped by the work that is left (docs/reference/07 §5.2)."""

from __future__ import annotations

from typing import NamedTuple

from kubesched.api import PersistentVolumeClaim, Pod, StorageClass
from kubesched.framework import Lister
from kubesched.scheduler.plugins.helpers.volume_claims import (
    VolumeClaimError,
    claim_name,
    claim_names,
    is_delayed,
    is_fully_bound,
    not_found,
    ownership_problem,
)
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache

__all__ = ["PodClaims", "are_all_bound", "claims_problem", "group_claims"]


class PodClaims(NamedTuple):
    """A pod's claims in the order of its volumes.

    A claim that two volumes use occurs twice.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[PersistentVolumeClaim, ...]  # bound after the pod has a node
    immediate: tuple[PersistentVolumeClaim, ...]  # a controller must bind them first


def claims_problem(pod: Pod, claims: Lister[PersistentVolumeClaim]) -> tuple[str, bool]:
    """Return why the pod cannot use its claims (or ""), and whether it has claims."""
    has_claims = False
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        has_claims = True
        claim = claims.get(name, pod.metadata.namespace)
        is_ephemeral = volume.ephemeral is not None
        if claim is None:
            missing = not_found(PersistentVolumeClaim, name)
            if is_ephemeral:
                wanted = missing.removesuffix(" not found")
                missing = f"waiting for ephemeral volume controller to create the {wanted}"
            return missing, True
        if claim.status.phase == "Lost":
            lost = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"',
                True,
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted', True
        if is_ephemeral and (problem := ownership_problem(pod, claim)):
            return problem, True
    return "", has_claims


def group_claims(
    pod: Pod, claims: AssumeCache[PersistentVolumeClaim], classes: Lister[StorageClass]
) -> PodClaims:
    """Group the pod's claims, including assumed changes.

    Raises:
        VolumeClaimError: a claim does not exist, or its class has no binding mode.
    """
    bound, delayed, immediate = [], [], []
    namespace = pod.metadata.namespace
    for name in claim_names(pod):
        claim = claims.get(name, namespace)
        if claim is None:
            cause = claims.not_found(name, namespace)
            raise VolumeClaimError(f'error getting PVC "{namespace}/{name}": {cause}')
        if is_fully_bound(claim):
            bound.append(claim)
        elif is_delayed(claim, classes) and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            immediate.append(claim)
    return PodClaims(tuple(bound), tuple(delayed), tuple(immediate))


def are_all_bound(pod: Pod, claims: AssumeCache[PersistentVolumeClaim]) -> bool:
    """Whether every claim of the pod exists and is bound."""
    for name in claim_names(pod):
        claim = claims.get(name, pod.metadata.namespace)
        if claim is None or not is_fully_bound(claim):
            return False
    return True
