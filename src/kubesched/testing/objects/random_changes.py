"""Random changes to objects of a cluster, as the events that plugins register for."""

from __future__ import annotations

import random
from typing import Any, Final

from msgspec.structs import replace

from kubesched.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DeviceClass,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    ResourceClaim,
    ResourceSlice,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.base import ApiObject
from kubesched.framework import ActionType, ClusterEvent, EventResource
from kubesched.testing.objects.builders import make_meta
from kubesched.testing.objects.random_clusters import RandomCluster, random_node, random_pod

__all__ = ["KINDS", "random_change"]

KINDS: Final[dict[str, type[ApiObject]]] = {
    EventResource.POD: Pod,
    EventResource.NODE: Node,
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
    EventResource.POD_GROUP: PodGroup,
}


def random_change(
    rng: random.Random, cluster: RandomCluster, pod: Pod, event: ClusterEvent
) -> tuple[Any, Any]:
    """Return an (old, new) pair of the event's kind for one of its actions; None if impossible.

    A change to a pod may be a change to the waiting pod itself.
    """
    kind = KINDS[event.resource]
    verbs = [
        verb
        for verb in (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
        if event.action & verb
    ]
    verb = rng.choice(verbs)
    if kind is Pod and verb is ActionType.UPDATE and rng.random() < 0.4:
        return pod, _other_version(rng, pod, cluster)
    subject = _some_object(rng, cluster, kind)
    if verb is ActionType.ADD:
        return None, subject
    if verb is ActionType.DELETE:
        return subject, None
    return subject, _other_version(rng, subject, cluster)


def _some_object(rng: random.Random, cluster: RandomCluster, kind: type[ApiObject]) -> Any:
    if kind is Pod and (not cluster.pods or rng.random() < 0.2):
        return random_pod(rng, "elsewhere", claims=cluster.claims)
    found = [stored for stored in cluster.objects if type(stored) is kind]
    if found:
        return rng.choice(found)
    return replace(kind(), metadata=make_meta(kind.kind, "some"))


def _other_version(rng: random.Random, subject: Any, cluster: RandomCluster) -> Any:
    """Return the same object with the content of another random object of its kind."""
    if isinstance(subject, Pod):
        other: Any = random_pod(
            rng, "other", claims=cluster.claims, node_name=subject.spec.node_name
        )
    elif isinstance(subject, Node):
        other = random_node(rng, subject.metadata.name)
    else:
        other = _some_object(rng, cluster, type(subject))
    identity = subject.metadata
    metadata = replace(
        other.metadata, name=identity.name, namespace=identity.namespace, uid=identity.uid
    )
    return replace(other, metadata=metadata)
