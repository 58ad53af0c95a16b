"""The defaults of fields that a file omits (docs/reference/01 §3, §5.1, §8.2).

Most defaults are in the types. This module has those that depend on feature gates or on other
fields, and those that also replace an explicit zero.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.scheduler.config import args as plugin_args
from kubesched.scheduler.config import plugin_names as names
from kubesched.scheduler.config.args import IN_TREE_ARGS, ResourceSpec, UtilizationShapePoint
from kubesched.scheduler.config.config_struct import MINUTE
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.types import (
    ClientConnectionConfiguration,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    PluginRef,
    Plugins,
    PluginSet,
)

__all__ = [
    "POD_MAX_IN_UNSCHEDULABLE_PODS_NS",
    "build_args",
    "default_configuration",
    "default_plugins",
    "default_profile",
    "with_client_connection_defaults",
    "with_default_plugin_config",
    "with_leader_election_defaults",
]

POD_MAX_IN_UNSCHEDULABLE_PODS_NS: Final = 5 * MINUTE  # only a flag can change it, no file

_StructT = TypeVar("_StructT", bound=msgspec.Struct)

_MULTI_POINT: Final = (
    PluginRef(names.SCHEDULING_GATES),
    PluginRef(names.PRIORITY_SORT),
    PluginRef(names.NODE_UNSCHEDULABLE),
    PluginRef(names.NODE_NAME),
    PluginRef(names.TAINT_TOLERATION, 3),
    PluginRef(names.NODE_AFFINITY, 2),
    PluginRef(names.NODE_PORTS),
    PluginRef(names.NODE_RESOURCES_FIT, 1),
    PluginRef(names.VOLUME_RESTRICTIONS),
    PluginRef(names.NODE_VOLUME_LIMITS),
    PluginRef(names.VOLUME_BINDING),
    PluginRef(names.VOLUME_ZONE),
    PluginRef(names.POD_TOPOLOGY_SPREAD, 2),
    PluginRef(names.INTER_POD_AFFINITY, 2),
    PluginRef(names.DYNAMIC_RESOURCES, 2),
    PluginRef(names.DEFAULT_PREEMPTION),
    PluginRef(names.NODE_RESOURCES_BALANCED_ALLOCATION, 1),
    PluginRef(names.IMAGE_LOCALITY, 1),
    PluginRef(names.DEFAULT_BINDER),
)
# Appended in this order where the gate is on.
_GATED: Final = (
    ("NodeDeclaredFeatures", PluginRef(names.NODE_DECLARED_FEATURES)),
    ("GangScheduling", PluginRef(names.GANG_SCHEDULING)),
    ("TopologyAwareWorkloadScheduling", PluginRef(names.TOPOLOGY_PLACEMENT_GENERATOR)),
    ("TopologyAwareWorkloadScheduling", PluginRef(names.POD_GROUP_PODS_COUNT, 1)),
)
_STORAGE_CAPACITY_SHAPE: Final = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)


def default_plugins(gates: FeatureGates = DEFAULT_FEATURE_GATES) -> Plugins:
    """The built-in plugin lists; only `multiPoint` has any."""
    always: tuple[PluginRef, ...] = _MULTI_POINT
    if not gates.enabled("DynamicResourceAllocation"):
        always = tuple(ref for ref in always if ref.name != names.DYNAMIC_RESOURCES)
    gated = tuple(ref for gate, ref in _GATED if gates.enabled(gate))
    return Plugins(multi_point=PluginSet(enabled=always + gated))


def default_profile(
    scheduler_name: str = names.DEFAULT_SCHEDULER_NAME,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] = IN_TREE_ARGS,
) -> KubeSchedulerProfile:
    """Return the profile that the reference uses without a file."""
    plugins = default_plugins(gates)
    return KubeSchedulerProfile(
        scheduler_name=scheduler_name,
        plugins=plugins,
        plugin_config=with_default_plugin_config((), plugins, gates=gates, known_args=known_args),
    )


def default_configuration(
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler without a file."""
    return KubeSchedulerConfiguration(profiles=(default_profile(gates=gates),))


def with_default_plugin_config(
    given: Sequence[PluginConfig],
    plugins: Plugins,
    *,
    gates: FeatureGates,
    known_args: Mapping[str, type],
) -> tuple[PluginConfig, ...]:
    """Add default arguments for every enabled plugin that has none in the file."""
    named = {entry.name for entry in given}
    added = (
        PluginConfig(name, build_args(known_args[name], {}, gates))
        for name in sorted(plugins.enabled_names() - named)
        if name in known_args and _has_defaults(known_args[name])
    )
    return (*given, *added)


def build_args(args_type: type, given: Mapping[str, Any], gates: FeatureGates) -> Any:
    """Build a plugin's arguments from decoded members, with defaults for the others.

    Raises:
        msgspec.ValidationError: `given` does not fulfil the requirements of the plugin's type.
    """
    members = {**_absent_by_gate(args_type, gates), **given}
    return _complete(msgspec.convert(members, args_type, strict=True), gates)


def with_leader_election_defaults(
    given: LeaderElectionConfiguration,
) -> LeaderElectionConfiguration:
    """Set the default of every zero or empty field, except `leaderElect`."""
    return _nonzero(given, LeaderElectionConfiguration(leader_elect=given.leader_elect))


def with_client_connection_defaults(
    given: ClientConnectionConfiguration,
) -> ClientConnectionConfiguration:
    """Give every zero or empty field its default."""
    return _nonzero(given, ClientConnectionConfiguration())


def _nonzero(given: _StructT, defaults: _StructT) -> _StructT:
    values = msgspec.structs.asdict(given)
    return replace(defaults, **{name: value for name, value in values.items() if value})


@functools.lru_cache(maxsize=256)
def _has_defaults(args_type: type) -> bool:
    """Whether a type has a default for every field."""
    return not any(field.required for field in msgspec.structs.fields(args_type))


def _absent_by_gate(args_type: type, gates: FeatureGates) -> dict[str, Any]:
    """Return the members that have no default while a gate is off."""
    absent: dict[str, Any] = {}
    if args_type is plugin_args.DynamicResourcesArgs:
        if not gates.enabled("DRASchedulerFilterTimeout"):
            absent["filterTimeout"] = None
        if not (
            gates.enabled("DRADeviceBindingConditions")
            and gates.enabled("DRAResourceClaimDeviceStatus")
        ):
            absent["bindingTimeout"] = None
    return absent


def _complete(args: Any, gates: FeatureGates) -> Any:
    match args:
        case plugin_args.NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_with_weights(args.resources))
        case plugin_args.NodeResourcesFitArgs(scoring_strategy=strategy) if strategy is not None:
            resources = _with_weights(strategy.resources)
            return replace(args, scoring_strategy=replace(strategy, resources=resources))
        case plugin_args.VolumeBindingArgs(shape=shape) if not shape:
            if gates.enabled("StorageCapacityScoring"):
                return replace(args, shape=_STORAGE_CAPACITY_SHAPE)
    return args


def _with_weights(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    if not resources:
        return plugin_args.DEFAULT_RESOURCES
    return tuple(replace(spec, weight=spec.weight or 1) for spec in resources)
