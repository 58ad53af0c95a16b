"""NodeResourceTopologyMatch: alignment against a brute force, scores, and the cache."""

from __future__ import annotations

import asyncio
import copy
import random
from typing import Any

import msgspec
import pytest

from kubesched.contrib.node_resource_topology.plugin import (
    NOT_ALIGNED,
    NodeResourceTopologyMatch,
    NodeResourceTopologyMatchArgs,
)
from kubesched.contrib.node_resource_topology.zones import NODE_TOPOLOGY_KIND, read_topology
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_container,
    make_node,
    make_pod,
    run_filter,
    run_score,
)
from tests.contrib.harness import ContribHarness, Json

KIND = NODE_TOPOLOGY_KIND.type
DEVICE = "example.com/nic"
SINGLE = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
POD_SCOPE = {"name": "topologyManagerScope", "value": "pod"}


def topology(name: str, *zones: Json, scope: str = "container", policy: str = "") -> Any:
    attributes = [POD_SCOPE] if scope == "pod" else []
    attributes += [{"name": "topologyManagerPolicy", "value": policy}] if policy else SINGLE
    document = {
        "metadata": {"name": name},
        "attributes": attributes,
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "costs": [{"name": f"node-{number}", "value": 10}]
                + [
                    {"name": f"node-{other}", "value": 20}
                    for other in range(len(zones))
                    if other != number
                ],
                "resources": [
                    {"name": each, "capacity": amount, "allocatable": amount, "available": amount}
                    for each, amount in resources.items()
                ],
            }
            for number, resources in enumerate(zones)
        ],
    }
    return msgspec.convert(document, KIND)


def guaranteed(*containers: Json) -> Any:
    """A pod whose containers have limits that equal their requests."""
    made = [
        make_container(requests={"memory": "1Mi", **each}, limits={"memory": "1Mi", **each})
        for each in containers
    ]
    return make_pod("p", containers=made)


def node(name: str) -> Any:
    return make_node(name, cpu="64", memory="64Gi", extended={DEVICE: "8"})


def placed_on(pod: Any, *topologies: Any, **args: Any) -> list[bool]:
    handle = FakeHandle([*(node(each.metadata.name) for each in topologies), *topologies])
    plugin = NodeResourceTopologyMatch(msgspec.convert(args, NodeResourceTopologyMatchArgs), handle)
    found = run_filter(plugin, pod, handle.snapshot.nodes)
    assert set(found) <= {SUCCESS, NOT_ALIGNED}
    return [status is SUCCESS for status in found]


def scores(pod: Any, strategy: str, *topologies: Any) -> list[int]:
    handle = FakeHandle([*(node(each.metadata.name) for each in topologies), *topologies])
    args = {"scoringStrategy": {"type": strategy}}
    plugin = NodeResourceTopologyMatch(msgspec.convert(args, NodeResourceTopologyMatchArgs), handle)
    return list(run_score(plugin, pod, handle.snapshot.nodes))


MEMORY = {"memory": "8Gi"}


def test_the_plugin_keeps_the_contract() -> None:
    def with_zones(args: Any, handle: Any) -> Any:
        plugin = NodeResourceTopologyMatch(args, handle)
        for number, each in enumerate(handle.snapshot.nodes):
            zones = [{"cpu": "1", **MEMORY}, {"cpu": "3", **MEMORY}]
            scope = "pod" if number % 2 else "container"
            plugin._cache._topology_changed(None, topology(each.name, *zones, scope=scope))
        return plugin

    with_zones.args_type = NodeResourceTopologyMatchArgs  # type: ignore[attr-defined]
    check_plugin(with_zones)


def test_the_policies_and_scopes() -> None:
    zones = [{"cpu": "4", **MEMORY}, {"cpu": "4", **MEMORY}]
    two = guaranteed({"cpu": "3"}, {"cpu": "3"})
    found = placed_on(
        two,
        topology("containers", *zones),
        topology("pods", *zones, scope="pod"),
        topology("restricted", *zones, policy="restricted", scope="pod"),
        topology("best", *zones, policy="best-effort", scope="pod"),
        topology("none", *zones, policy="none", scope="pod"),
    )
    assert found == [True, False, True, True, True]
    assert placed_on(guaranteed({"cpu": "5"}), topology("a", *zones)) == [False]


def test_old_names_of_policies() -> None:
    def read(*policies: str) -> tuple[str, str]:
        found = read_topology(msgspec.convert({"topologyPolicies": list(policies)}, KIND))
        return found.policy, found.scope

    assert read("SingleNUMANodePodLevel") == ("single-numa-node", "pod")
    assert read("SingleNUMANodeContainerLevel") == ("single-numa-node", "container")
    assert read("RestrictedPodLevel") == ("restricted", "pod")
    assert read() == ("none", "container")


def test_pods_that_are_not_guaranteed_need_devices_only() -> None:
    zones = topology("n", {"cpu": "1", DEVICE: "1", **MEMORY}, {"cpu": "1", DEVICE: "2", **MEMORY})
    burstable = make_pod("p", containers=[make_container(requests={"cpu": "2", DEVICE: "2"})])
    assert placed_on(burstable, zones) == [True]
    too_many = make_pod("p", containers=[make_container(requests={"cpu": "2", DEVICE: "3"})])
    assert placed_on(too_many, zones) == [False]


