"""Feature gates (docs/reference/01 §16)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubesched.errors import ConfigError
from kubesched.scheduler.config import DEFAULT_FEATURE_GATES, FeatureGates, parse_feature_gates
from kubesched.scheduler.config.feature_gates import FEATURES
from kubesched.scheduler.config.versions import effective_version


def test_gates_are_those_of_the_reference_with_their_stages(goldens: Path) -> None:
    metrics = (goldens / "api" / "metrics.txt").read_text()
    pattern = r'^kubernetes_feature_enabled\{name="(\w+)",stage="(\w*)"\} (\d)$'
    want = {name: (stage, on == "1") for name, stage, on in re.findall(pattern, metrics, re.M)}
    got = {f.name: (f.stage.value, on) for f, on in DEFAULT_FEATURE_GATES.items()}
    assert got == want


# docs/reference/01 §16.2: the gates that the scheduler itself reads.
LOCKED = (
    "DynamicResourceAllocation",
    "DRAAdminAccess",
    "InPlacePodVerticalScaling",
    "SidecarContainers",
    "NodeInclusionPolicyInPodTopologySpread",
    "SchedulerQueueingHints",
    "VolumeAttributesClass",
)
DEPENDENCIES = {
    "DRADeviceBindingConditions": ("DynamicResourceAllocation", "DRAResourceClaimDeviceStatus"),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRAWorkloadResourceClaims": ("DynamicResourceAllocation", "GenericWorkload"),
    "GangScheduling": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "PodLevelResources",
        "NodeDeclaredFeatures",
    ),
}


def test_locks_and_dependencies_of_the_scheduler() -> None:
    assert all(FEATURES[name].locked and FEATURES[name].default for name in LOCKED)
    assert not FEATURES["DRAPrioritizedList"].locked
    assert {name: FEATURES[name].depends_on for name in DEPENDENCIES} == DEPENDENCIES


# Generally available or deprecated gates of other components, and whether v1.36 locks them.
LOCKS_OF_OTHERS = {
    "AllowDNSOnlyNodeCSR": False,
    "CustomCPUCFSQuotaPeriod": False,
    "DisableNodeKubeProxyVersion": True,
    "GitRepoVolumeDriver": True,
    "MutatingAdmissionPolicy": False,
    "SeparateCacheWatchRPC": True,
}


def test_locks_of_other_components() -> None:
    assert {name: FEATURES[name].locked for name in LOCKS_OF_OTHERS} == LOCKS_OF_OTHERS


def test_gates_that_need_an_atomic_fifo_go_off_with_it() -> None:
    needy = (
        "StaleControllerConsistencyDaemonSet",
        "StaleControllerConsistencyJob",
        "StaleControllerConsistencyReplicaSet",
        "StaleControllerConsistencyStatefulSet",
        "UnlockWhileProcessingFIFO",
    )
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(["AtomicFIFO=false"])
    assert str(caught.value) == (
        "["
        + ", ".join(
            f"{name} is enabled, but depends on features that are disabled: [AtomicFIFO]"
            for name in needy
        )
        + "]"
    )
    off = ",".join(f"{name}=false" for name in ("AtomicFIFO", *needy))
    assert not parse_feature_gates([off]).enabled("AtomicFIFO")


def test_the_authorization_of_device_status_needs_device_status() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(["DRAResourceClaimDeviceStatus=false,DRADeviceBindingConditions=false"])
    assert str(caught.value) == (
        "DRAResourceClaimGranularStatusAuthorization is enabled, but depends on features that are "
        "disabled: [DRAResourceClaimDeviceStatus]"
    )


@pytest.mark.parametrize(
    "values",
    [
        ["MatchLabelKeysInPodTopologySpreadSelectorMerge=false"],
        ["ClearingNominatedNodeNameAfterBinding=false"],
        ["ShardedListAndWatch=true"],
        ["ClientsAllowCBOR=true,ClientsPreferCBOR=true,NativeHistograms=true"],
        ["NominatedNodeNameForExpectation=false"],
        ["SchedulerAsyncAPICalls=true"],
        ["SchedulerPopFromBackoffQ=false"],
        ["AllBeta=false"],
        ["AllAlpha=true"],
    ],
)
def test_gates_that_a_scheduler_starts_with(values: list[str]) -> None:
    assert parse_feature_gates(values)


@pytest.mark.parametrize("emulated", ["1.33", "1.34", "1.35"])
def test_every_emulated_version_is_built(emulated: str) -> None:
    assert parse_feature_gates([], version=effective_version([emulated], []))


def test_every_dependency_exists_and_holds_by_default() -> None:
    for feature, on in DEFAULT_FEATURE_GATES.items():
        for name in feature.depends_on:
            assert DEFAULT_FEATURE_GATES.enabled(name) or not on


ERRORS = {
    "unknown": (["Nope=true"], "unrecognized feature gate: Nope"),
    "unknown ends the list": (
        ["Nope=true,SchedulerQueueingHints=false"],
        "unrecognized feature gate: Nope",
    ),
    "locked": (
        ["DynamicResourceAllocation=false"],
        "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
    ),
    "locked twice": (
        ["SidecarContainers=false", "SchedulerQueueingHints=false"],
        "[cannot set feature gate SidecarContainers to false, feature is locked to true, "
        "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true]",
    ),
    "dependency off": (
        ["GangScheduling=true"],
        "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
    ),
    "no value": (["GenericWorkload"], "missing bool value for GenericWorkload"),
    "no boolean": (
        ["GenericWorkload=maybe"],
        'invalid value of GenericWorkload=maybe, err: strconv.ParseBool: parsing "maybe": '
        "invalid syntax",
    ),
    "mixed prefixes": (
        ["kube:GenericWorkload=true,GangScheduling=true"],
        "set kube feature gates with default empty prefix or kube: prefix consistently, "
        "do not mix use",
    ),
    "prefix of an unknown component": (
        ["foo:GenericWorkload=true"],
        "component not registered: foo",
    ),
}


@pytest.mark.parametrize(("values", "want"), ERRORS.values(), ids=ERRORS)
def test_refused(values: list[str], want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(values)
    assert str(caught.value) == want


def test_a_gate_others_depend_on_is_refused_for_each_of_them() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_feature_gates(["NodeDeclaredFeatures=false"])
    assert set(re.findall(r"(\w+) is enabled", str(caught.value))) == {
        "ExtendWebSocketsToKubelet",
        "InPlacePodLevelResourcesVerticalScaling",
        "InPlacePodVerticalScalingInitContainers",
        "RestartAllContainersOnContainerExits",
    }


def test_settings_of_all_uses_are_merged() -> None:
    gates = parse_feature_gates(["kube:GenericWorkload=1", "kube:GangScheduling=T,"])
    assert gates == FeatureGates({"GenericWorkload": True, "GangScheduling": True})
    assert gates.enabled("GangScheduling")
    assert hash(gates) != hash(DEFAULT_FEATURE_GATES)


def test_last_setting_of_a_gate_wins() -> None:
    gates = parse_feature_gates(["GenericWorkload=true", "GenericWorkload=false"])
    assert gates == DEFAULT_FEATURE_GATES


def test_all_of_a_stage_but_what_is_set_by_name() -> None:
    gates = FeatureGates({"AllAlpha": True, "StorageCapacityScoring": False})
    assert gates.enabled("GangScheduling")
    assert gates.enabled("TopologyAwareWorkloadScheduling")
    assert not gates.enabled("StorageCapacityScoring")
    assert not gates.enabled("SchedulerAsyncAPICalls"), "a beta gate that is off by default"
    betas = FeatureGates({"AllBeta": True})
    assert betas.enabled("CoordinatedLeaderElection")
    assert not betas.enabled("GangScheduling")


def test_locked_gate_may_be_set_to_what_it_is() -> None:
    assert FeatureGates({"SidecarContainers": True}) == DEFAULT_FEATURE_GATES


def test_reading_an_undefined_gate_raises_an_error() -> None:
    with pytest.raises(KeyError):
        DEFAULT_FEATURE_GATES.enabled("Nope")
