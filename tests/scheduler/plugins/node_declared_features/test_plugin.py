"""NodeDeclaredFeatures: a node must have the features that a pod requires."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from kubesched.api import ContainerRestartRule, Node, Pod
from kubesched.framework import SKIP, SUCCESS, Code, CycleState, PodInfo, QueueingHint, Status
from kubesched.framework.causes import NodeFeaturesMissing
from kubesched.scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.scheduler.plugins.node_declared_features.declared_features import declared_features
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_container,
    make_node,
    make_pod,
    make_view,
    run_filter,
)
from kubesched.testing.objects.views import filter_each, filter_together

LACKING = Status.unresolvable(
    "node(s) didn't match Pod's required features", causes=(NodeFeaturesMissing(),)
)
USERS, RESTART = "UserNamespacesHostNetworkSupport", "RestartAllContainersOnContainerExits"
NEEDING_THE_GATE = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    RESTART,
)


def host_network_pod(host_users: bool | None, name: str = "p") -> Pod:
    pod = make_pod(name, host_network=True)
    return replace(pod, spec=replace(pod.spec, host_users=host_users))


def restarting_pod(action: str, *, init: bool = False) -> Pod:
    rules = (ContainerRestartRule(action=action),)
    container = replace(make_container("x"), restart_policy_rules=rules)
    return (
        make_pod("p", init_containers=[container])
        if init
        else make_pod("p", containers=[container])
    )


NODES = make_view(
    make_node("none"),
    make_node("users", declared_features=[USERS]),
    make_node("both", declared_features=["Aardvark", RESTART, USERS, "Zebra"]),
    make_node("unsorted", declared_features=[USERS, RESTART]),
)

CASES = {
    "host network with user namespaces": (
        host_network_pod(False),
        [LACKING, SUCCESS, SUCCESS, SUCCESS],
    ),
    "restart of all containers": (
        restarting_pod("RestartAllContainers"),
        [LACKING, LACKING, SUCCESS, LACKING],
    ),
    "restart of all containers by an init container": (
        restarting_pod("RestartAllContainers", init=True),
        [LACKING, LACKING, SUCCESS, LACKING],
    ),
}


@pytest.mark.parametrize(("pod", "want"), CASES.values(), ids=CASES)
def test_filter(pod: Pod, want: list[Status]) -> None:
    assert run_filter(NodeDeclaredFeatures(), pod, NODES) == want


SKIPPED = {
    "a plain pod": make_pod("p"),
    "host network without a word on users": host_network_pod(None),
    "host network with the host's users": host_network_pod(True),
    "restart of one container": restarting_pod("Restart"),
}


@pytest.mark.parametrize("pod", SKIPPED.values(), ids=SKIPPED)
def test_pods_without_required_features_fit_every_node(pod: Pod) -> None:
    assert NodeDeclaredFeatures().pre_filter(CycleState(), PodInfo(pod), NODES) == SKIP


DECLARED: dict[str, tuple[Iterable[str], int]] = {
    "none": ([], 0),
    "all that are known": (
        [*NEEDING_THE_GATE, USERS],
        0b11111,
    ),
    "unknown ones between": (["A", RESTART, "S", USERS, "Z"], 0b11000),
    "one out of order is lost": ([USERS, RESTART], 0b10000),
    "one given twice": ([RESTART, RESTART, USERS], 0b11000),
}


@pytest.mark.parametrize(("names", "want"), DECLARED.values(), ids=DECLARED)
def test_declared_features(names: list[str], want: int) -> None:
    assert declared_features(names) == want


def test_filtering_without_pre_filter_is_an_error() -> None:
    pod = host_network_pod(False)
    for answers in (
        filter_each(NodeDeclaredFeatures(), CycleState(), pod, NODES),
        filter_together(NodeDeclaredFeatures(), CycleState(), pod, NODES),
    ):
        assert [answer.code for answer in answers] == [Code.ERROR] * 4
        assert answers[0].message == (
            'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found'
        )


PLAIN, ABLE = make_node("n"), make_node("n", declared_features=[USERS])
NODE_CASES = {
    "a node appeared, even without the feature": (None, PLAIN, QueueingHint.QUEUE),
    "a node's features changed": (PLAIN, ABLE, QueueingHint.QUEUE),
    "a node's features stayed": (ABLE, ABLE, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CASES.values(), ids=NODE_CASES)
def test_node_hint(old: Node | None, new: Node, want: QueueingHint) -> None:
    registered = NodeDeclaredFeatures().events_to_register()[0]
    assert registered.hint is not None
    assert registered.hint(host_network_pod(False), old, new) is want


def test_pod_hint() -> None:
    registered = NodeDeclaredFeatures().events_to_register()[1]
    assert registered.event.label == "PodUpdate"
    assert registered.hint is not None
    needy, plain = host_network_pod(False), host_network_pod(True)
    assert registered.hint(needy, needy, plain) is QueueingHint.QUEUE
    assert registered.hint(needy, needy, needy) is QueueingHint.SKIP
    other = host_network_pod(False, "q"), host_network_pod(True, "q")
    assert registered.hint(needy, *other) is QueueingHint.SKIP


def test_without_its_gate_the_plugin_does_nothing() -> None:
    gates = dict.fromkeys(("NodeDeclaredFeatures", *NEEDING_THE_GATE), False)
    plugin = NodeDeclaredFeatures(handle=FakeHandle(feature_gates=gates))
    pod = host_network_pod(False)
    assert plugin.pre_filter(CycleState(), PodInfo(pod), NODES) == SKIP
    assert filter_each(plugin, CycleState(), pod, NODES) == [SUCCESS] * 4
    assert filter_together(plugin, CycleState(), pod, NODES) == [SUCCESS] * 4
    assert plugin.events_to_register() == ()


def test_contract() -> None:
    check_plugin(NodeDeclaredFeatures)
