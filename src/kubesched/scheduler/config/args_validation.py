"""Rules for plugin arguments (docs/reference/01 §8.3, §8.4).

The rules run twice: for the configuration, with full paths, and when a plugin is built, with paths
relative to its arguments. As in the reference, NodeResourcesFit is checked only when it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kubesched.api import NodeAffinity, NodeSelectorTerm, TopologySpreadConstraint
from kubesched.api.affinity import NodeSelectorRequirement
from kubesched.api.validation import label_key_errors, label_value_errors
from kubesched.scheduler.config import args as plugin_args
from kubesched.scheduler.config import plugin_names as names
from kubesched.scheduler.config.config_struct import SECOND
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_duration,
    join,
    raise_all,
    required,
    unsupported,
)

__all__ = ["args_errors", "validate_plugin_args"]

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_SCORING_STRATEGIES: Final = (
    plugin_args.LEAST_ALLOCATED,
    plugin_args.MOST_ALLOCATED,
    plugin_args.REQUESTED_TO_CAPACITY_RATIO,
)
_PERCENT: Final = "not in valid range [0, 100]"

Errors = Iterator[FieldError]


def validate_plugin_args(
    name: str, args: Any, *, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> None:
    """Check a plugin's arguments as its constructor does; plugins without rules pass.

    Raises:
        InvalidConfigurationError: every violated rule, with paths relative to the arguments.
    """
    if name in _RULES:
        raise_all(_RULES[name].check("", args, gates))


def args_errors(path: str, name: str, args: Any, gates: FeatureGates) -> Errors:
    """Return the violations in a `pluginConfig` entry, for the check of a configuration."""
    rules = _CONFIGURATION_RULES.get(name)
    if rules is None:
        return
    if isinstance(args, rules.type):
        yield from rules.check(path, args, gates)
    else:
        yield invalid(path, args, "has to match plugin args")


def _default_preemption(
    path: str, args: plugin_args.DefaultPreemptionArgs, _gates: FeatureGates
) -> Errors:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = join(path, "minCandidateNodesPercentage")
    absolute_path = join(path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield invalid(percentage_path, percentage, _PERCENT)
    if absolute < 0:
        yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as"
        yield invalid(percentage_path, percentage, f"{text} minCandidateNodesAbsolute")
        yield invalid(absolute_path, absolute, f"{text} minCandidateNodesPercentage")


def _inter_pod_affinity(
    path: str, args: plugin_args.InterPodAffinityArgs, _gates: FeatureGates
) -> Errors:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield invalid(join(path, "hardPodAffinityWeight"), weight, _PERCENT)


def _node_affinity(path: str, args: plugin_args.NodeAffinityArgs, _gates: FeatureGates) -> Errors:
    if args.added_affinity is not None:
        yield from _affinity(join(path, "addedAffinity"), args.added_affinity)


def _affinity(path: str, affinity: NodeAffinity) -> Errors:
    selector = affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        terms_path = join(path, "requiredDuringSchedulingIgnoredDuringExecution")
        for index, term in enumerate(selector.node_selector_terms):
            yield from _term(f"{terms_path}.nodeSelectorTerms[{index}]", term)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution or ()
    terms_path = join(path, "preferredDuringSchedulingIgnoredDuringExecution")
    for index, weighted in enumerate(preferred):
        if weighted.weight:
            yield from _term(f"{terms_path}[{index}]", weighted.preference)


def _term(path: str, term: NodeSelectorTerm) -> Errors:
    for index, requirement in enumerate(term.match_expressions):
        yield from _expression(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields):
        field_path = f"{path}.matchFields[{index}]"
        if requirement.operator not in _FIELD_OPERATORS:
            yield unsupported(f"{field_path}.operator", requirement.operator, _FIELD_OPERATORS)
        elif len(requirement.values) != 1:
            yield _values_error(field_path, requirement, "must have one element")


def _expression(path: str, requirement: NodeSelectorRequirement) -> Errors:
    operator, values = requirement.operator, requirement.values
    if operator not in _OPERATORS:
        yield unsupported(f"{path}.operator", operator, _OPERATORS)
        return
    if complaints := label_key_errors(requirement.key):
        yield invalid(f"{path}.key", requirement.key, "; ".join(complaints))
    match operator:
        case "In" | "NotIn" if not values:
            text = "for 'in', 'notin' operators, values set can't be empty"
            yield _values_error(path, requirement, text)
        case "Exists" | "DoesNotExist" if values:
            text = "values set must be empty for exists and does not exist"
            yield _values_error(path, requirement, text)
        case "Gt" | "Lt":
            yield from _bounds(path, requirement)
    for index, value in enumerate(values):
        if complaints := label_value_errors(value):
            value_path = f"{path}.values[{index}][{requirement.key}]"
            yield invalid(value_path, value, "; ".join(complaints))


def _bounds(path: str, requirement: NodeSelectorRequirement) -> Errors:
    if len(requirement.values) != 1:
        text = "for 'Gt', 'Lt' operators, exactly one value is required"
        yield _values_error(path, requirement, text)
    for index, value in enumerate(requirement.values):
        if not _is_int64(value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(f"{path}.values[{index}]", value, text)


def _values_error(path: str, requirement: NodeSelectorRequirement, detail: str) -> FieldError:
    # An empty list was most likely left out, which prints as null.
    shown = list(requirement.values) or None
    error = invalid(f"{path}.values", shown, detail)
    return error if shown else FieldError(error.path, error.kind, "null", detail)


def _is_int64(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdigit() and -(2**63) <= int(text) < 2**63


def _balanced_allocation(
    path: str, args: plugin_args.NodeResourcesBalancedAllocationArgs, _gates: FeatureGates
) -> Errors:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        resource_path = join(path, f"resources[{index}]")
        if resource.name in seen:
            yield duplicate(f"{resource_path}.name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield invalid(f"{resource_path}.weight", resource.weight, "must be 1")


def _resources_fit(
    path: str, args: plugin_args.NodeResourcesFitArgs, _gates: FeatureGates
) -> Errors:
    for index, name in enumerate(args.ignored_resources):
        yield from _label_key(join(path, f"ignoredResources[{index}]"), name)
    for index, group in enumerate(args.ignored_resource_groups):
        group_path = join(path, f"ignoredResourceGroups[{index}]")
        if "/" in group:
            yield invalid(group_path, group, "resource group name can't contain '/'")
        yield from _label_key(group_path, group)
    strategy_path = join(path, "scoringStrategy")
    if args.scoring_strategy is None:
        yield required(strategy_path, "ScoringStrategy field is required")
    else:
        yield from _scoring_strategy(strategy_path, args.scoring_strategy)


def _scoring_strategy(path: str, strategy: plugin_args.ScoringStrategy) -> Errors:
    if strategy.type not in _SCORING_STRATEGIES:
        yield unsupported(f"{path}.type", strategy.type, _SCORING_STRATEGIES)
    for index, resource in enumerate(strategy.resources):
        if not 1 <= resource.weight <= 100:
            text = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(f"{path}.resources[{index}].weight", resource.weight, text)
    ratio, ratio_path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    wants_ratio = strategy.type == plugin_args.REQUESTED_TO_CAPACITY_RATIO
    if wants_ratio and ratio is None:
        text = "must be specified when type is RequestedToCapacityRatio"
        yield required(ratio_path, text)
    elif wants_ratio and ratio is not None:
        yield from _shape(f"{ratio_path}.shape", ratio.shape)
    elif ratio is not None:
        yield forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio")


def _shape(path: str, shape: tuple[plugin_args.UtilizationShapePoint, ...]) -> Errors:
    if not shape:
        yield required(path, "at least one point must be specified")
        return
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            text = "values must be sorted in increasing order"
            yield invalid(f"{path}[{index}].utilization", shape[index].utilization, text)
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield invalid(f"{path}[{index}].utilization", point.utilization, _PERCENT)
        if not 0 <= point.score <= 10:
            yield invalid(f"{path}[{index}].score", point.score, "not in valid range [0, 10]")


def _pod_topology_spread(
    path: str, args: plugin_args.PodTopologySpreadArgs, _gates: FeatureGates
) -> Errors:
    supported = (plugin_args.SYSTEM_DEFAULTING, plugin_args.LIST_DEFAULTING)
    type_path = join(path, "defaultingType")
    if args.defaulting_type not in supported:
        yield unsupported(type_path, args.defaulting_type, supported)
    elif args.defaulting_type == plugin_args.SYSTEM_DEFAULTING and args.default_constraints:
        text = "when .defaultConstraints are not empty"
        yield invalid(type_path, args.defaulting_type, text)
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        constraint_path = join(path, f"defaultConstraints[{index}]")
        yield from _constraint(constraint_path, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            yield duplicate(constraint_path, f"{{{key[0]}, {key[1]}}}")
        seen.add(key)


def _constraint(path: str, constraint: TopologySpreadConstraint) -> Errors:
    if constraint.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if not constraint.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from _label_key(f"{path}.topologyKey", constraint.topology_key)
    action, supported = constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in supported:
        yield unsupported(f"{path}.whenUnsatisfiable", action, supported)
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        yield forbidden(f"{path}.labelSelector", text)


def _volume_binding(path: str, args: plugin_args.VolumeBindingArgs, gates: FeatureGates) -> Errors:
    if args.bind_timeout_seconds < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        yield invalid(join(path, "bindTimeoutSeconds"), args.bind_timeout_seconds, text)
    if gates.enabled("StorageCapacityScoring"):
        yield from _shape(join(path, "shape"), args.shape or ())
    elif args.shape is not None:
        text = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        yield invalid(join(path, "shape"), args.shape, text)


def _dynamic_resources(
    path: str, args: plugin_args.DynamicResourcesArgs, gates: FeatureGates
) -> Errors:
    if (timeout := args.filter_timeout_ns) is not None:
        timeout_path = join(path, "filterTimeout")
        if not gates.enabled("DRASchedulerFilterTimeout"):
            yield forbidden(timeout_path, "DRASchedulingFilterTimeout feature gate is disabled")
        elif timeout < 0:
            yield invalid_duration(timeout_path, timeout, "must be zero or positive")
    if (timeout := args.binding_timeout_ns) is not None:
        timeout_path = join(path, "bindingTimeout")
        gate_names = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if not all(map(gates.enabled, gate_names)):
            text = f"{' or '.join(gate_names)} feature gate is disabled"
            yield forbidden(timeout_path, text)
        elif timeout < SECOND:
            yield invalid_duration(timeout_path, timeout, "must be at least 1 second")


def _label_key(path: str, key: str) -> Errors:
    for complaint in label_key_errors(key):
        yield invalid(path, key, complaint)


class _Rules(NamedTuple):
    type: type
    check: Callable[[str, Any, FeatureGates], Errors]


_RULES: Final[Mapping[str, _Rules]] = {
    names.DEFAULT_PREEMPTION: _Rules(plugin_args.DefaultPreemptionArgs, _default_preemption),
    names.DYNAMIC_RESOURCES: _Rules(plugin_args.DynamicResourcesArgs, _dynamic_resources),
    names.INTER_POD_AFFINITY: _Rules(plugin_args.InterPodAffinityArgs, _inter_pod_affinity),
    names.NODE_AFFINITY: _Rules(plugin_args.NodeAffinityArgs, _node_affinity),
    names.NODE_RESOURCES_BALANCED_ALLOCATION: _Rules(
        plugin_args.NodeResourcesBalancedAllocationArgs, _balanced_allocation
    ),
    names.NODE_RESOURCES_FIT: _Rules(plugin_args.NodeResourcesFitArgs, _resources_fit),
    names.POD_TOPOLOGY_SPREAD: _Rules(plugin_args.PodTopologySpreadArgs, _pod_topology_spread),
    names.VOLUME_BINDING: _Rules(plugin_args.VolumeBindingArgs, _volume_binding),
}
# The reference looks NodeResourcesFit up under a name that no plugin has.
_CONFIGURATION_RULES: Final[Mapping[str, _Rules]] = {
    f"{name}Args" if name == names.NODE_RESOURCES_FIT else name: rules
    for name, rules in _RULES.items()
}
