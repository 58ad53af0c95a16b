"""The cost of objects as large as a real API server stores them (1.5 MiB in etcd).

While the event loop processes one object, it neither responds to probes nor renews the lease. Work
is measured in function calls, which are the same on every machine; some millions take a second. The
bound is for everything that happens from the first list to the second attempt, so no turn of the
loop is longer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubesched.api import Node, Pod, codec
from tests.counted_calls import count_calls, counted
from tests.scheduler.hostile_object_harness import HostileObjectHarness, run_steps
from tests.scheduler.test_object_budgets import attempt, furnish

Json = dict[str, Any]
MOST_CALLS = 250_000
# The harness itself takes three calls for each resource.
MOST_CALLS_FOR_RESOURCES = 500_000
VALUES, LABELS = 115_000, 30_000


def names(count: int) -> list[str]:
    return [f"value-{number}" for number in range(count)]


def node_terms(count: int) -> Json:
    terms = [{"matchExpressions": [{"key": "k", "operator": "In", "values": names(count)}]}]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": rule}}}


def pod_terms(kind: str, count: int) -> Json:
    selector = {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": names(count)}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"spec": {"affinity": {kind: rule}}}


def spread(count: int) -> Json:
    selector = {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": names(count)}]}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    return {"spec": {"topologySpreadConstraints": [constraint]}}


def wanted_labels(count: int) -> Json:
    selector = {"matchLabels": dict.fromkeys(names(count), "x")}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"spec": {"affinity": {"podAffinity": rule}}}


def resources(count: int) -> Json:
    amounts = {f"example.com/{name}": "1" for name in names(count)}
    return {"status": {"allocatable": amounts}}


LABELLED = {"metadata": {"labels": dict.fromkeys(names(LABELS), "x")}}
# The fields that watches return for the tried pod, and for the node.
CASES: dict[str, tuple[Json, Json]] = {
    "values of a node selector": (node_terms(VALUES), {}),
    "values of a selector of affinity": (pod_terms("podAffinity", VALUES), {}),
    "values of a selector of anti-affinity": (pod_terms("podAntiAffinity", VALUES), {}),
    "values of a selector of spread": (spread(VALUES), {}),
    "labels of a selector of affinity": (wanted_labels(LABELS), {}),
    "labels of a pod": (LABELLED, {}),
    "labels of a node": ({}, LABELLED),
    "annotations of a pod": ({"metadata": {"annotations": {"a": "x" * (3 << 19)}}}, {}),
}


def calls_of_scenario(pod: Json, node: Json) -> int:
    """Return the function calls for two pods and a node with this content."""
    sizes = {}

    async def steps(harness: HostileObjectHarness) -> None:
        await harness.add_node("big", node or None)
        await harness.add_pod("other", pod or None, node_name="big")
        await harness.add_pod("p", pod or None)
        await asyncio.sleep(5)
        listers = harness.scheduler.informers
        for kind, name, namespace in ((Pod, "p", "default"), (Node, "big", None)):
            sizes[kind] = len(codec.encode(listers.lister(kind).get(name, namespace)))

    calls = count_calls(lambda: run_steps(steps))
    assert max(sizes.values()) > 400_000, "the scheduler has not got the large object"
    return calls


@pytest.mark.parametrize(("pod", "node"), CASES.values(), ids=CASES)
def test_a_large_object_takes_less_than_one_loop_iteration(pod: Json, node: Json) -> None:
    assert calls_of_scenario(pod, node) < MOST_CALLS


def test_a_node_with_many_resources_takes_less_than_one_loop_iteration() -> None:
    assert calls_of_scenario({}, resources(LABELS)) < MOST_CALLS_FOR_RESOURCES


def terms_of_nodes(count: int) -> list[Json]:
    """Alternatives with a label each, all different."""
    return [
        {"matchExpressions": [{"key": f"key{n}", "operator": "Gt", "values": [f"{n}"]}]}
        for n in range(count)
    ]


TERMS = {"nodeSelectorTerms": terms_of_nodes(18_000)}
NEEDED: dict[str, tuple[str, Json]] = {
    "bound volume": ("PersistentVolume", {"spec": {"nodeAffinity": {"required": TERMS}}}),
    "free volume": (
        "PersistentVolume",
        {"spec": {"claimRef": None, "nodeAffinity": {"required": TERMS}}, "status": {}},
    ),
    "slice of devices": ("ResourceSlice", {"spec": {"nodeName": "", "nodeSelector": TERMS}}),
    "free volume of a class": (
        "StorageClass",
        {
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": f"key{n}", "values": [f"{n}"]}]}
                for n in range(18_000)
            ]
        },
    ),
    "space for volumes": (
        "CSIStorageCapacity",
        {
            "nodeTopology": {
                "matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(30_000)]
            }
        },
    ),
    "budget": (
        "PodDisruptionBudget",
        {"spec": {"selector": {"matchLabels": dict.fromkeys(names(25_000), "x")}}},
    ),
    "images of a node": (
        "Node",
        {"status": {"images": [{"names": names(VALUES), "sizeBytes": 1}]}},
    ),
    "allocated claim": (
        "ResourceClaim",
        {"status": {"allocation": {"devices": {"results": []}, "nodeSelector": TERMS}}},
    ),
}


@pytest.mark.parametrize(("kind", "content"), NEEDED.values(), ids=NEEDED)
def test_a_large_object_that_a_pod_needs_takes_less_than_one_loop_iteration(
    kind: str, content: Json
) -> None:
    calls: list[int] = []

    async def steps(harness: HostileObjectHarness) -> None:
        await furnish(harness)
        await attempt(harness, kind, {})
        plain = await counted(attempt(harness, kind, {}))
        calls.append(await counted(attempt(harness, kind, content)) - plain)

    run_steps(steps)
    assert calls[0] < MOST_CALLS
