"""Cluster events, and how plugins register for them (docs/reference/03 §6, §7).

A plugin that rejects pods registers the events that could change its verdict, each with an
optional hint: a function that gets the change and decides whether the pod is retried.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kubesched.api import Pod

__all__ = [
    "ASSIGNED_POD_DELETE",
    "ActionType",
    "ClusterEvent",
    "ClusterEventWithHint",
    "EventResource",
    "HintFunction",
    "QueueingHint",
]


class ActionType(enum.IntFlag):
    """What happened to an object; the bit values are the reference's."""

    NONE = 0
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = 8188
    ALL = 8191


_ACTION_LABELS: dict[int, str] = {
    int(action): "".join(word.capitalize() for word in str(action.name).split("_"))
    for action in ActionType.__members__.values()
    if action is not ActionType.NONE
}


class EventResource:
    """The kinds of objects in events."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"  # only in incoming events
    UNSCHEDULABLE_POD = "UnschedulablePod"  # only in incoming events
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


_POD_KINDS = frozenset({EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD})


class ClusterEvent(msgspec.Struct, frozen=True):
    """A kind of object, a change to it, and optionally a custom label."""

    resource: str
    action: ActionType
    custom_label: str = ""
    # The text in metrics and logs, such as `NodeUpdateNodeTaint`. It follows from the others.
    label: str = ""

    def __post_init__(self) -> None:
        label = self.custom_label or self.resource + _ACTION_LABELS.get(int(self.action), "")
        force_setattr(self, "label", label)

    @property
    def is_wildcard(self) -> bool:
        return self.resource == EventResource.WILDCARD and self.action == ActionType.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether a plugin that registered this event is notified of the incoming one.

        A general update does not reach a plugin that registered single sub-actions only:
        therefore the two actions are compared as integers.
        """
        if self.is_wildcard:
            return True
        same_kind = self.resource in (EventResource.WILDCARD, incoming.resource) or (
            self.resource == EventResource.POD and incoming.resource in _POD_KINDS
        )
        return (
            same_kind
            and bool(self.action & incoming.action)
            and int(incoming.action) <= int(self.action)
        )


ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


class QueueingHint(enum.Enum):
    """The result of a hint: whether the event may make the pod schedulable."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


# (pod, old object or None, new object or None); an exception counts as QUEUE.
HintFunction = Callable[[Pod, Any, Any], QueueingHint]


class ClusterEventWithHint(msgspec.Struct, frozen=True):
    """A registered event; without a hint, every such event requeues the pod."""

    event: ClusterEvent
    hint: HintFunction | None = None
