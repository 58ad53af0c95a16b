"""Pods: their containers, spec and status."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubesched.api.affinity import Affinity, Toleration, TopologySpreadConstraint
from kubesched.api.base import ApiObject, ApiStruct, Int32, Int64, ResourceList
from kubesched.api.meta import ObjectMeta
from kubesched.api.reference import LocalObjectReference
from kubesched.api.volume import Volume

__all__ = [
    "Container",
    "ContainerExtendedResourceRequest",
    "ContainerPort",
    "ContainerRestartRule",
    "ContainerRestartRuleOnExitCodes",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "EphemeralContainer",
    "HostIP",
    "NodeAllocatableResourceClaimStatus",
    "Pod",
    "PodCondition",
    "PodExtendedResourceClaimStatus",
    "PodIP",
    "PodReadinessGate",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSchedulingGate",
    "PodSchedulingGroup",
    "PodSpec",
    "PodStatus",
    "PodTemplateSpec",
    "ResourceClaimUse",
    "ResourceRequirements",
]


class ContainerPort(ApiStruct):
    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")


class ResourceClaimUse(ApiStruct):
    """A container's use of one of the pod's claims.

    The API calls this `ResourceClaim`, like the object of resource.k8s.io.
    """

    name: str = ""
    request: str = ""


class ResourceRequirements(ApiStruct):
    limits: ResourceList = {}
    requests: ResourceList = {}
    claims: tuple[ResourceClaimUse, ...] = ()


class ContainerRestartRuleOnExitCodes(ApiStruct):
    operator: str = ""
    values: tuple[Int64, ...] = ()


class ContainerRestartRule(ApiStruct):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ExecAction(ApiStruct):
    command: tuple[str, ...] = ()


class SleepAction(ApiStruct):
    seconds: int = 0


class Probe(ApiStruct):
    """A kubelet's check of a container, as far as it is simulated."""

    exec: ExecAction | None = None
    initial_delay_seconds: int = 0


class LifecycleHandler(ApiStruct):
    exec: ExecAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(ApiStruct):
    pre_stop: LifecycleHandler | None = None


class Container(ApiStruct):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    readiness_probe: Probe | None = None
    lifecycle: Lifecycle | None = None


class EphemeralContainer(ApiStruct):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str | None = None
    target_container_name: str = ""


class PodSchedulingGate(ApiStruct):
    name: str = ""


class PodReadinessGate(ApiStruct):
    condition_type: str = ""


class PodResourceClaim(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(ApiStruct):
    pod_group_name: str | None = None


class PodSpec(ApiStruct):
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: str = ""
    node_selector: dict[str, str] | None = None
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    share_process_namespace: bool | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: PodSchedulingGroup | None = None


class PodCondition(ApiStruct):
    type: str = ""
    observed_generation: Int64 = 0
    status: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class HostIP(ApiStruct):
    ip: str = ""


class PodIP(ApiStruct):
    ip: str = ""


class ContainerStateWaiting(ApiStruct):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(ApiStruct):
    started_at: str | None = None


class ContainerStateTerminated(ApiStruct):
    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = msgspec.field(name="containerID", default="")


class ContainerState(ApiStruct):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(ApiStruct):
    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    started: bool | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(ApiStruct):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(ApiStruct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(ApiStruct):
    """The node resources (cpu, memory, …) that a claim consumes (alpha)."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodStatus(ApiStruct):
    """The observed state of a pod."""

    observed_generation: Int64 = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(name="hostIP", default="")
    host_ips: tuple[HostIP, ...] = msgspec.field(name="hostIPs", default=())
    pod_ip: str = msgspec.field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = msgspec.field(name="podIPs", default=())
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
