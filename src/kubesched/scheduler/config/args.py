"""The arguments of in-tree plugins (docs/reference/01 §8.3).

A value that is built without arguments has the defaults. Where a default depends on a feature
gate, the class has the one for the default gates; `defaults.py` has the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubesched.api import NodeAffinity, TopologySpreadConstraint
from kubesched.scheduler.config import plugin_names as names
from kubesched.scheduler.config.config_struct import (
    MINUTE,
    SECOND,
    ConfigStruct,
    DurationNs,
    Int32,
    Int64,
)

__all__ = [
    "DEFAULT_RESOURCES",
    "IN_TREE_ARGS",
    "LEAST_ALLOCATED",
    "LIST_DEFAULTING",
    "MOST_ALLOCATED",
    "REQUESTED_TO_CAPACITY_RATIO",
    "SYSTEM_DEFAULTING",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "InterPodAffinityArgs",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PodTopologySpreadArgs",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
]

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"

SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"


class PluginArgs(ConfigStruct):
    """The base of the arguments of every in-tree plugin."""


class ResourceSpec(ConfigStruct):
    """A resource and its weight in a score."""

    name: str = ""
    weight: Int64 = 0


class UtilizationShapePoint(ConfigStruct):
    """One point of a piecewise linear function from utilization (0-100) to score (0-10)."""

    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(ConfigStruct):
    """The scoring function of RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigStruct):
    """The scoring strategy of NodeResourcesFit. A strategy in a file must have a type."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


DEFAULT_RESOURCES: Final = (
    ResourceSpec(name="cpu", weight=1),
    ResourceSpec(name="memory", weight=1),
)


class DefaultPreemptionArgs(PluginArgs):
    """The number of candidate nodes of a preemption attempt."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class InterPodAffinityArgs(PluginArgs):
    """The weights of existing pods' affinity terms in the score."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(PluginArgs):
    """Node affinity that is added to every pod of the profile."""

    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """The resources whose utilization should be balanced."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesFitArgs(PluginArgs):
    """Resources that are not checked, and the scoring strategy."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = ScoringStrategy(
        type=LEAST_ALLOCATED, resources=DEFAULT_RESOURCES
    )


class PodTopologySpreadArgs(PluginArgs):
    """Constraints for pods that define none."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = SYSTEM_DEFAULTING


class VolumeBindingArgs(PluginArgs):
    """The time limit of binding, and the scoring function of free capacity."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(PluginArgs):
    """Time limits of device allocation; None: no limit, or the built-in one for binding."""

    filter_timeout_ns: DurationNs | None = msgspec.field(name="filterTimeout", default=10 * SECOND)
    binding_timeout_ns: DurationNs | None = msgspec.field(
        name="bindingTimeout", default=10 * MINUTE
    )


# Keyed by plugin name; the kind in the file is the name plus "Args".
IN_TREE_ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    names.DEFAULT_PREEMPTION: DefaultPreemptionArgs,
    names.DYNAMIC_RESOURCES: DynamicResourcesArgs,
    names.INTER_POD_AFFINITY: InterPodAffinityArgs,
    names.NODE_AFFINITY: NodeAffinityArgs,
    names.NODE_RESOURCES_BALANCED_ALLOCATION: NodeResourcesBalancedAllocationArgs,
    names.NODE_RESOURCES_FIT: NodeResourcesFitArgs,
    names.POD_TOPOLOGY_SPREAD: PodTopologySpreadArgs,
    names.VOLUME_BINDING: VolumeBindingArgs,
}
