"""The filter of NodeResourcesFit: whether a node has room for a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import DeviceClass, DeviceClassSpec, Pod
from kubesched.framework import SUCCESS, Code, CycleState, Status
from kubesched.framework.causes import InsufficientResource, TooManyPods
from kubesched.scheduler.config.args import NodeResourcesFitArgs
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_container,
    make_meta,
    make_node,
    make_pod,
    make_view,
    run_filter,
)
from kubesched.testing.objects.views import filter_each, filter_together

ALLOCATABLE = {
    "cpu": "10m",
    "memory": 20,
    "ephemeral-storage": 20,
    "example.com/aaa": 5,
    "hugepages-2Mi": 5,
    "pods": 32,
}


def verdicts(
    pod: Pod | Mapping[str, object], used: Mapping[str, object] | None = None
) -> list[Status]:
    """Return the verdicts on an empty node and on one with `used` requested."""
    if not isinstance(pod, Pod):
        pod = make_pod("p", requests=pod)
    running = make_pod("r", requests=used or {}, node_name="b")
    nodes = make_view(
        make_node("a", allocatable=ALLOCATABLE),
        make_node("b", allocatable=ALLOCATABLE),
        pods=[running],
    )
    return run_filter(NodeResourcesFit(), pod, nodes)


def lacks(*resources: str) -> Status:
    """Return the status of a node that has too little of these resources left."""
    reasons = [f"Insufficient {name}" for name in resources]
    return Status.unschedulable(*reasons, causes=tuple(map(InsufficientResource, resources)))


def never_fits(*resources: str) -> Status:
    """Return the status of a node that never has enough of these resources."""
    return replace(lacks(*resources), code=Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class Case(NamedTuple):
    pod: Pod | Mapping[str, object]
    used: Mapping[str, object]
    want: Status


A, HUGE = "example.com/aaa", "hugepages-2Mi"
CASES = {
    "nothing requested of a full node": Case({}, {"cpu": "10m", "memory": 20}, SUCCESS),
    "nothing requested of an overcommitted node": Case({}, {"cpu": "19m", "memory": 25}, SUCCESS),
    "two resources are short": Case(
        {"cpu": "1m", "memory": 1},
        {"cpu": "10m", "memory": 20},
        lacks("cpu", "memory"),
    ),
    "an exact fit": Case({"cpu": "5m", "memory": 1}, {"cpu": "5m", "memory": 19}, SUCCESS),
    "more cpu than the node has": Case({"cpu": "11m", "memory": 1}, {}, never_fits("cpu")),
    "one shortage cannot be resolved, so the answer cannot": Case(
        {"cpu": "11m", "memory": 1},
        {"memory": 20},
        never_fits("cpu", "memory"),
    ),
    "more ephemeral storage than the node has": Case(
        {"ephemeral-storage": 25}, {}, never_fits("ephemeral-storage")
    ),
    "more of an extended resource than the node has": Case({A: 10}, {}, never_fits(A)),
    "an extended resource in use": Case({A: 1}, {A: 5}, lacks(A)),
    "an extended resource over two containers": Case(
        make_pod("p", requests=[{A: 3}, {A: 3}]), {A: 2}, never_fits(A)
    ),
    "zero of an overcommitted extended resource": Case({A: 0}, {A: 6}, SUCCESS),
    "an unknown resource": Case({"example.com/bbb": 1}, {}, never_fits("example.com/bbb")),
    "huge pages": Case({HUGE: 1}, {HUGE: 5}, lacks(HUGE)),
    "a name that is not counted": Case({"foo": 1, "Example.com/x": 1}, {}, SUCCESS),
    "overhead counts": Case(
        make_pod("p", requests={"cpu": "1m", "memory": 1}, overhead={"cpu": "1m", "memory": 15}),
        {"cpu": "5m", "memory": 5},
        lacks("memory"),
    ),
    "requests of the pod replace those of containers": Case(
        make_pod("p", requests={"cpu": "1m"}, pod_requests={"cpu": "7m"}),
        {"cpu": "5m"},
        lacks("cpu"),
    ),
    "an init container counts with the most it takes": Case(
        make_pod(
            "p",
            requests={"cpu": "1m"},
            init_containers=[make_container("i", requests={"cpu": "8m"})],
        ),
        {"cpu": "3m"},
        lacks("cpu"),
    ),
    "a sidecar runs beside the others": Case(
        make_pod(
            "p",
            requests={"cpu": "9m"},
            init_containers=[make_container("i", requests={"cpu": "2m"}, restart_policy="Always")],
        ),
        {},
        never_fits("cpu"),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_filter(case: Case) -> None:
    assert verdicts(case.pod, case.used)[1] == case.want


@pytest.mark.parametrize("pods", [1, 0, None])
def test_a_node_without_room_for_another_pod(pods: int | None) -> None:
    allocatable = {"cpu": "1"} | ({} if pods is None else {"pods": pods})
    nodes = make_view(make_node("n", allocatable=allocatable), pods=[make_pod("r", node_name="n")])
    [status] = run_filter(NodeResourcesFit(), make_pod("p"), nodes)
    assert status == Status.unschedulable("Too many pods", causes=(TooManyPods(),))


def test_too_many_pods_comes_first_and_does_not_hide_the_rest() -> None:
    nodes = make_view(make_node("n", cpu="1", pods=0))
    [status] = run_filter(NodeResourcesFit(), make_pod("p", requests={"cpu": 2}), nodes)
    assert status == Status.unresolvable(
        "Too many pods", "Insufficient cpu", causes=(TooManyPods(), InsufficientResource("cpu"))
    )


IGNORING: dict[str, tuple[NodeResourcesFitArgs, dict[str, int], Status]] = {
    "an ignored resource": (
        NodeResourcesFitArgs(ignored_resources=("example.com/bbb",)),
        {"example.com/bbb": 1},
        SUCCESS,
    ),
    "an ignored group": (
        NodeResourcesFitArgs(ignored_resource_groups=("example.com",)),
        {"example.com/bbb": 1, "kubernetes.io/something": 1},
        never_fits("kubernetes.io/something"),
    ),
    "a native resource cannot be ignored": (
        NodeResourcesFitArgs(ignored_resources=("hugepages-2Mi",)),
        {"hugepages-2Mi": 9},
        never_fits("hugepages-2Mi"),
    ),
}


@pytest.mark.parametrize(("args", "requests", "want"), IGNORING.values(), ids=IGNORING)
def test_ignored_resources(
    args: NodeResourcesFitArgs, requests: dict[str, int], want: Status
) -> None:
    nodes = make_view(make_node("n", allocatable=ALLOCATABLE))
    assert run_filter(NodeResourcesFit(args), make_pod("p", requests=requests), nodes) == [want]


GPU = "example.com/gpu"
CLASS = DeviceClass(
    metadata=make_meta("DeviceClass", "gpus"), spec=DeviceClassSpec(extended_resource_name=GPU)
)


@pytest.mark.parametrize("name", [GPU, "deviceclass.resource.kubernetes.io/gpus"])
def test_a_resource_served_by_devices_is_checked_only_on_nodes_that_have_it(name: str) -> None:
    nodes = make_view(
        make_node("absent"),
        make_node("zero", extended={name: 0}),
        make_node("some", extended={name: 1}),
    )
    pod = make_pod("p", requests={name: 2})
    short = never_fits(name)
    plugin = NodeResourcesFit(handle=FakeHandle([CLASS]))
    assert run_filter(plugin, pod, nodes) == [SUCCESS, SUCCESS, short]
    off = FakeHandle([CLASS], feature_gates={"DRAExtendedResource": False})
    assert run_filter(NodeResourcesFit(handle=off), pod, nodes) == [short] * 3


def test_pod_level_requests_count_only_with_their_gate() -> None:
    gates = {"PodLevelResources": False}
    handle = FakeHandle(feature_gates=gates | {"InPlacePodLevelResourcesVerticalScaling": False})
    nodes = make_view(make_node("n", cpu=1))
    pod = make_pod("p", requests={"cpu": "1m"}, pod_requests={"cpu": 2})
    assert run_filter(NodeResourcesFit(handle=handle), pod, nodes) == [SUCCESS]


def test_more_resources_than_bits_of_an_integer() -> None:
    names = [f"example.com/r{number:02}" for number in range(80)]
    nodes = make_view(make_node("n", extended=dict.fromkeys(names[1:], 1)))
    [status] = run_filter(
        NodeResourcesFit(), make_pod("p", requests=dict.fromkeys(names, 1)), nodes
    )
    assert status == never_fits("example.com/r00")


@pytest.mark.parametrize("count", [4, 12, 28, 60])
def test_each_lacking_resource_is_named(count: int) -> None:
    names = [f"example.com/r{number:02}" for number in range(count)]
    nodes = make_view(*(make_node(f"n{k}", extended=dict.fromkeys(names[k:], 1)) for k in range(3)))
    pod = make_pod("p", requests=dict.fromkeys(names, 1))
    assert run_filter(NodeResourcesFit(), pod, nodes) == [
        SUCCESS,
        never_fits("example.com/r00"),
        never_fits("example.com/r00", "example.com/r01"),
    ]


def test_filtering_without_pre_filter_is_an_error() -> None:
    nodes, pod = make_view(make_node("n")), make_pod("p")
    for answers in (
        filter_each(NodeResourcesFit(), CycleState(), pod, nodes),
        filter_together(NodeResourcesFit(), CycleState(), pod, nodes),
    ):
        assert answers[0].code is Code.ERROR
        assert answers[0].message == (
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found'
        )


def test_allocated_resources_of_a_pending_pod_do_not_count() -> None:
    pod = make_pod("p", requests={"cpu": 1})
    granted = replace(pod, status=replace(pod.status, resources=make_container().resources))
    nodes = make_view(make_node("n", cpu="500m"))
    assert run_filter(NodeResourcesFit(), granted, nodes) == [never_fits("cpu")]


def test_contract() -> None:
    check_plugin(NodeResourcesFit)
