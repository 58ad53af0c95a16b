"""The resources that the server serves: their names, types and strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kubesched.api.core import Event as CoreEvent
from kubesched.api.kinds import KINDS, Kind
from kubesched.api.plain_kinds import PLAIN_KINDS
from kubesched.api.scheduling import PodGroup, Workload
from kubesched.cluster.apiserver.rules.custom import CustomSchema, CustomStrategy
from kubesched.cluster.apiserver.rules.strategies.autoscaler_versions import (
    from_version_1,
    to_version_1,
)
from kubesched.cluster.apiserver.rules.strategies.config_data_strategies import (
    ConfigMapStrategy,
    ControllerRevisionStrategy,
    SecretStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.core_strategies import (
    BudgetStrategy,
    LeaseStrategy,
    LimitRangeStrategy,
    NamespaceStrategy,
    PriorityClassStrategy,
    ResourceQuotaStrategy,
    ServiceStrategy,
    StatusStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.device_strategies import (
    ResourceClaimStrategy,
    ResourceClaimTemplateStrategy,
    ResourceSliceStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.event_strategy import (
    EventStrategy,
    from_core,
    to_core,
)
from kubesched.cluster.apiserver.rules.strategies.node_strategy import NodeStrategy
from kubesched.cluster.apiserver.rules.strategies.plain_strategy import PLAIN_STRATEGIES
from kubesched.cluster.apiserver.rules.strategies.pod_group_strategies import (
    PodGroupStrategy,
    WorkloadStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.pod_strategy import PodStrategy
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.strategies.server_features import (
    ALL_FEATURES,
    COMPARISONS,
    POD_GROUPS,
)
from kubesched.cluster.apiserver.rules.strategies.volume_strategies import (
    CSIDriverStrategy,
    PersistentVolumeClaimStrategy,
    PersistentVolumeStrategy,
    StorageClassStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.workload_strategies import (
    CronJobStrategy,
    DaemonSetStrategy,
    DeploymentStrategy,
    JobStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
    StatefulSetStrategy,
)

__all__ = ["Resource", "built_in_resources", "custom_resource"]


class Resource(msgspec.Struct, frozen=True, eq=False):
    """A resource of the API, in one version. Resources are compared by identity."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    strategy: ResourceStrategy
    # The struct type of its objects; None for custom resources.
    type: type[msgspec.Struct] | None = None
    # The plural with its group, as in messages: `leases.coordination.k8s.io`.
    group_resource: str = ""
    group_kind: str = ""
    # For an API version that is not the stored one: conversions to and from the stored form.
    to_stored: Callable[[Json], Json] | None = None
    from_stored: Callable[[Json], Json] | None = None
    # Removes the fields that the stored version does not have, after validation.
    prune_for_store: Callable[[Json], Json] | None = None
    short_names: tuple[str, ...] = ()
    # Names of groups of resources, such as `all`.
    categories: tuple[str, ...] = ()
    # The warning for clients that use this version; empty if it is not deprecated.
    deprecation: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_STRATEGIES: dict[str, ResourceStrategy] = {
    "ConfigMap": ConfigMapStrategy(),
    "Secret": SecretStrategy(),
    "ControllerRevision": ControllerRevisionStrategy(),
    **PLAIN_STRATEGIES,
    "Namespace": NamespaceStrategy(),
    "PriorityClass": PriorityClassStrategy(),
    "StorageClass": StorageClassStrategy(),
    "CSIDriver": CSIDriverStrategy(),
    "Node": NodeStrategy(),
    "ResourceSlice": ResourceSliceStrategy(),
    "DeviceTaintRule": StatusStrategy(),
    "PersistentVolume": PersistentVolumeStrategy(),
    "PersistentVolumeClaim": PersistentVolumeClaimStrategy(),
    "VolumeAttachment": StatusStrategy(),
    "ResourceClaimTemplate": ResourceClaimTemplateStrategy(),
    "ResourceClaim": ResourceClaimStrategy(),
    "Service": ServiceStrategy(),
    "PodDisruptionBudget": BudgetStrategy(),
    "ReplicationController": ReplicationControllerStrategy(),
    "ReplicaSet": ReplicaSetStrategy(),
    "StatefulSet": StatefulSetStrategy(),
    "Deployment": DeploymentStrategy(),
    "DaemonSet": DaemonSetStrategy(),
    "Job": JobStrategy(),
    "CronJob": CronJobStrategy(),
    "ResourceQuota": ResourceQuotaStrategy(),
    "LimitRange": LimitRangeStrategy(),
    "Lease": LeaseStrategy(),
    "Event": EventStrategy(),
}
_PLAIN = ResourceStrategy()
_GROUP_KINDS = {PodGroup.kind, Workload.kind}
_ALL = frozenset(
    {
        "cronjobs",
        "daemonsets",
        "deployments",
        "horizontalpodautoscalers",
        "jobs",
        "pods",
        "replicasets",
        "replicationcontrollers",
        "services",
        "statefulsets",
    }
)
_CATEGORIES = dict.fromkeys(
    ("admissionregistration.k8s.io", "apiregistration.k8s.io"), ("api-extensions",)
)
# Conversions to the stored form and back, for API versions that are not the stored one.
_CONVERSIONS: dict[tuple[str, str], tuple[Callable[[Json], Json], Callable[[Json], Json]]] = {
    (CoreEvent.api_version, CoreEvent.kind): (from_core, to_core),
    ("autoscaling/v1", "HorizontalPodAutoscaler"): (from_version_1, to_version_1),
}


