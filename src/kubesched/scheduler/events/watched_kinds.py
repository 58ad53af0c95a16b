"""The kinds to watch because a plugin registered events for them (docs/reference/02 §10.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    PersistentVolume,
    PersistentVolumeClaim,
    PodGroup,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.custom_kinds import custom_kind
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import EventResource

__all__ = ["watched_kind"]

log = get_logger(__name__)

_KINDS: Mapping[str, type[Any]] = {
    EventResource.PERSISTENT_VOLUME: PersistentVolume,
    EventResource.PERSISTENT_VOLUME_CLAIM: PersistentVolumeClaim,
    EventResource.CSI_NODE: CSINode,
    EventResource.CSI_DRIVER: CSIDriver,
    EventResource.CSI_STORAGE_CAPACITY: CSIStorageCapacity,
    EventResource.STORAGE_CLASS: StorageClass,
    EventResource.VOLUME_ATTACHMENT: VolumeAttachment,
    EventResource.RESOURCE_CLAIM: ResourceClaim,
    EventResource.RESOURCE_SLICE: ResourceSlice,
    EventResource.DEVICE_CLASS: DeviceClass,
}
# Kinds that are always watched, with handlers of their own, or never.
_HANDLED_ELSEWHERE = frozenset(
    [
        EventResource.POD,
        EventResource.ASSIGNED_POD,
        EventResource.UNSCHEDULABLE_POD,
        EventResource.NODE,
        EventResource.POD_GROUP,
        EventResource.WILDCARD,
    ]
)


def watched_kind(resource: str, *, with_pod_groups: bool = False) -> type[Any] | None:
    """Return the type to watch for events of a resource; None if there is none.

    An unknown resource is a custom resource, as `plural.version.group`. API servers serve pod
    groups only if that feature is enabled.
    """
    if resource == EventResource.POD_GROUP and with_pod_groups:
        return PodGroup
    if resource in _HANDLED_ELSEWHERE:
        return None
    known = _KINDS.get(resource)
    if known is not None:
        return known
    custom = custom_kind(resource)
    if custom is None:
        log.error("Incorrect event registration", gvk=resource)
        return None
    return custom.type
