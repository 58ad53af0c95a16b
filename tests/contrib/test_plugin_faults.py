"""All contrib plugins together under faults: requests fail, nodes are deleted, pods end.

`verify_engine` compares each decision from the answer cache with one of a full search.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from kubesched.api import ApiError, Namespace, Node, Pod, Status
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.contrib.capacity_scheduling import CapacityScheduling
from kubesched.contrib.capacity_scheduling.elastic_quotas import ELASTIC_QUOTAS
from kubesched.contrib.coscheduling import Coscheduling
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUPS
from kubesched.contrib.network_aware import NetworkOverhead
from kubesched.contrib.network_aware.app_groups import APP_GROUP_LABEL, APP_GROUPS, WORKLOAD_LABEL
from kubesched.contrib.network_aware.network_costs import NETWORK_TOPOLOGIES, ZONE
from kubesched.contrib.node_resource_topology import NodeResourceTopologyMatch
from kubesched.contrib.node_resource_topology.zones import NODE_TOPOLOGY_KIND
from kubesched.contrib.node_resources_allocatable import NodeResourcesAllocatable
from kubesched.contrib.trimaran import (
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    TargetLoadPacking,
)
from kubesched.foundation.util.virtual_loop import run
from tests.contrib.harness import ContribHarness

PLUGINS: list[Any] = [
    Coscheduling,
    CapacityScheduling,
    NodeResourceTopologyMatch,
    NodeResourcesAllocatable,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    NetworkOverhead,
]
CRDS = [
    "podgroups.yaml",
    "elasticquotas.yaml",
    "noderesourcetopologies.yaml",
    "appgroups.yaml",
    "networktopologies.yaml",
]
PROFILE: dict[str, Any] = {
    "plugins": {
        "multiPoint": {"enabled": [{"name": each.name} for each in PLUGINS]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
        "postFilter": {
            "enabled": [{"name": "Coscheduling"}, {"name": "CapacityScheduling"}],
            "disabled": [{"name": "*"}],
        },
    }
}
SEEDS = range(100) if os.environ.get("KUBESCHED_EXPLORE") else range(3)
_UNAVAILABLE = ApiError(Status(status="Failure", code=503, message="no leader"))
_STORM_S = 40


class _FaultHarness(ContribHarness):
    """Users have an API of their own, whose requests do not fail."""

    @property
    def api(self) -> LocalApi:
        return LocalApi(self.live.api.store, self.clock)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_storm_leaves_quotas_and_groups_intact(seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        harness = _FaultHarness(
            PROFILE,
            PLUGINS,
            CRDS,
            seed,
            verify_engine=True,
        )
        await harness.prepare()
        for number in range(4):
            await harness.node(f"n{number}", **{ZONE: f"z{number // 2}"})
            if number % 2:
                await harness.api.create_document(NODE_TOPOLOGY_KIND.type, None, zones(number))
        for name, least, most in (("a", 4, 10), ("b", 12, 16)):
            await harness.api.create_document(Namespace, None, {"metadata": {"name": name}})
            spec = {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}}
            await harness.custom(ELASTIC_QUOTAS, "quota", spec, name)
        await prepare_network(harness)
        began_ns = harness.clock.now_ns()

        def fail(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
            is_over = harness.clock.now_ns() - began_ns > _STORM_S * 10**9
            if is_over or verb not in ("bind", "patch", "list") or rng.random() < 0.7:
                return None
            delay_ns = rng.randint(0, 2 * 10**9)
            return Fault(delay_ns, rng.choice([None, _UNAVAILABLE]), rng.random() < 0.3)

        async with harness.live.running():
            harness.live.api._faults = fail
            for number in range(_STORM_S):
                await act(harness, rng, number)
                await asyncio.sleep(1)
                await check_limits(harness)
            await asyncio.sleep(300)
            await check_limits(harness)
            sizes = await harness.placed_by(lambda pod: pod.metadata.labels.get(GROUP_LABEL, ""))
            groups = {name: size for name, size in sizes.items() if name}
            # A group whose binding failed may lack a pod, but only while no node has room for it.
            partial = {name: size for name, size in groups.items() if size < 3}
            assert not partial or max((await free(harness)).values()) < 1000, (seed, partial)
            scheduler = harness.live.scheduler
            assert list(scheduler.services.waiting_pods) == []

    run(main)


async def prepare_network(harness: ContribHarness) -> None:
    """Pods of web must be near pods of db: in their zone, or in z0 for those in z1."""
    web, db = ({"kind": "Deployment", "name": each, "selector": each} for each in ("web", "db"))
    needs = [{"workload": db, "maxNetworkCost": 10}]
    workloads = [{"workload": web, "dependencies": needs}, {"workload": db}]
    spec = {"numMembers": 2, "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
    await harness.custom(APP_GROUPS, "shop", spec)
    origins = [
        {"origin": start, "costList": [{"destination": end, "networkCost": cost}]}
        for start, end, cost in (("z0", "z1", 5), ("z1", "z0", 20))
    ]
    weights = {
        "name": "UserDefined",
        "topologyList": [{"topologyKey": ZONE, "originList": origins}],
    }
    spec = {"configmapName": "c", "weights": [weights]}
    await harness.custom(NETWORK_TOPOLOGIES, "nt-default", spec)


async def act(harness: ContribHarness, rng: random.Random, number: int) -> None:
    """Do something that users, nodes or exporters do."""
    choice = rng.random()
    if choice < 0.3:
        labels = {APP_GROUP_LABEL: "shop", WORKLOAD_LABEL: rng.choice(["web", "db"])}
        cpu = rng.choice(["500m", "1", "2"])
        await harness.pod(f"p{number}", cpu, rng.choice([{}, labels]), namespace="a")
    elif choice < 0.5:
        amounts = {"cpu": rng.choice(["1", "2"]), "memory": "1Gi"}
        container = {"name": "c", "image": "pause", "resources": {"limits": amounts}}
        await harness.pod(f"p{number}", namespace="b", containers=[container])
    elif choice < 0.65:
        name = f"g{number}"
        await harness.custom(POD_GROUPS, name, {"minMember": 3})
        for member in range(3):
            await harness.pod(f"{name}-{member}", "1", {GROUP_LABEL: name})
    elif choice < 0.8:
        # Ends a pod without a group: a group that loses a pod may stay below its minimum.
        placed = [
            pod
            for pod in (await harness.pods()).values()
            if pod.spec.node_name and GROUP_LABEL not in pod.metadata.labels
        ]
        if placed:
            gone = rng.choice(sorted(placed, key=lambda pod: pod.metadata.name)).metadata
            await harness.api.delete(Pod, gone.name, gone.namespace, grace_period_seconds=0)
    elif choice < 0.9:
        patch = {"zones": zones(1, available=str(rng.randint(0, 2)))["zones"]}
        await harness.api.patch(NODE_TOPOLOGY_KIND.type, "n1", None, patch, patch_type="merge")
    else:
        patch = {"spec": {"unschedulable": rng.random() < 0.5 or None}}
        await harness.api.patch(Node, f"n{rng.randint(0, 3)}", None, patch, patch_type="merge")


def zones(number: int, available: str = "2") -> dict[str, Any]:
    memory = dict.fromkeys(("capacity", "allocatable", "available"), "32Gi")
    cpu = {"capacity": "2", "allocatable": "2", "available": available}
    resources = [{"name": "cpu", **cpu}, {"name": "memory", **memory}]
    return {
        "metadata": {"name": f"n{number}"},
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [
            {"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)
        ],
    }


def milli_cpu(pod: Pod) -> int:
    resources = pod.spec.containers[0].resources
    amount = str({**resources.limits, **resources.requests}["cpu"])
    return 500 if amount == "500m" else 1000 * int(amount)


async def free(harness: ContribHarness) -> dict[str, int]:
    """Return the free CPU of the nodes that take pods, in thousandths."""
    nodes = (await harness.api.list(Node)).items
    left = {node.metadata.name: 4000 for node in nodes if not node.spec.unschedulable}
    for pod in (await harness.pods()).values():
        if pod.spec.node_name in left:
            left[pod.spec.node_name] -= milli_cpu(pod)
    return left


async def check_limits(harness: ContribHarness) -> None:
    used: Counter[str] = Counter()
    for pod in (await harness.api.list(Pod)).items:
        if pod.spec.node_name:
            used[pod.metadata.namespace] += milli_cpu(pod)
    assert used["a"] <= 10_000
    assert used["b"] <= 16_000
    assert used["a"] + used["b"] <= 16_000
