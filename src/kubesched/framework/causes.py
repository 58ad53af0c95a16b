"""Causes of rejections, as values.

A status carries one cause per reason. The reason is text for people; the cause is for programs:
`kubesched explain`, the simulator and the web page read causes and never parse a reason.
Plugins share the types in this module. A plugin outside this package derives its own from `Cause`.

Filter statuses are shared by all nodes with the same verdict, so a cause that a plugin gives
there holds no amounts of single nodes. Fields that default to None are filled in when a pod is
explained (`kubesched.framework.Detail.cause`).
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "AllocatedDeviceUnreachable",
    "Cause",
    "ClaimInUse",
    "ClaimUnusable",
    "DeviceClaimUnusable",
    "DeviceClassMissing",
    "DevicesUnavailable",
    "DiskInUse",
    "ExistingPodAntiAffinityViolated",
    "HostPortInUse",
    "InsufficientResource",
    "NodeCordoned",
    "NodeFeaturesMissing",
    "NodeNameMismatch",
    "NodeSelectorMismatch",
    "PodAffinityUnmet",
    "PodAntiAffinityViolated",
    "SchedulingGated",
    "StorageExhausted",
    "TooManyPods",
    "TopologyLabelMissing",
    "TopologySkewExceeded",
    "UntoleratedTaint",
    "VolumeLimitReached",
    "VolumeUnavailable",
    "VolumeUnreachable",
]


class Cause(msgspec.Struct, frozen=True, tag_field="type", tag=True, omit_defaults=True):
    """Base class of all causes. Fields must be hashable, as statuses are.

    In JSON a cause is an object with its fields and `type`, the name of its class.
    """

    def to_dict(self) -> dict[str, Any]:
        """The cause as plain data; values that JSON does not have become strings."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return plain


class InsufficientResource(Cause, frozen=True):
    """Less of a resource is free than the pod requests.

    Amounts are in the scheduler's units: thousandths of a CPU, bytes, pieces.
    """

    resource: str
    asked: int | None = None
    free: int | None = None  # the most that is free on any of the nodes


class TooManyPods(Cause, frozen=True):
    """The node already runs the maximum number of pods."""

    allowed: int | None = None  # on the node with the most places left


class NodeNameMismatch(Cause, frozen=True):
    """The pod names another node in `spec.nodeName`."""


class NodeCordoned(Cause, frozen=True):
    """The node is marked unschedulable."""


class UntoleratedTaint(Cause, frozen=True):
    """The node has a taint that the pod does not tolerate."""

    taints: tuple[str, ...] | None = None  # `key=value:effect`, the most frequent first


class NodeSelectorMismatch(Cause, frozen=True):
    """The node does not match the pod's node selector or required node affinity."""


class NodeFeaturesMissing(Cause, frozen=True):
    """The node does not declare a feature that the pod requires."""


class HostPortInUse(Cause, frozen=True):
    """A pod on the node uses a host port that the pod requests."""


class TopologySkewExceeded(Cause, frozen=True):
    """With the pod, a topology spread constraint would be violated."""


class TopologyLabelMissing(Cause, frozen=True):
    """The node lacks a label that a topology spread constraint refers to."""


class PodAffinityUnmet(Cause, frozen=True):
    """No pod that the pod's required affinity selects runs in the node's domain."""


class PodAntiAffinityViolated(Cause, frozen=True):
    """A pod that the pod's required anti-affinity selects runs in the node's domain."""


class ExistingPodAntiAffinityViolated(Cause, frozen=True):
    """The required anti-affinity of a pod in the node's domain selects the pod."""


class ClaimUnusable(Cause, frozen=True):
    """A volume claim of the pod is missing, is not bound, or is bound to a missing volume."""


class ClaimInUse(Cause, frozen=True):
    """Another pod uses a claim whose access mode is ReadWriteOncePod."""


class DiskInUse(Cause, frozen=True):
    """A pod on the node uses a disk of the pod in a way that excludes sharing."""


class VolumeLimitReached(Cause, frozen=True):
    """The maximum number of volumes is attached to the node."""


class VolumeUnreachable(Cause, frozen=True):
    """A volume of the pod is in another zone or on another node."""


class VolumeUnavailable(Cause, frozen=True):
    """The node can reach no volume to bind to a claim of the pod, and none can be provisioned."""


class StorageExhausted(Cause, frozen=True):
    """A claim's storage class has too little capacity left for the node."""


class DeviceClassMissing(Cause, frozen=True):
    """A device claim of the pod requests a device class that does not exist."""

    device_class: str


class DeviceClaimUnusable(Cause, frozen=True):
    """A device claim of the pod is missing or invalid, or is being allocated."""


class DevicesUnavailable(Cause, frozen=True):
    """The node has no free devices that satisfy the pod's device claims."""


class AllocatedDeviceUnreachable(Cause, frozen=True):
    """A device that was allocated for a claim of the pod cannot be used from the node."""


class SchedulingGated(Cause, frozen=True):
    """The pod has scheduling gates."""

    gates: tuple[str, ...]
