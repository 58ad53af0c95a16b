"""Scheduler configuration: types, plugin names, defaults, validation, feature gates."""

from __future__ import annotations

from kubesched.scheduler.config.args import (
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
from kubesched.scheduler.config.args_validation import validate_plugin_args
from kubesched.scheduler.config.configuration_completion import (
    as_written,
    complete_configuration,
    expand_profiles,
    ordered_extenders,
)
from kubesched.scheduler.config.configuration_validation import validate_configuration
from kubesched.scheduler.config.defaults import (
    default_configuration,
    default_plugins,
    default_profile,
)
from kubesched.scheduler.config.feature_gates import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    parse_feature_gates,
)
from kubesched.scheduler.config.field_errors import InvalidConfigurationError
from kubesched.scheduler.config.flag_overrides import (
    apply_deprecated_flags,
    apply_leader_election_flags,
)
from kubesched.scheduler.config.load import (
    configuration_from_builtins,
    load_configuration,
    load_configuration_file,
)
from kubesched.scheduler.config.plugin_lists import ExpandedPlugins, expand_plugins, merge_plugins
from kubesched.scheduler.config.plugin_names import EXTENSION_POINTS
from kubesched.scheduler.config.types import (
    ClientConnectionConfiguration,
    ExtenderConfig,
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
from kubesched.scheduler.config.write import versioned, written

__all__ = [
    "DEFAULT_FEATURE_GATES",
    "EXTENSION_POINTS",
    "IN_TREE_ARGS",
    "ClientConnectionConfiguration",
    "DefaultPreemptionArgs",
    "DynamicResourcesArgs",
    "ExpandedPlugins",
    "ExtenderConfig",
    "ExtenderManagedResource",
    "ExtenderTLSConfig",
    "FeatureGates",
    "InterPodAffinityArgs",
    "InvalidConfigurationError",
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
    "apply_deprecated_flags",
    "apply_leader_election_flags",
    "as_written",
    "complete_configuration",
    "configuration_from_builtins",
    "default_configuration",
    "default_plugins",
    "default_profile",
    "expand_plugins",
    "expand_profiles",
    "load_configuration",
    "load_configuration_file",
    "merge_plugins",
    "ordered_extenders",
    "parse_feature_gates",
    "validate_configuration",
    "validate_plugin_args",
    "versioned",
    "written",
]
