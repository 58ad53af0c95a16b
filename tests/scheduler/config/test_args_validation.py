"""Rules for plugin arguments (docs/reference/01 §8.3, §8.4; §17 rows 53-64)."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    FeatureGates,
    NodeResourcesFitArgs,
    complete_configuration,
    configuration_from_builtins,
    validate_plugin_args,
)

NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NO_DEVICE_GATES = {"DRASchedulerFilterTimeout": False, "DRADeviceBindingConditions": False}


def required(**term: Any) -> dict[str, Any]:
    return {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{}, term]}}}


def expression(**requirement: Any) -> dict[str, Any]:
    return required(matchExpressions=[{"key": "a", **requirement}])


def fit(**strategy: Any) -> dict[str, Any]:
    return {"scoringStrategy": strategy}


def ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return fit(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def spread(*constraints: dict[str, Any], kind: str = "List") -> dict[str, Any]:
    return {"defaultingType": kind, "defaultConstraints": list(constraints)}


def constraint(**members: Any) -> dict[str, Any]:
    usual = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return {**usual, **members}


def build(name: str, args: Any, gates: dict[str, bool] | None = None) -> None:
    """Load and build a profile that gives a plugin these arguments."""
    chosen = FeatureGates(gates or {})
    configuration = configuration_from_builtins(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": name, "args": args}]}],
        },
        gates=chosen,
    )
    complete_configuration(configuration, gates=chosen)


Case = tuple[str, Any, str]
ERRORS: dict[str, Case] = {
    "no candidates at all": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        "[minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as "
        "minCandidateNodesAbsolute, minCandidateNodesAbsolute: Invalid value: 0: cannot be zero "
        "at the same time as minCandidateNodesPercentage]",
    ),
    "affinity weight": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 101},
        "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
    ),
    "label key that is none": (
        "NodeAffinity",
        expression(key="", operator="Exists"),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].key: "
        f'Invalid value: "": name part must be non-empty; {NAME_TEXT}',
    ),
    "values missing": (
        "NodeAffinity",
        expression(operator="NotIn"),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: "
        "null: for 'in', 'notin' operators, values set can't be empty",
    ),
    "values where none belong": (
        "NodeAffinity",
        expression(operator="DoesNotExist", values=["x"]),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: "
        '["x"]: values set must be empty for exists and does not exist',
    ),
    "two bounds": (
        "NodeAffinity",
        expression(operator="Gt", values=["1", "2"]),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values: Invalid value: "
        "[\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
    ),
    "bound that is no number": (
        "NodeAffinity",
        expression(operator="Lt", values=["x"]),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchExpressions[0].values[0]: "
        "Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    "field by another operator": (
        "NodeAffinity",
        required(matchFields=[{"key": "metadata.name", "operator": "Exists"}]),
        f"addedAffinity.{REQUIRED}.nodeSelectorTerms[1].matchFields[0].operator: "
        'Unsupported value: "Exists": supported values: "In", "NotIn"',
    ),
    "preferred term without its segment in the path": (
        "NodeAffinity",
        {
            "addedAffinity": {
                PREFERRED: [
                    {
                        "weight": 1,
                        "preference": {"matchFields": [{"key": "metadata.name", "operator": "In"}]},
                    }
                ]
            }
        },
        f"addedAffinity.{PREFERRED}[0].matchFields[0].values: Invalid value: null: "
        "must have one element",
    ),
    "weight in balanced allocation": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}, {"name": "cpu", "weight": 2}]},
        '[resources[1].name: Duplicate value: "cpu", '
        "resources[1].weight: Invalid value: 2: must be 1]",
    ),
    "unknown defaulting type": (
        "PodTopologySpread",
        {"defaultingType": "Other"},
        'defaultingType: Unsupported value: "Other": supported values: "System", "List"',
    ),
    "constraints with system defaulting": (
        "PodTopologySpread",
        {"defaultConstraints": [constraint()]},
        'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
    ),
    "empty constraint": (
        "PodTopologySpread",
        spread({}),
        "[defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf), "
        "defaultConstraints[0].topologyKey: Required value: can not be empty, "
        "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty]",
    ),
    "constraint with a strange action and a selector": (
        "PodTopologySpread",
        spread(constraint(whenUnsatisfiable="Explode", labelSelector={})),
        '[defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Explode": supported '
        'values: "DoNotSchedule", "ScheduleAnyway", defaultConstraints[0].labelSelector: '
        "Forbidden: constraint must not define a selector, as they deduced for each pod]",
    ),
    "constraint twice": (
        "PodTopologySpread",
        spread(constraint(), constraint(maxSkew=5)),
        'defaultConstraints[1]: Duplicate value: "{zone, DoNotSchedule}"',
    ),
    "negative bind timeout": (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a "
        "negative value",
    ),
    "shape without its gate, even an empty one": (
        "VolumeBinding",
        {"shape": []},
        "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature "
        "gate StorageCapacityScoring",
    ),
    "shape without its gate": (
        "VolumeBinding",
        {"shape": [{"utilization": 1, "score": 2}]},
        'shape: Invalid value: [{"Utilization":1,"Score":2}]: unexpected field `shape`, remove '
        "it or turn on the feature gate StorageCapacityScoring",
    ),
    "negative filter timeout": (
        "DynamicResources",
        {"filterTimeout": "-1s"},
        'filterTimeout: Invalid value: "-1s": must be zero or positive',
    ),
    "short binding timeout": (
        "DynamicResources",
        {"bindingTimeout": "500ms"},
        'bindingTimeout: Invalid value: "500ms": must be at least 1 second',
    ),
}


@pytest.mark.parametrize(("name", "args", "want"), ERRORS.values(), ids=ERRORS)
def test_refused_with_the_configuration(name: str, args: Any, want: str) -> None:
    path = "profiles[0].pluginConfig[0].args."
    with pytest.raises(ConfigError) as caught:
        build(name, args)
    assert str(caught.value).replace(path, "") == want
    assert path in str(caught.value)


FIT_ERRORS: dict[str, tuple[Any, str]] = {
    "no type": (
        fit(resources=[{"name": "cpu"}]),
        'scoringStrategy.type: Unsupported value: "": supported values: "LeastAllocated", '
        '"MostAllocated", "RequestedToCapacityRatio"',
    ),
    "weight beyond a hundred": (
        fit(type="LeastAllocated", resources=[{"name": "cpu", "weight": 101}]),
        "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in "
        "valid range (0, 100]",
    ),
    "shape of another strategy": (
        {
            "scoringStrategy": {
                **ratio((0, 0))["scoringStrategy"],
                "type": "MostAllocated",
            }
        },
        "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
        "RequestedToCapacityRatio",
    ),
    "no points": (
        ratio(),
        "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point "
        "must be specified",
    ),
    "points out of order, reported once": (
        ratio((10, 1), (10, 2), (5, 3)),
        "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 10: "
        "values must be sorted in increasing order",
    ),
    "points out of range": (
        ratio((-1, 11)),
        "[scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: -1: not "
        "in valid range [0, 100], scoringStrategy.requestedToCapacityRatio.shape[0].score: "
        "Invalid value: 11: not in valid range [0, 10]]",
    ),
    "ignored names": (
        {"ignoredResources": ["a b"], "ignoredResourceGroups": ["example.com/x"]},
        f'[ignoredResources[0]: Invalid value: "a b": {NAME_TEXT}, ignoredResourceGroups[0]: '
        "Invalid value: \"example.com/x\": resource group name can't contain '/']",
    ),
}


@pytest.mark.parametrize(("args", "want"), FIT_ERRORS.values(), ids=FIT_ERRORS)
def test_resources_fit_is_refused_when_it_is_built(args: Any, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build("NodeResourcesFit", args)
    assert str(caught.value) == (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        f'initializing plugin "NodeResourcesFit": {want}'
    )


GATED_ERRORS: dict[str, tuple[str, Any, dict[str, bool], str]] = {
    "filter timeout without its gate": (
        "DynamicResources",
        {"filterTimeout": "0s"},
        NO_DEVICE_GATES,
        "filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled",
    ),
    "binding timeout without its gates": (
        "DynamicResources",
        {"bindingTimeout": "1m"},
        NO_DEVICE_GATES,
        "bindingTimeout: Forbidden: DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
        "feature gate is disabled",
    ),
    "shape out of order": (
        "VolumeBinding",
        {"shape": [{"utilization": 5, "score": 1}, {"utilization": 4, "score": 1}]},
        {"StorageCapacityScoring": True},
        "shape[1].utilization: Invalid value: 4: values must be sorted in increasing order",
    ),
}


@pytest.mark.parametrize(("name", "args", "gates", "want"), GATED_ERRORS.values(), ids=GATED_ERRORS)
def test_refused_under_other_gates(name: str, args: Any, gates: dict[str, bool], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(name, args, gates)
    assert str(caught.value) == f"profiles[0].pluginConfig[0].args.{want}"


ACCEPTED: dict[str, tuple[str, Any]] = {
    "empty affinity": ("NodeAffinity", {"addedAffinity": {}}),
    "preferred term of no weight is not looked at": (
        "NodeAffinity",
        {"addedAffinity": {PREFERRED: [{"preference": {"matchFields": [{"operator": "?"}]}}]}},
    ),
    "list of no constraints": ("PodTopologySpread", {"defaultingType": "List"}),
    "no filter timeout": ("DynamicResources", {"filterTimeout": "0s"}),
    "repeated resource in fit": (
        "NodeResourcesFit",
        fit(type="LeastAllocated", resources=[{"name": "cpu"}, {"name": "cpu", "weight": 3}]),
    ),
    "shape": ("NodeResourcesFit", ratio((0, 0), (100, 10))),
}


@pytest.mark.parametrize(("name", "args"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(name: str, args: Any) -> None:
    build(name, args)


def test_strategy_can_only_be_missing_in_code() -> None:
    with pytest.raises(ConfigError) as caught:
        validate_plugin_args("NodeResourcesFit", NodeResourcesFitArgs(scoring_strategy=None))
    assert str(caught.value) == (
        "scoringStrategy: Required value: ScoringStrategy field is required"
    )


def test_plugins_without_rules_pass() -> None:
    validate_plugin_args("NodeName", {"x": 1})
