"""Core types other than pods, nodes and volumes."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kubesched.api.base import ApiObject, ApiStruct, Int32, Int64, IntOrString, ResourceList
from kubesched.api.meta import Condition, ObjectMeta
from kubesched.api.pod import PodTemplateSpec
from kubesched.api.reference import ObjectReference

__all__ = [
    "Binding",
    "ConfigMap",
    "CoreEventSeries",
    "Event",
    "EventSource",
    "LimitRange",
    "LimitRangeItem",
    "LimitRangeSpec",
    "Namespace",
    "NamespaceSpec",
    "NamespaceStatus",
    "ReplicationController",
    "ReplicationControllerSpec",
    "ReplicationControllerStatus",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ScopeRequirement",
    "ScopeSelector",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServicePort",
    "ServiceSpec",
]


class NamespaceSpec(ApiStruct):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(ApiStruct):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()


class Namespace(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"

    metadata: ObjectMeta = ObjectMeta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(ApiStruct):
    name: str = ""
    protocol: str = ""
    app_protocol: str | None = None
    port: Int32 = 0
    target_port: IntOrString | None = None
    node_port: Int32 = 0


class ServiceSpec(ApiStruct):
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] | None = None  # None selects no pods, empty selects all
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    cluster_ips: tuple[str, ...] = msgspec.field(name="clusterIPs", default=())
    type: str = ""
    session_affinity: str = ""
    internal_traffic_policy: str | None = None
    ip_families: tuple[str, ...] = ()
    ip_family_policy: str | None = None


class Service(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(ApiStruct):
    replicas: Int32 | None = None
    min_ready_seconds: Int32 = 0
    selector: dict[str, str] | None = None
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(ApiStruct):
    replicas: Int32 = 0
    fully_labeled_replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    observed_generation: Int64 = 0


class ReplicationController(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()


class EventSource(ApiStruct):
    component: str = ""
    host: str = ""


class CoreEventSeries(ApiStruct):
    """Repetitions of a core event; `events.EventSeries` is the type of events.k8s.io."""

    count: Int32 = 0
    last_observed_time: str | None = None


class Event(ApiObject):
    """The core event; the scheduler writes `events.Event`."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Event"

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: Int32 = 0
    type: str = ""
    event_time: str | None = None
    series: CoreEventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""


class Binding(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Binding"

    metadata: ObjectMeta = ObjectMeta()
    target: ObjectReference = ObjectReference()


class ConfigMap(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ConfigMap"

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}


class Secret(ApiObject):
    """A secret; values in `data` stay base64 text."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Secret"

    metadata: ObjectMeta = ObjectMeta()
    immutable: bool | None = None
    data: dict[str, str] = {}
    string_data: dict[str, str] = {}
    type: str = ""


class ServiceAccount(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ServiceAccount"

    metadata: ObjectMeta = ObjectMeta()
    automount_service_account_token: bool | None = None


class ScopeRequirement(ApiStruct):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(ApiStruct):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(ApiStruct):
    hard: ResourceList = {}
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(ApiStruct):
    hard: ResourceList = {}
    used: ResourceList = {}


class ResourceQuota(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ResourceQuota"

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(ApiStruct):
    type: str = ""
    max: ResourceList = {}
    min: ResourceList = {}
    default: ResourceList = {}
    default_request: ResourceList = {}
    max_limit_request_ratio: ResourceList = {}


class LimitRangeSpec(ApiStruct):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(ApiObject):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "LimitRange"

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()
