"""Types of `scheduling.k8s.io`: priority classes, and the alpha workload API."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32
from kubesched.api.meta import Condition, ObjectMeta
from kubesched.api.pod import PodResourceClaim, PodResourceClaimStatus
from kubesched.api.reference import TypedLocalObjectReference

__all__ = [
    "BasicSchedulingPolicy",
    "GangSchedulingPolicy",
    "PodGroup",
    "PodGroupSchedulingConstraints",
    "PodGroupSchedulingPolicy",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodGroupTemplate",
    "PodGroupTemplateReference",
    "PriorityClass",
    "TopologyConstraint",
    "Workload",
    "WorkloadPodGroupTemplateReference",
    "WorkloadSpec",
]


class PriorityClass(ApiObject):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None


class BasicSchedulingPolicy(ApiStruct):
    """The policy of a group whose pods are scheduled one by one."""


class GangSchedulingPolicy(ApiStruct):
    min_count: Int32 = 0


class PodGroupSchedulingPolicy(ApiStruct):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(ApiStruct):
    key: str = ""


class PodGroupSchedulingConstraints(ApiStruct):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupTemplate(ApiStruct):
    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class WorkloadSpec(ApiStruct):
    controller_ref: TypedLocalObjectReference | None = None
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(ApiObject):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    kind: ClassVar[str] = "Workload"

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class WorkloadPodGroupTemplateReference(ApiStruct):
    workload_name: str = ""
    pod_group_template_name: str = ""


class PodGroupTemplateReference(ApiStruct):
    workload: WorkloadPodGroupTemplateReference | None = None


class PodGroupSpec(ApiStruct):
    pod_group_template_ref: PodGroupTemplateReference | None = None
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class PodGroupStatus(ApiStruct):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PodGroup(ApiObject):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    kind: ClassVar[str] = "PodGroup"

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()
