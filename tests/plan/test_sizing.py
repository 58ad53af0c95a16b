"""Sizes of clusters: which nodes a workload needs, and what each type alone would cost."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import DaemonSet, Node, Pod
from kubesched.api.codec import from_builtins
from kubesched.errors import KubeschedError
from kubesched.plan import PlanningPolicy, Sizing, size_cluster
from kubesched.plan.reading.planning_policy import PlanningPolicy as Policy
from kubesched.plan.sizing.node_catalog import node_types
from kubesched.plan.sizing.workload_expansion import expand_workload
from tests.plan.clusters import HOSTNAME, ZONE, apart, budget, node, replica_set, spread


def size(
    workload: list[Any], catalog: list[Node], prices: dict[str, float] | None = None
) -> Sizing:
    return size_cluster(workload, catalog, policy=PlanningPolicy(prices=prices or {}), seconds=20)


def counts(answer: Sizing) -> dict[str, int]:
    return {each.name: each.nodes for each in answer.types}


def daemon_set(cpu: str) -> DaemonSet:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": "agent"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return from_builtins(
        {
            "metadata": {"name": "agent", "namespace": "default", "uid": "ds-agent"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        },
        DaemonSet,
    )


CATALOG = [node("small", 4, 16), node("large", 16, 64)]


def test_pods_fill_the_cheapest_nodes() -> None:
    """12 pods of 1 cpu need three small nodes or one large one."""
    web = replica_set("web", 12)
    assert counts(size([web], CATALOG, {"small": 1.0, "large": 3.5})) == {"small": 3}
    assert counts(size([web], CATALOG, {"small": 1.0, "large": 2.5})) == {"large": 1}


def test_types_are_mixed() -> None:
    """17 cpu: one large and one small node cost 4.5, five small ones 5, two large ones 7."""
    answer = size([replica_set("web", 17)], CATALOG, {"small": 1.0, "large": 3.5})
    assert counts(answer) == {"small": 1, "large": 1}
    assert (answer.cost, answer.lower_bound, answer.verified) == (4.5, 4.5, True)


def test_each_type_alone_is_answered() -> None:
    workload = [replica_set("web", 8), replica_set("big", 1, cpu="6")]
    answer = size(workload, CATALOG, {"small": 1.0, "large": 3.5})
    small, large = answer.only
    assert small.impossible == "pod default/big-0 does not fit"
    assert (large.nodes, large.cost, large.lower_bound, large.verified) == (1, 3.5, 3.5, True)


def test_daemon_pods_take_room_on_each_node() -> None:
    """With half a cpu for the agent, 3 pods fit on a node of 4 cpu."""
    answer = size([replica_set("web", 6), daemon_set("500m")], CATALOG[:1])
    assert counts(answer) == {"small": 2}


def test_exclusive_pods_need_a_node_each() -> None:
    answer = size([replica_set("db", 3, affinity=apart("db"))], CATALOG)
    assert (answer.nodes, answer.lower_bound) == (3, 3)


def test_zones_of_the_catalog_are_used() -> None:
    catalog = [node("a", 4, 16, "z1"), node("b", 4, 16, "z2")]
    web = replica_set("web", 6, topologySpreadConstraints=spread("web", ZONE))
    assert counts(size([web], catalog)) == {"a": 1, "b": 1}


def test_pods_that_spread_over_nodes_share_them() -> None:
    """Two nodes with three pods each satisfy a skew of 1."""
    web = replica_set("web", 6, topologySpreadConstraints=spread("web", HOSTNAME))
    assert size([web], CATALOG[:1]).nodes == 2


def test_budgets_do_not_matter() -> None:
    workload = [replica_set("web", 4), budget("web", maxUnavailable=0)]
    assert size(workload, CATALOG).nodes == 1


def test_a_pod_that_fits_no_type_is_named() -> None:
    answer = size([replica_set("web", 1), replica_set("huge", 2, cpu="40")], CATALOG)
    assert not answer.verified
    assert set(answer.unplaceable) == {"default/huge-0", "default/huge-1"}
    assert "Insufficient cpu" in answer.unplaceable["default/huge-0"]


def test_sizing_without_pods_is_an_error() -> None:
    with pytest.raises(KubeschedError, match="the workload has no pods"):
        size([], CATALOG)
    with pytest.raises(KubeschedError, match="the catalog has no nodes"):
        size([replica_set("web", 1)], [])


def test_equal_nodes_are_one_type() -> None:
    """A list of nodes of a cluster is a catalog; state of the nodes is no part of a type."""
    cordoned = node("b")
    cordoned = replace(cordoned, spec=replace(cordoned.spec, unschedulable=True))
    assert [each.name for each in node_types([node("a"), cordoned, node("c", 4)], Policy())] == [
        "a",
        "c",
    ]


def test_pods_of_a_dump_are_not_counted_twice() -> None:
    owner = replica_set("web", 3)
    reference = {"kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": True}
    made = from_builtins(
        {"metadata": {"name": "web-1", "namespace": "default", "ownerReferences": [reference]}}, Pod
    )
    bare = from_builtins({"metadata": {"name": "bare", "namespace": "default"}}, Pod)
    pods = expand_workload([owner, made, bare]).pods
    assert [pod.metadata.name for pod in pods] == ["web-0", "web-1", "web-2", "bare"]


@pytest.mark.parametrize("seed", range(6))
def test_no_mix_of_types_is_cheaper(seed: int) -> None:
    """Of pods with one resource, every mix is tried: first fit of all orders of sizes."""
    rng = random.Random(seed)
    amounts = [rng.choice([4, 6, 8]), rng.choice([10, 12, 16])]
    catalog = [node(f"t{n}", cpu, 999) for n, cpu in enumerate(amounts)]
    prices = {"t0": 1.0, "t1": rng.choice([1.5, 2.0, 2.5])}
    sizes = [rng.choice([1, 2, 3]) for _ in range(7)]
    workload = [replica_set(f"w{n}", 1, cpu=str(cpu)) for n, cpu in enumerate(sizes)]
    answer = size(workload, catalog, prices)
    assert answer.lower_bound <= cheapest(sizes, amounts, list(prices.values()))
    assert answer.packed_cost == cheapest(sizes, amounts, list(prices.values()))
    assert answer.verified


def cheapest(sizes: list[int], amounts: list[int], prices: list[float]) -> float:
    """The price of the best packing, by trying all mixes of up to seven nodes."""
    best = float("inf")
    for first, second in itertools.product(range(8), repeat=2):
        price = first * prices[0] + second * prices[1]
        if price < best and _fits(sorted(sizes), [amounts[0]] * first + [amounts[1]] * second):
            best = price
    return best


def _fits(sizes: list[int], room: list[int]) -> bool:
    if not sizes:
        return True
    largest = sizes[-1]
    for value in sorted({each for each in room if each >= largest}):
        left = list(room)
        left[left.index(value)] -= largest
        if _fits(sizes[:-1], left):
            return True
    return False
