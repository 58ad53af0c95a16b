"""Nodes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubesched.api.base import ApiObject, ApiStruct, Int64, ResourceList
from kubesched.api.meta import ObjectMeta

__all__ = [
    "AttachedVolume",
    "ContainerImage",
    "Node",
    "NodeAddress",
    "NodeCondition",
    "NodeFeatures",
    "NodeSpec",
    "NodeStatus",
    "NodeSystemInfo",
    "Taint",
]


class Taint(ApiStruct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(ApiStruct):
    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = msgspec.field(name="podCIDRs", default=())
    provider_id: str = msgspec.field(name="providerID", default="")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(ApiStruct):
    type: str = ""
    status: str = ""
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(ApiStruct):
    type: str = ""
    address: str = ""


class NodeSystemInfo(ApiStruct):
    machine_id: str = msgspec.field(name="machineID", default="")
    system_uuid: str = msgspec.field(name="systemUUID", default="")
    boot_id: str = msgspec.field(name="bootID", default="")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class ContainerImage(ApiStruct):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class AttachedVolume(ApiStruct):
    name: str = ""
    device_path: str = ""


class NodeFeatures(ApiStruct):
    supplemental_groups_policy: bool | None = None


class NodeStatus(ApiStruct):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    features: NodeFeatures | None = None
    declared_features: tuple[str, ...] = ()


class Node(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