@pytest.mark.parametrize("seed", range(40))
def test_alignment_is_that_of_a_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    made, want = [], []
    containers = [
        {
            "cpu": str(rng.randint(1, 4)),
            **({DEVICE: str(rng.randint(1, 2))} if rng.random() < 0.5 else {}),
        }
        for _ in range(rng.randint(1, 4))
    ]
    for number in range(6):
        zones: list[Json] = []
        for _ in range(rng.randint(1, 4)):
            zone = {"cpu": str(rng.randint(0, 8)), **MEMORY}
            if rng.random() < 0.7:
                zone[DEVICE] = str(rng.randint(0, 4))
            zones.append(zone)
        scope = rng.choice(["container", "pod"])
        made.append(topology(f"n{number}", *zones, scope=scope))
        want.append(brute_force(containers, zones, scope))
    assert placed_on(guaranteed(*containers), *made) == want


def brute_force(containers: list[Json], zones: list[Json], scope: str) -> bool:
    """Give each container, or all together, the first zone that has everything."""
    free = [{name: int(each[name]) for name in ("cpu", DEVICE) if name in each} for each in zones]
    is_divided = any(DEVICE in each for each in free)
    wanted = [{name: int(amount) for name, amount in each.items()} for each in containers]
    if scope == "pod":
        wanted = [{name: sum(each.get(name, 0) for each in wanted) for name in ("cpu", DEVICE)}]
    for request in wanted:
        for zone in free:
            needed = {
                name: amount
                for name, amount in request.items()
                if amount and (name != DEVICE or is_divided)
            }
            if all(zone.get(name, -1) >= amount for name, amount in needed.items()):
                for name, amount in needed.items():
                    zone[name] -= amount
                break
        else:
            return False
    return True


def test_strategies_score_the_worst_zone_that_fits() -> None:
    zones = topology("n", {"cpu": "4", "memory": "4Mi"}, {"cpu": "2", "memory": "2Mi"})
    pod = guaranteed({"cpu": "1"})
    assert scores(pod, "LeastAllocated", zones) == [50]
    assert scores(pod, "MostAllocated", zones) == [25]
    assert scores(pod, "BalancedAllocation", zones) == [100]


def test_fewer_zones_score_higher() -> None:
    large = topology("large", {"cpu": "8", **MEMORY}, {"cpu": "8", **MEMORY}, policy="none")
    small = topology("small", {"cpu": "4", **MEMORY}, {"cpu": "4", **MEMORY}, policy="none")
    pod = guaranteed({"cpu": "6"})
    # 100 less 12 for each zone, and 6 because no zones are nearer to each other.
    assert scores(pod, "LeastNUMANodes", large, small) == [100 - 12 + 6, 100 - 24 + 6]


def test_pods_that_are_not_guaranteed_and_unknown_nodes() -> None:
    zones = topology("n", {"cpu": "4", **MEMORY})
    burstable = make_pod("p", containers=[make_container(requests={"cpu": "2"})])
    assert scores(burstable, "LeastAllocated", zones) == [100]
    handle = FakeHandle([node("other")])
    plugin = NodeResourceTopologyMatch(None, handle)
    assert list(run_score(plugin, guaranteed({"cpu": "1"}), handle.snapshot.nodes)) == [0]


def story(args: Json) -> list[int]:
    """Two pods of 3 CPUs on a node with zones of 4 and 2 CPUs whose exporter is late."""

    async def main() -> list[int]:
        profile = {
            "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}},
            "pluginConfig": [{"name": "NodeResourceTopologyMatch", "args": args}],
        }
        harness = ContribHarness(
            profile, [NodeResourceTopologyMatch], ["noderesourcetopologies.yaml"]
        )
        await harness.prepare()
        await harness.node("n", cpu="8")
        document = msgspec.to_builtins(
            topology("n", {"cpu": "4", **MEMORY}, {"cpu": "2", **MEMORY})
        )
        await harness.api.create_document(KIND, None, document)
        async with harness.live.running():
            amounts = {"cpu": "3", "memory": "1Mi"}
            resources = {"requests": amounts, "limits": amounts}
            for name in ("a", "b"):
                containers = [{"name": "c", "image": "pause", "resources": resources}]
                await harness.pod(name, containers=containers)
            await asyncio.sleep(10)
            seen = [len(await harness.placed())]
            for available in ("1", "4"):
                zones = copy.deepcopy(document["zones"])
                zones[0]["resources"][0]["available"] = available
                await harness.api.patch(KIND, "n", None, {"zones": zones}, patch_type="merge")
                await asyncio.sleep(10)
                seen.append(len(await harness.placed()))
            return seen

    return run(main)


def test_without_the_cache_a_zone_is_promised_twice() -> None:
    assert story({})[0] == 2


def test_the_cache_waits_until_the_topology_shows_the_pod() -> None:
    assert story({"cacheResyncPeriodSeconds": 5}) == [1, 1, 2]
