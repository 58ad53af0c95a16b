"""Kinds that a dump does not contain although its objects refer to them.

The output of `kubectl get pods,nodes -o yaml` has no claims, so a claim that is not in the dump may
exist in the cluster. A kind is absent if an object refers to an object of it, and no file contains
an object or an empty list of the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kubesched.api import (
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
)
from kubesched.api.base import ApiObject
from kubesched.api.kinds import kind_of

__all__ = ["absent_kinds"]


def absent_kinds(objects: Iterable[ApiObject], listed: Collection[str] = ()) -> tuple[str, ...]:
    """Return the absent kinds; `listed` are kinds that have been listed and may have no objects."""
    objects = list(objects)
    present = {kind_of(type(each)).kind for each in objects} | set(listed)
    needed = {kind for each in objects for kind in _kinds_of_references(each)}
    return tuple(sorted(needed - present))


def _kinds_of_references(each: ApiObject) -> Iterator[str]:
    """Return the kinds of the objects without which scheduling would reject a pod."""
    if isinstance(each, Pod):
        if not each.spec.node_name:
            yield from _of_pod(each)
    elif isinstance(each, PersistentVolumeClaim):
        if each.spec.volume_name:
            yield "PersistentVolume"
        elif each.spec.storage_class_name:
            yield "StorageClass"
    elif isinstance(each, ResourceClaim) and each.status.allocation is None:
        yield from ("DeviceClass", "ResourceSlice")


def _of_pod(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            yield "PersistentVolumeClaim"
    for claim in pod.spec.resource_claims:
        yield "ResourceClaim"
        if claim.resource_claim_template_name:
            yield "ResourceClaimTemplate"
    if pod.spec.scheduling_group is not None:
        yield "PodGroup"
