"""Queueing hints of VolumeBinding (docs/reference/07 §5.10)."""

from __future__ import annotations

from typing import Any

from kubesched.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from kubesched.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from kubesched.scheduler.plugins.helpers.csi_migration import MIGRATED_PLUGINS
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if
from kubesched.scheduler.plugins.helpers.volume_claims import claim_names
from kubesched.scheduler.plugins.volume_binding.claim_provisioning import capacity_limit

__all__ = ["EVENTS"]

_APPEARS = ActionType.ADD | ActionType.UPDATE


def _class_changed(pod: Pod, old: Any, new: Any) -> QueueingHint:  # noqa: ARG001  a hint takes all
    before, after = expect_or_none(StorageClass, old), expect(StorageClass, new)
    return queue_if(before is None or before.allowed_topologies != after.allowed_topologies)


def _claim_changed(pod: Pod, old: Any, new: Any) -> QueueingHint:  # noqa: ARG001  a hint takes all
    changed = expect(PersistentVolumeClaim, new).metadata
    same_namespace = changed.namespace == pod.metadata.namespace
    return queue_if(same_namespace and changed.name in claim_names(pod))


def _csi_node_changed(pod: Pod, old: Any, new: Any) -> QueueingHint:  # noqa: ARG001  a hint takes all
    before, after = expect_or_none(CSINode, old), expect(CSINode, new)
    if before is None:
        return QueueingHint.QUEUE
    plugins = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (before, after))
    return queue_if(len(set(plugins)) > 1)


def _driver_changed(pod: Pod, old: Any, new: Any) -> QueueingHint:
    before, after = expect(CSIDriver, old), expect(CSIDriver, new)
    # As in the reference, only pods whose inline volumes name the driver are checked.
    is_named = any(
        volume.csi is not None and volume.csi.driver == after.metadata.name
        for volume in pod.spec.volumes
    )
    no_more = before.spec.storage_capacity and not after.spec.storage_capacity
    return queue_if(is_named and bool(no_more))


def _capacity_changed(pod: Pod, old: Any, new: Any) -> QueueingHint:  # noqa: ARG001  a hint takes all
    before, after = expect_or_none(CSIStorageCapacity, old), expect(CSIStorageCapacity, new)
    if before is None:
        return QueueingHint.QUEUE
    least, most = capacity_limit(before), capacity_limit(after)
    return queue_if(most is not None and (least is None or most > least))


# Volumes and nodes have no hint, because any of them may help the pod.
EVENTS = (
    ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, _APPEARS), _class_changed),
    ClusterEventWithHint(
        ClusterEvent(EventResource.PERSISTENT_VOLUME_CLAIM, _APPEARS), _claim_changed
    ),
    ClusterEventWithHint(ClusterEvent(EventResource.PERSISTENT_VOLUME, _APPEARS)),
    ClusterEventWithHint(
        ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
    ),
    ClusterEventWithHint(ClusterEvent(EventResource.CSI_NODE, _APPEARS), _csi_node_changed),
    ClusterEventWithHint(
        ClusterEvent(EventResource.CSI_DRIVER, ActionType.UPDATE), _driver_changed
    ),
    ClusterEventWithHint(
        ClusterEvent(EventResource.CSI_STORAGE_CAPACITY, _APPEARS), _capacity_changed
    ),
)
