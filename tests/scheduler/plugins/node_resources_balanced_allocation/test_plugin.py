"""NodeResourcesBalancedAllocation: balanced nodes score higher."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.framework import SKIP, CycleState, PodInfo
from kubesched.scheduler.config.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from kubesched.scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from kubesched.testing import (
    check_plugin,
    make_node,
    make_pod,
    make_view,
    random_cluster,
    random_pod,
    run_score,
)
from kubesched.testing.objects.views import score_each, score_together

GPU = "example.com/gpu"


def args(*names: str) -> NodeResourcesBalancedAllocationArgs:
    specs = tuple(ResourceSpec(name=name, weight=1) for name in names)
    return NodeResourcesBalancedAllocationArgs(resources=specs)


DEFAULT, THREE = args("cpu", "memory"), args("cpu", "memory", GPU)


def amounts(cpu: int, memory: int, gpu: int | None = None) -> dict[str, Any]:
    return {"cpu": f"{cpu}m", "memory": memory} | ({} if gpu is None else {GPU: gpu})


class Case(NamedTuple):
    allocatable: Mapping[str, Any]
    used: Mapping[str, Any]
    wanted: Mapping[str, Any]
    want: int
    args: NodeResourcesBalancedAllocationArgs = DEFAULT


CASES = {
    "uneven shares": Case(amounts(4000, 10000), {}, amounts(3000, 5000), 68),
    "even shares": Case(amounts(6000, 10000), {}, amounts(3000, 5000), 75),
    "slightly worse than before": Case(
        amounts(10000, 20000), amounts(3000, 0), amounts(3000, 5000), 73
    ),
    "as uneven as before, but for rounding": Case(
        amounts(10000, 20000), amounts(3000, 5000), amounts(3000, 5000), 74
    ),
    "from worst to best": Case(amounts(3000, 5000), amounts(3000, 0), amounts(0, 5000), 100),
    "from best to worst": Case(amounts(3000, 5000), {}, amounts(0, 5000), 50),
    "more than there is counts as all": Case(amounts(1000, 10), {}, amounts(9000, 99), 75),
    "a node without one of two resources": Case({"cpu": 4}, {}, amounts(1000, 1000), 75),
    "three resources, the third in use": Case(
        amounts(3500, 40000, 8), amounts(3000, 5000, 3), {GPU: 1}, 75, THREE
    ),
    "three resources, the third free": Case(
        amounts(3500, 40000, 8), amounts(3000, 5000), {GPU: 1}, 76, THREE
    ),
    "a third resource that is not requested is left out": Case(
        amounts(4000, 10000, 8), {}, amounts(3000, 5000), 68, THREE
    ),
    "a third resource that the node lacks is left out": Case(
        amounts(4000, 10000), {}, amounts(3000, 5000, 1), 68, THREE
    ),
    "one resource is always in proportion": Case(
        amounts(4000, 10000), {}, amounts(3000, 5000), 75, args("cpu")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score(case: Case) -> None:
    node = make_node("n", allocatable={"pods": 9, **case.allocatable})
    running = make_pod("r", requests=case.used, node_name="n")
    pod = make_pod("p", requests=case.wanted)
    plugin = NodeResourcesBalancedAllocation(case.args)
    assert run_score(plugin, pod, make_view(node, pods=[running])) == [case.want]
    # A second node that lacks no resource makes the first one an exception among the rows.
    other = make_node("m", extended={GPU: 4})
    assert run_score(plugin, pod, make_view(node, other, pods=[running]))[0] == case.want


SKIPPED: dict[str, Mapping[str, Any]] = {
    "a pod that requests nothing": {},
    "a pod that requests zero": {"cpu": 0, "memory": 0},
    "a pod that requests only what is not tracked": {GPU: 1, "ephemeral-storage": 1},
}


@pytest.mark.parametrize("wanted", SKIPPED.values(), ids=SKIPPED)
def test_pods_without_tracked_requests_are_skipped(wanted: Mapping[str, Any]) -> None:
    plugin, pod, nodes = (
        NodeResourcesBalancedAllocation(),
        make_pod("p", requests=wanted),
        make_view(make_node("n")),
    )
    assert plugin.pre_score(CycleState(), PodInfo(pod), nodes) == SKIP
    assert score_each(plugin, CycleState(), pod, nodes).tolist() == [0]
    assert score_together(plugin, CycleState(), pod, nodes).tolist() == [0]


def test_pod_level_requests_count() -> None:
    pod = make_pod("p", requests={"cpu": 1}, pod_requests=amounts(3000, 5000))
    nodes = make_view(make_node("n", allocatable=amounts(4000, 10000)))
    assert run_score(NodeResourcesBalancedAllocation(), pod, nodes) == [68]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU]), min_size=1, unique=True),
    st.integers(0, 10_000),
)
def test_both_forms_agree(names: list[str], seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=6, pods=12)
    nodes = make_view(*cluster.nodes, pods=cluster.pods)
    plugin = NodeResourcesBalancedAllocation(args(*names))
    pod = random_pod(rng, "p")
    state = CycleState()
    if not plugin.pre_score(state, PodInfo(pod), nodes).is_skip:
        assert all(50 <= score <= 100 for score in run_score(plugin, pod, nodes))


def test_contract() -> None:
    check_plugin(NodeResourcesBalancedAllocation)
    check_plugin(NodeResourcesBalancedAllocation, args=THREE, rounds=10)
