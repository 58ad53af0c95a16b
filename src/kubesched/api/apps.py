"""Types of `apps/v1`, with the fields that matter for the pods that they own."""

from __future__ import annotations

from typing import Any, ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32, Int64
from kubesched.api.meta import LabelSelector, ObjectMeta
from kubesched.api.pod import PodTemplateSpec
from kubesched.api.volume import PersistentVolumeClaimTemplate

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "StatefulSet",
    "StatefulSetSpec",
    "StatefulSetStatus",
]


class ReplicaSetSpec(ApiStruct):
    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSetStatus(ApiStruct):
    replicas: Int32 = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    observed_generation: Int64 = 0


class ReplicaSet(ApiObject):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(ApiStruct):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    service_name: str = ""
    pod_management_policy: str = ""
    revision_history_limit: Int32 | None = None
    min_ready_seconds: Int32 = 0


class StatefulSetStatus(ApiStruct):
    observed_generation: Int64 = 0
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    current_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    available_replicas: Int32 = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: Int32 | None = None


class StatefulSet(ApiObject):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class DeploymentSpec(ApiStruct):
    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0
    revision_history_limit: Int32 | None = None
    paused: bool = False


class DeploymentStatus(ApiStruct):
    observed_generation: Int64 = 0
    replicas: Int32 = 0
    updated_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    unavailable_replicas: Int32 = 0


class Deployment(ApiObject):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class DaemonSetSpec(ApiStruct):
    revision_history_limit: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    min_ready_seconds: Int32 = 0


class DaemonSetStatus(ApiStruct):
    current_number_scheduled: Int32 = 0
    number_misscheduled: Int32 = 0
    desired_number_scheduled: Int32 = 0
    number_ready: Int32 = 0
    observed_generation: Int64 = 0
    updated_number_scheduled: Int32 = 0
    number_available: Int32 = 0
    number_unavailable: Int32 = 0


class DaemonSet(ApiObject):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(ApiObject):
    """One revision of the pod template of a StatefulSet or DaemonSet."""

    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ControllerRevision"

    metadata: ObjectMeta = ObjectMeta()
    data: Any = None
    revision: Int64 = 0
