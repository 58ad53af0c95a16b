"""The objects that a recorded pod needs: its claims, their classes, its group and namespace.

The values of its priority class and runtime class are in the pod.

`kubesched record` writes them before the pod, as a client would create them: claims are unbound and
have no allocation. A simulation creates those that its cluster does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import (
    ApiAccess,
    ApiError,
    DeviceClass,
    Namespace,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    StorageClass,
)
from kubesched.api.base import ApiObject
from kubesched.api.kinds import kind_of
from kubesched.api.scheduling import PodGroup
from kubesched.explain.clusters.read_fields import with_read_fields

__all__ = ["as_written", "needed_by", "read_missing"]

T = TypeVar("T", bound=ApiObject)

_UNREADABLE: Final = (401, 403, 404)
# What controllers write to claims and volumes.
_BOUND_BY: Final = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")

_Reference = tuple[type[Any], str, str]  # kind, namespace, name


def needed_by(each: Any) -> Iterator[_Reference]:
    """Return the objects without which the object is refused, or a pod stays pending."""
    if isinstance(each, Pod):
        yield from _needed_by_pod(each)
    elif isinstance(each, PersistentVolumeClaim) and each.spec.storage_class_name:
        yield StorageClass, "", each.spec.storage_class_name
    elif isinstance(each, ResourceClaim):
        yield from _device_classes(each.spec)
    elif isinstance(each, ResourceClaimTemplate):
        yield from _device_classes(each.spec.spec)


def _needed_by_pod(pod: Pod) -> Iterator[_Reference]:
    spec, namespace = pod.spec, pod.metadata.namespace
    yield Namespace, "", namespace
    for volume in spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield PersistentVolumeClaim, namespace, volume.persistent_volume_claim.claim_name
        template = None if volume.ephemeral is None else volume.ephemeral.volume_claim_template
        if template is not None and template.spec.storage_class_name:
            yield StorageClass, "", template.spec.storage_class_name
    for claim in spec.resource_claims:
        if claim.resource_claim_name:
            yield ResourceClaim, namespace, claim.resource_claim_name
        elif claim.resource_claim_template_name:
            yield ResourceClaimTemplate, namespace, claim.resource_claim_template_name
    group = spec.scheduling_group
    if group is not None and group.pod_group_name:
        yield PodGroup, namespace, group.pod_group_name


def _device_classes(spec: Any) -> Iterator[_Reference]:
    for request in spec.devices.requests:
        alternatives = request.first_available or (request.exactly,)
        for each in alternatives:
            if each is not None and each.device_class_name:
                yield DeviceClass, "", each.device_class_name


async def read_missing(api: ApiAccess, pod: Pod, known: set[_Reference]) -> list[ApiObject]:
    """Read the objects that the pod needs and that are not known yet, in the order of creation.

    Objects that do not exist, or that may not be read, are omitted.

    Raises:
        ApiError: the server does not respond.
    """
    found: list[ApiObject] = []
    for reference in needed_by(pod):
        await _read(api, reference, known, found)
    return found


async def _read(
    api: ApiAccess, reference: _Reference, known: set[_Reference], found: list[ApiObject]
) -> None:
    if reference in known:
        return
    known.add(reference)
    kind, namespace, name = reference
    try:
        each = await api.get(kind, name, namespace or None)
    except ApiError as error:
        if error.code in _UNREADABLE:
            return
        known.discard(reference)
        raise
    for further in needed_by(each):
        await _read(api, further, known, found)
    found.append(each)


def as_written(each: Any) -> dict[str, Any]:
    """Return an object as a client creates it, with the fields that scheduling reads."""
    read: Any = with_read_fields(each)
    own = read.metadata
    annotations = {
        key: value for key, value in own.annotations.items() if not key.startswith(_BOUND_BY)
    }
    metadata = ObjectMeta(
        name=own.name, namespace=own.namespace, labels=own.labels, annotations=annotations
    )
    changes: dict[str, Any] = {"metadata": metadata}
    if isinstance(read, PersistentVolumeClaim):
        changes["spec"] = replace(read.spec, volume_name="")
    kind = kind_of(type(read))
    document: dict[str, Any] = msgspec.to_builtins(replace(read, **changes))
    document.pop("status", None)
    return {"apiVersion": kind.api_version, "kind": kind.kind, **document}
