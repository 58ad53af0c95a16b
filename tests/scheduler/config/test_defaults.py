"""Values that a file leaves out (docs/reference/01 §3, §4.1, §8.2, §16.3)."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.scheduler.config import (
    DynamicResourcesArgs,
    FeatureGates,
    KubeSchedulerConfiguration,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
    configuration_from_builtins,
    default_configuration,
    default_plugins,
    expand_plugins,
)
from kubesched.scheduler.config.config_struct import MINUTE, SECOND
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS

HEAD = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))


def load(gates: dict[str, bool] | None = None, **members: Any) -> KubeSchedulerConfiguration:
    return configuration_from_builtins({**HEAD, **members}, gates=FeatureGates(gates or {}))


def load_args(name: str, args: Any, gates: dict[str, bool] | None = None) -> Any:
    profile = {"pluginConfig": [{"name": name, "args": args}]}
    return load(gates, profiles=[profile]).profiles[0].args_of(name)


def test_untouched_profile_has_arguments_for_eight_plugins_by_name() -> None:
    (profile,) = default_configuration().profiles
    assert profile.scheduler_name == "default-scheduler"
    assert profile.percentage_of_nodes_to_score is None
    assert [entry.name for entry in profile.plugin_config] == [
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    ]


def test_user_entries_come_first_and_disabled_plugins_get_none() -> None:
    profile = {
        "plugins": {
            "multiPoint": {"disabled": [{"name": "DynamicResources"}]},
            "filter": {"disabled": [{"name": "VolumeBinding"}]},
        },
        "pluginConfig": [{"name": "VolumeBinding"}, {"name": "Mine", "args": {"a": 1}}],
    }
    names = [entry.name for entry in load(profiles=[profile]).profiles[0].plugin_config]
    assert names[:2] == ["VolumeBinding", "Mine"]
    assert "DynamicResources" not in names
    assert names[2:] == sorted(names[2:])


def test_zero_counts_as_unset_for_leader_election_and_client() -> None:
    configuration = load(
        leaderElection={
            "leaderElect": False,
            "leaseDuration": "0s",
            "renewDeadline": "0",
            "resourceLock": "",
            "resourceName": "mine",
        },
        clientConnection={"qps": 0, "burst": 0, "contentType": ""},
    )
    election = configuration.leader_election
    assert not election.leader_elect
    assert election.lease_duration_ns == 15 * SECOND
    assert election.renew_deadline_ns == 10 * SECOND
    assert election.resource_lock == "leases"
    assert election.resource_name == "mine"
    assert configuration.client_connection == default_configuration().client_connection


@pytest.mark.parametrize(
    ("members", "want"),
    [
        ({}, (True, True)),
        ({"enableProfiling": False}, (False, False)),
        ({"enableProfiling": False, "enableContentionProfiling": True}, (False, True)),
        ({"enableContentionProfiling": False}, (True, False)),
    ],
)
def test_contention_profiling_follows_profiling(members: dict[str, Any], want: object) -> None:
    configuration = load(**members)
    got = (configuration.enable_profiling, configuration.enable_contention_profiling)
    assert got == want


def test_negative_qps_is_not_defaulted() -> None:
    assert load(clientConnection={"qps": -1}).client_connection.qps == -1


ARGS: dict[str, tuple[str, Any, dict[str, bool], Any]] = {
    "strategy without a type stays without": (
        "NodeResourcesFit",
        {"scoringStrategy": {"resources": [{"name": "cpu"}]}},
        {},
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(resources=(ResourceSpec(name="cpu", weight=1),))
        ),
    ),
    "strategy without resources gets the usual two": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "MostAllocated", "resources": []}},
        {},
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(type="MostAllocated", resources=CPU_AND_MEMORY)
        ),
    ),
    "balanced allocation fills in weights": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}, {"name": "x/y", "weight": 0}]},
        {},
        NodeResourcesBalancedAllocationArgs(
            resources=(ResourceSpec(name="cpu", weight=1), ResourceSpec(name="x/y", weight=1))
        ),
    ),
    "no bind timeout is kept": (
        "VolumeBinding",
        {"bindTimeoutSeconds": 0},
        {},
        VolumeBindingArgs(bind_timeout_seconds=0),
    ),
    "shape with the gate on": (
        "VolumeBinding",
        {"shape": []},
        {"StorageCapacityScoring": True},
        VolumeBindingArgs(
            shape=(
                UtilizationShapePoint(utilization=0, score=10),
                UtilizationShapePoint(utilization=100, score=0),
            )
        ),
    ),
    "timeouts of device allocation": (
        "DynamicResources",
        None,
        {},
        DynamicResourcesArgs(filter_timeout_ns=10 * SECOND, binding_timeout_ns=10 * MINUTE),
    ),
    "no filter timeout is kept": (
        "DynamicResources",
        {"filterTimeout": "0s"},
        {},
        DynamicResourcesArgs(filter_timeout_ns=0),
    ),
    "gates take timeouts away": (
        "DynamicResources",
        {},
        {"DRASchedulerFilterTimeout": False, "DRADeviceBindingConditions": False},
        DynamicResourcesArgs(filter_timeout_ns=None, binding_timeout_ns=None),
    ),
}


@pytest.mark.parametrize(("name", "args", "gates", "want"), ARGS.values(), ids=ARGS)
def test_arguments(name: str, args: Any, gates: dict[str, bool], want: Any) -> None:
    assert load_args(name, args, gates) == want


def test_affinity_weight_of_zero_is_not_defaulted() -> None:
    args = load_args("InterPodAffinity", {"hardPodAffinityWeight": 0})
    assert args.hard_pod_affinity_weight == 0


def test_in_tree_plugin_without_arguments_ignores_them_and_others_retain_them() -> None:
    assert load_args("NodeName", {"x": 1}) == {"x": 1}
    assert load_args("OutOfTree", {"x": [1.5, None]}) == {"x": [1.5, None]}
    assert load_args("OutOfTree", None) is None


DEFAULT_POINTS = {
    "preEnqueue": "SchedulingGates DynamicResources DefaultPreemption",
    "queueSort": "PrioritySort",
    "preFilter": (
        "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits "
        "VolumeBinding VolumeZone PodTopologySpread InterPodAffinity DynamicResources "
        "NodeDeclaredFeatures"
    ),
    "filter": (
        "NodeUnschedulable NodeName TaintToleration NodeAffinity NodePorts NodeResourcesFit "
        "VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread "
        "InterPodAffinity DynamicResources NodeDeclaredFeatures"
    ),
    "postFilter": "DynamicResources DefaultPreemption",
    "preScore": (
        "TaintToleration NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread "
        "InterPodAffinity NodeResourcesBalancedAllocation"
    ),
    "score": (
        "TaintToleration=3 NodeAffinity=2 NodeResourcesFit=1 VolumeBinding=1 "
        "PodTopologySpread=2 InterPodAffinity=2 DynamicResources=2 "
        "NodeResourcesBalancedAllocation=1 ImageLocality=1"
    ),
    "reserve": "VolumeBinding DynamicResources",
    "preBind": "VolumeBinding DynamicResources",
    "bind": "DefaultBinder",
    "placementScore": "NodeResourcesFit=1",
    "permit": "",
    "postBind": "",
    "placementGenerate": "",
}


def expanded(gates: FeatureGates) -> dict[str, str]:
    points = expand_plugins(default_plugins(gates), IN_TREE_EXTENSION_POINTS, scheduler_name="x")
    return {
        point: " ".join(f"{r.name}={r.weight}" if r.weight else r.name for r in refs)
        for point, refs in points.items()
    }


def test_default_plugins_run_where_the_reference_runs_them() -> None:
    assert expanded(FeatureGates()) == DEFAULT_POINTS


def test_gates_append_plugins() -> None:
    gates = FeatureGates(
        {"GenericWorkload": True, "GangScheduling": True, "TopologyAwareWorkloadScheduling": True}
    )
    assert [ref.name for ref in default_plugins(gates).multi_point.enabled][-4:] == [
        "NodeDeclaredFeatures",
        "GangScheduling",
        "TopologyPlacementGenerator",
        "PodGroupPodsCount",
    ]
    assert expanded(gates) == {
        **DEFAULT_POINTS,
        "preEnqueue": DEFAULT_POINTS["preEnqueue"] + " GangScheduling",
        "permit": "GangScheduling",
        "placementGenerate": "TopologyPlacementGenerator",
        "placementScore": "NodeResourcesFit=1 PodGroupPodsCount=1",
    }
