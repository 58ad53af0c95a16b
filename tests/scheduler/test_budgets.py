"""The cost of one pod in calls, for every list that a pod has.

A pod with `n` items in a list waits, and three similar pods are on nodes, so that comparisons
between pods are measured as well. The cost may be linear in the size of a pod, but not quadratic;
lists that are compared with every node or every pod are bounded (`framework/pod_limits.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.counted_calls import count_calls, grow
from tests.scheduler.hostile_object_harness import HostileObjectHarness, run_steps

Json = dict[str, Any]

SIZE = 40
CALLS_PER_ITEM = 1_500
"""Of the pod that waits, its three twins, and all events about them."""

HOSTNAME = "kubernetes.io/hostname"


def expressions(count: int, operator: str = "DoesNotExist") -> list[Json]:
    return [{"key": f"k{number}", "operator": operator} for number in range(count)]


def hard_to_match(count: int) -> Json:
    """A selector of which everything but the last part holds for nearly every pod."""
    return {"matchExpressions": [*expressions(count), {"key": "zz", "operator": "Exists"}]}


def node_affinity(terms: list[Json]) -> Json:
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": rule}}}


def apart(term: Json) -> Json:
    whole = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"a": "b"}}, **term}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}
    return {"spec": {"affinity": {"podAntiAffinity": rule}}}


def spread(constraint: Json) -> Json:
    whole = {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "b"}},
    }
    return {"spec": {"topologySpreadConstraints": [{**whole, **constraint}]}}


def container(**more: Any) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": "i", **more}]}}


def volumes(source: Callable[[int], Json], count: int) -> Json:
    return {"spec": {"volumes": [{"name": f"v{n}", **source(n)} for n in range(count)]}}


def listed(field: str, item: Callable[[int], Json], count: int) -> Json:
    return {"spec": {field: [item(number) for number in range(count)]}}


PODS: dict[str, Callable[[int], Json]] = {
    "labels": lambda n: {"metadata": {"labels": {f"k{each}": "v" for each in range(n)}}},
    "annotations": lambda n: {"metadata": {"annotations": {f"k{each}": "v" for each in range(n)}}},
    "owners": lambda n: {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "K", "name": f"{each}", "uid": f"{each}"}
                for each in range(n)
            ]
        }
    },
    "node selector": lambda n: {"spec": {"nodeSelector": {f"k{each}": "v" for each in range(n)}}},
    "node terms": lambda n: node_affinity(
        [{"matchExpressions": [each]} for each in expressions(n, "Exists")]
    ),
    "node expressions": lambda n: node_affinity([{"matchExpressions": expressions(n)}]),
    "node values": lambda n: node_affinity(
        [
            {
                "matchExpressions": [
                    {"key": HOSTNAME, "operator": "NotIn", "values": [f"v{v}" for v in range(n)]}
                ]
            }
        ]
    ),
    "node names": lambda n: node_affinity(
        [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"x{v}"]}]}
            for v in range(n)
        ]
    ),
    "tolerations": lambda n: listed("tolerations", lambda i: {"key": f"k{i}"}, n),
    "selector expressions": lambda n: apart({"labelSelector": hard_to_match(n)}),
    "selector labels": lambda n: apart(
        {"labelSelector": {"matchLabels": {f"k{each}": "v" for each in range(n)}}}
    ),
    "namespaces": lambda n: apart({"namespaces": [f"ns{each}" for each in range(n)]}),
    "namespace expressions": lambda n: apart({"namespaceSelector": hard_to_match(n)}),
    "spread expressions": lambda n: spread({"labelSelector": hard_to_match(n)}),
    "spread label keys": lambda n: spread({"matchLabelKeys": [f"k{each}" for each in range(n)]}),
    "containers": lambda n: listed(
        "containers",
        lambda i: {"name": f"c{i}", "image": f"i{i}", "resources": {"requests": {"cpu": "1m"}}},
        n,
    ),
    "init containers": lambda n: listed(
        "initContainers",
        lambda i: {"name": f"c{i}", "image": "i", "resources": {"requests": {"cpu": "1m"}}},
        n,
    ),
    "sidecars": lambda n: listed(
        "initContainers", lambda i: {"name": f"c{i}", "image": "i", "restartPolicy": "Always"}, n
    ),
    "resources": lambda n: container(
        resources={"requests": {f"example.com/r{each}": "1" for each in range(n)}}
    ),
    "environment": lambda n: container(env=[{"name": f"e{each}"} for each in range(n)]),
    "host ports": lambda n: container(
        ports=[{"containerPort": each + 1, "hostPort": each + 1} for each in range(n)]
    ),
    "one host port on many addresses": lambda n: container(
        ports=[
            {"containerPort": 80, "hostPort": 80, "hostIP": f"10.0.{each >> 8}.{each & 255}"}
            for each in range(n)
        ]
    ),
    "claims of volumes": lambda n: volumes(
        lambda i: {"persistentVolumeClaim": {"claimName": f"c{i}"}}, n
    ),
    "disks": lambda n: volumes(lambda i: {"gcePersistentDisk": {"pdName": f"d{i}"}}, n),
    "one disk": lambda n: volumes(
        lambda i: {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, n
    ),
    "block devices": lambda n: volumes(
        lambda i: {"rbd": {"monitors": ["a", "b"], "image": f"i{i}", "pool": "p"}}, n
    ),
    "targets": lambda n: volumes(
        lambda i: {"iscsi": {"iqn": "q", "targetPortal": "p", "lun": i, "readOnly": True}}, n
    ),
    "claims of devices": lambda n: listed(
        "resourceClaims", lambda i: {"name": f"r{i}", "resourceClaimName": f"c{i}"}, n
    ),
    "conditions": lambda n: {
        "status": {"conditions": [{"type": f"t{i}", "status": "True"} for i in range(n)]}
    },
}


def cost(pod: Callable[[int], Json], count: int) -> int:
    lie = pod(count)

    async def steps(harness: HostileObjectHarness) -> None:
        for number in range(10):
            labels = {f"own{number}": "x", "a": "b"}
            await harness.add_pod(f"there{number}", node_name=f"n{number % 3}", labels=labels)
        for number in range(3):
            await harness.add_pod(f"twin{number}", lie, node_name=f"n{number}")
        await harness.add_pod("hostile", lie)
        await harness.add_pod("innocent", requests={"cpu": "1m"})
        await harness.until_bound("innocent")
        # Something happens that the pod may be waiting for.
        await harness.add_node("late", cpu="8", memory="16Gi")
        await harness.delete_pod("twin0")
        await harness.delete_pod("hostile")
        await asyncio.sleep(5)

    return count_calls(lambda: run_steps(steps))


@pytest.mark.parametrize("pod", PODS.values(), ids=PODS)
def test_a_pod_costs_no_more_than_what_is_in_it(pod: Callable[[int], Json]) -> None:
    cost(pod, 1)  # fills the caches
    growth = grow(lambda count: cost(pod, count), SIZE)
    assert growth.is_linear, growth
    assert growth.among_many <= CALLS_PER_ITEM, growth