def _qualified(name: str, group: str) -> str:
    return f"{name}.{group}" if group else name


def _strategies_of(features: frozenset[str]) -> dict[str, ResourceStrategy]:
    """Create the strategies of kinds whose fields depend on features."""
    return {
        "Pod": PodStrategy(has_groups=POD_GROUPS in features, compares=COMPARISONS in features),
        "PodGroup": PodGroupStrategy(features),
        "Workload": WorkloadStrategy(features),
    }


def _built_in(kind: Kind, gated: dict[str, ResourceStrategy]) -> Resource:
    # The reference's messages name both API groups of events as one resource: the core one.
    group = "" if kind.kind == "Event" else kind.group
    to_stored, from_stored = _CONVERSIONS.get((kind.api_version, kind.kind), (None, None))
    return Resource(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        strategy=gated.get(kind.kind) or _STRATEGIES.get(kind.kind, _PLAIN),
        type=kind.type,
        group_resource=_qualified(kind.plural, group),
        group_kind=_qualified(kind.kind, group),
        to_stored=to_stored,
        from_stored=from_stored,
        short_names=kind.short_names,
        categories=_CATEGORIES.get(kind.group, ("all",) if kind.plural in _ALL else ()),
    )


def built_in_resources(features: frozenset[str] = ALL_FEATURES) -> Iterable[Resource]:
    """Create a resource for every kind in `kubesched.api` except bindings, which are not stored.

    Kinds and fields that need a feature exist only if `features` has it.
    """
    gated = _strategies_of(features)
    excluded = {"Binding"} | (set() if POD_GROUPS in features else _GROUP_KINDS)
    kinds = (*KINDS, *PLAIN_KINDS)
    return (_built_in(kind, gated) for kind in kinds if kind.kind not in excluded)


def custom_resource(
    group: str,
    version: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool = True,
    has_status: bool = False,
    custom: CustomSchema | None = None,
    short_names: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    deprecation: str = "",
) -> Resource:
    """Create a resource without a struct type. Without a schema, its objects are not checked."""
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        strategy=CustomStrategy(custom, has_status=has_status),
        group_resource=_qualified(plural, group),
        group_kind=_qualified(kind, group),
        short_names=short_names,
        categories=categories,
        deprecation=deprecation,
    )
