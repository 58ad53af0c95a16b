"""The three scoring strategies of NodeResourcesFit."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.errors import KubeschedError
from kubesched.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.scheduler.plugins.helpers.broken_linear import broken_linear
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.testing import (
    check_plugin,
    make_node,
    make_pod,
    make_view,
    random_cluster,
    random_pod,
    run_score,
)

Points = tuple[tuple[int, int], ...]


def shape_of(points: Points) -> tuple[UtilizationShapePoint, ...]:
    return tuple(UtilizationShapePoint(utilization=at, score=score) for at, score in points)


def args(
    kind: str, resources: Mapping[str, int] | None = None, shape: Points = ()
) -> NodeResourcesFitArgs:
    weights = {"cpu": 1, "memory": 1} if resources is None else resources
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=kind,
            resources=tuple(ResourceSpec(name=n, weight=w) for n, w in weights.items()),
            requested_to_capacity_ratio=(
                RequestedToCapacityRatioParam(shape=shape_of(shape)) if shape else None
            ),
        )
    )


LEAST, MOST = args(LEAST_ALLOCATED), args(MOST_ALLOCATED)
FALLING = args(REQUESTED_TO_CAPACITY_RATIO, shape=((0, 10), (100, 0)))
EXTENDED = args(REQUESTED_TO_CAPACITY_RATIO, {"x.com/foo": 3, "x.com/bar": 5}, ((0, 0), (100, 1)))


class Case(NamedTuple):
    args: NodeResourcesFitArgs
    requests: Mapping[str, object]
    allocatable: Mapping[str, object]
    want: int


CASES = {
    "least: the mean of what is left": Case(
        LEAST, {"cpu": 3, "memory": 6000}, {"cpu": 4, "memory": 10000}, 32
    ),
    "least: weights": Case(
        args(LEAST_ALLOCATED, {"memory": 2, "cpu": 1}),
        {"cpu": 3, "memory": 5000},
        {"cpu": 4, "memory": 10000},
        41,
    ),
    "least: more than there is counts as none left": Case(
        LEAST, {"cpu": 6, "memory": 0}, {"cpu": 4, "memory": 10000}, 50
    ),
    "least: a node that has nothing": Case(LEAST, {"cpu": 1, "memory": 1}, {}, 0),
    "least: a resource that the pod does not request is left out": Case(
        args(LEAST_ALLOCATED, {"cpu": 1, "memory": 1, "x.com/foo": 2}),
        {"cpu": 3, "memory": 6000},
        {"cpu": 4, "memory": 10000, "x.com/foo": 4},
        32,
    ),
    "least: a resource that the node lacks is left out": Case(
        args(LEAST_ALLOCATED, {"cpu": 1, "x.com/foo": 2}),
        {"cpu": 3, "x.com/foo": 1},
        {"cpu": 4},
        25,
    ),
    "least: pods and storage are never scored": Case(
        args(LEAST_ALLOCATED, {"cpu": 1, "pods": 9, "storage": 9}),
        {"cpu": 3, "storage": 1},
        {"cpu": 4, "pods": 10, "storage": 10},
        25,
    ),
    "least: ephemeral storage counts even if none is requested": Case(
        args(LEAST_ALLOCATED, {"cpu": 1, "ephemeral-storage": 1}),
        {"cpu": 3},
        {"cpu": 4, "ephemeral-storage": 10},
        62,
    ),
    "most: the mean of what is taken": Case(
        MOST, {"cpu": 3, "memory": 5000}, {"cpu": 10, "memory": 20000}, 27
    ),
    "most: more than there is counts as all": Case(
        MOST, {"cpu": 5, "memory": 9000}, {"cpu": 4, "memory": 10000}, 95
    ),
    "ratio: a resource that scores nothing is left out": Case(
        FALLING, {"cpu": 5, "memory": 9000}, {"cpu": 4, "memory": 10000}, 10
    ),
    "ratio: a mean that is whole": Case(
        FALLING, {"cpu": "660m", "memory": 700}, {"cpu": 1, "memory": 1000}, 32
    ),
    "ratio: a half is rounded up": Case(
        FALLING, {"cpu": "750m", "memory": 500}, {"cpu": 1, "memory": 1000}, 38
    ),
    "ratio: weights, rounded up": Case(
        EXTENDED, {"x.com/foo": 2, "x.com/bar": 2}, {"x.com/foo": 8, "x.com/bar": 4}, 4
    ),
    "ratio: weights, rounded down": Case(
        EXTENDED, {"x.com/foo": 2, "x.com/bar": 2}, {"x.com/foo": 4, "x.com/bar": 8}, 3
    ),
    "ratio: nothing counts": Case(FALLING, {"cpu": 5, "memory": 5}, {"cpu": 4, "memory": 4}, 0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_score(case: Case) -> None:
    # A second node that lacks no resource makes the first one an exception among the rows.
    plenty = {"cpu": 64, "memory": "1Gi", "ephemeral-storage": 9, "x.com/foo": 9, "x.com/bar": 9}
    pod = make_pod("p", requests=case.requests)
    nodes = [make_node("n", allocatable=case.allocatable)]
    alone = make_view(*nodes)
    assert run_score(NodeResourcesFit(case.args), pod, alone) == [case.want]
    beside = make_view(*nodes, make_node("m", allocatable=plenty))
    assert run_score(NodeResourcesFit(case.args), pod, beside)[0] == case.want


def test_pods_that_request_nothing_count_with_defaults() -> None:
    running = [make_pod(name, node_name="n") for name in ("a", "b")]
    nodes = make_view(make_node("n", cpu="250m", memory="1000Mi"), pods=running)
    assert run_score(NodeResourcesFit(MOST), make_pod("p"), nodes) == [80]


def test_scoring_ignores_pod_level_requests() -> None:
    nodes = make_view(make_node("n", cpu=4, memory="1000Mi"))
    whole = make_pod("p", pod_requests={"cpu": 4})
    assert run_score(NodeResourcesFit(LEAST), whole, nodes) == [(97 + 80) // 2]


def test_no_resources_is_an_error() -> None:
    with pytest.raises(KubeschedError, match=r"^resources not found$"):
        run_score(
            NodeResourcesFit(args(LEAST_ALLOCATED, {})), make_pod("p"), make_view(make_node("n"))
        )


FUNCTION_CASES = {
    "before the first corner": (((10, 1), (90, 9)), 5, 1),
    "a rising segment is cut toward zero": (((10, 1), (90, 9)), 19, 1),
    "on a rising segment": (((10, 1), (90, 9)), 20, 2),
    "near the last corner": (((10, 1), (90, 9)), 89, 8),
    "behind the last corner": (((10, 1), (90, 9)), 110, 9),
    "a falling segment is cut toward zero": (((0, 100), (70, 0)), 33, 53),
}


@pytest.mark.parametrize(("points", "at", "want"), FUNCTION_CASES.values(), ids=FUNCTION_CASES)
def test_broken_linear(points: Points, at: int, want: int) -> None:
    assert broken_linear(shape_of(points), 1)(at) == want


shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda p: p[0],
).map(lambda points: tuple(sorted(points)))
weights = st.dictionaries(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "pods"]),
    st.integers(1, 100),
    min_size=1,
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO]),
    weights,
    shapes,
    st.integers(0, 10_000),
)
def test_both_forms_agree(kind: str, resources: dict[str, int], shape: Points, seed: int) -> None:
    rng = random.Random(seed)
    cluster = random_cluster(rng, nodes=6, pods=12)
    nodes = make_view(*cluster.nodes, pods=cluster.pods)
    given_shape = shape if kind == REQUESTED_TO_CAPACITY_RATIO else ()
    scores = run_score(
        NodeResourcesFit(args(kind, resources, given_shape)), random_pod(rng, "p"), nodes
    )
    assert all(0 <= score <= 100 for score in scores)


@pytest.mark.parametrize("amount", [2**62, 2**63 - 1, 10**17])
@pytest.mark.parametrize("config", [LEAST, MOST, FALLING])
def test_both_forms_agree_on_amounts_that_overflow(
    amount: int, config: NodeResourcesFitArgs
) -> None:
    nodes = make_view(make_node("n", memory=amount), make_node("m", memory=amount // 3))
    for wanted in (1, amount // 7, amount):
        run_score(NodeResourcesFit(config), make_pod("p", requests={"memory": wanted}), nodes)


def test_contract() -> None:
    for config in (MOST, FALLING, EXTENDED):
        check_plugin(NodeResourcesFit, args=config, rounds=10)
