"""Scheduler configuration: types, plugin names, defaults, validation, feature gates."""

from __future__ import annotations

from kubesched.config.args import (
    IN_TREE_ARGS,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kubesched.config.defaults import default_configuration, default_plugins, default_profile
from kubesched.config.expansion import ExpandedPlugins, expand_plugins
from kubesched.config.feature_gates import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    parse_feature_gates,
)
from kubesched.config.merge import merge_plugins
from kubesched.config.plugin_names import EXTENSION_POINTS
from kubesched.config.types import (
    ClientConnectionConfiguration,
    Extender,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)

__all__ = [
    "DEFAULT_FEATURE_GATES",
    "EXTENSION_POINTS",
    "IN_TREE_ARGS",
    "ClientConnectionConfiguration",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "ExpandedPlugins",
    "Extender",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "InterPodAffinityArgs",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElectionConfiguration",
    "NodeAffinityArgs",
    "NodeResourcesBalancedAllocationArgs",
    "NodeResourcesFitArgs",
    "PluginArgs",
    "PluginConfig",
    "PluginRef",
    "PluginSet",
    "Plugins",
    "PodTopologySpreadArgs",
    "RequestedToCapacityRatioParam",
    "ResourceSpec",
    "ScoringStrategy",
    "UtilizationShapePoint",
    "VolumeBindingArgs",
    "default_configuration",
    "default_plugins",
    "default_profile",
    "expand_plugins",
    "merge_plugins",
    "parse_feature_gates",
]
