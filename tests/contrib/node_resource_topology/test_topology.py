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
    UNKNOWN,
    NodeResourceTopologyMatch,
    NodeResourceTopologyMatchArgs,
    ZoneScoringStrategy,
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
from tests.contrib.node_resource_topology.kubelet_model import Kubelet

KIND = NODE_TOPOLOGY_KIND.type
DEVICE = "example.com/nic"
SINGLE = [{"name": "topologyManagerPolicy", "value": "single-numa-node"}]
FILTERING = ("single-numa-node", "restricted")
STRATEGIES = ("LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes")
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
                "resources": [amounts(*item) for item in resources.items()],
            }
            for number, resources in enumerate(zones)
        ],
    }
    return msgspec.convert(document, KIND)


def amounts(name: str, amount: str | tuple[str, str]) -> Json:
    """Return the resources of a zone; a pair is (allocatable, available)."""
    most, left = amount if isinstance(amount, tuple) else (amount, amount)
    return {"name": name, "capacity": most, "allocatable": most, "available": left}


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


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_plugin_fulfils_the_contract(strategy: str) -> None:
    def with_zones(args: Any, handle: Any) -> Any:
        plugin = NodeResourceTopologyMatch(
            NodeResourceTopologyMatchArgs(ZoneScoringStrategy(strategy)), handle
        )
        for each in handle.snapshot.nodes:
            rng = random.Random(each.name)  # a topology depends on the node alone
            zones = [{"cpu": str(rng.randint(0, 4)), **MEMORY} for _ in range(rng.randint(1, 3))]
            scope, policy = rng.choice(["pod", "container"]), rng.choice(FILTERING)
            made = topology(each.name, *zones, scope=scope, policy=policy)
            plugin._cache._topology_changed(None, made)
        plugin._cache.version = 0
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
        topology("best", *zones, policy="best-effort", scope="pod"),
        topology("none", *zones, policy="none", scope="pod"),
    )
    assert found == [True, False, True, True]
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


@pytest.mark.parametrize("policy", FILTERING)
@pytest.mark.parametrize("seed", range(30))
def test_alignment_is_that_of_a_brute_force(seed: int, policy: str) -> None:
    """Some resources of the zones are in use; devices may be missing from zones, or from all."""
    rng = random.Random(seed)
    made, want = [], []
    containers = [
        {"cpu": rng.randint(1, 6), **({DEVICE: rng.randint(1, 3)} if rng.random() < 0.5 else {})}
        for _ in range(rng.randint(1, 3))
    ]
    for number in range(6):
        names = ["cpu", DEVICE] if rng.random() < 0.8 else ["cpu"]
        whole = [
            {name: rng.randint(1, 8) for name in names if name == "cpu" or rng.random() < 0.8}
            for _ in range(rng.randint(1, 4))
        ]
        scope = rng.choice(["container", "pod"])
        kubelet = Kubelet(whole, policy, scope)
        for zone in kubelet.free:
            for name in zone:
                zone[name] = rng.randint(0, zone[name])
        shown = [
            {name: (str(most[name]), str(left[name])) for name in most} | {"memory": ("8Gi", "8Gi")}
            for most, left in zip(whole, kubelet.free, strict=True)
        ]
        made.append(topology(f"n{number}", *shown, scope=scope, policy=policy))
        want.append(kubelet.admit(containers))
    pod = guaranteed(*({name: str(amount) for name, amount in each.items()} for each in containers))
    assert placed_on(pod, *made) == want


@pytest.mark.parametrize("policy", FILTERING)
@pytest.mark.parametrize("seed", range(4))
def test_no_kubelet_refuses_a_pod_although_exporters_are_late(seed: int, policy: str) -> None:
    """Kubelets admit pods when they run, and show that up to ten seconds later."""
    rng = random.Random(seed)
    kubelets = {
        f"n{number}": Kubelet(
            [{"cpu": rng.randint(4, 8), DEVICE: rng.randint(1, 3)} for _ in range(2)],
            policy,
            rng.choice(["container", "pod"]),
        )
        for number in range(3)
    }

    async def main() -> tuple[int, list[str]]:
        harness = harness_with({"cacheResyncPeriodSeconds": 5})
        await harness.prepare()
        for name, kubelet in kubelets.items():
            cpu = str(sum(zone["cpu"] for zone in kubelet.whole))
            await harness.node(name, cpu=cpu, extended={DEVICE: "6"})
            await harness.api.create_document(KIND, None, shown(name, kubelet))
        admitted: set[str] = set()
        refused: list[str] = []

        async def run_kubelets() -> None:
            for pod in (await harness.pods()).values():
                where, uid = pod.spec.node_name, pod.metadata.uid
                if where and pod.status.phase == "Running" and uid not in admitted:
                    admitted.add(uid)
                    if not kubelets[where].admit(requests_of(pod)):
                        refused.append(pod.metadata.name)

        async with harness.live.running():
            for number in range(12):
                containers = [
                    {"cpu": str(rng.randint(1, 4)), "memory": "1Mi"}
                    | ({DEVICE: "1"} if rng.random() < 0.4 else {})
                    for _ in range(rng.randint(1, 2))
                ]
                await harness.pod(f"p{number}", containers=documents(containers))
                for second in range(rng.choice([0, 1, 12])):
                    await asyncio.sleep(1)
                    await run_kubelets()
                    if second % 10 == 9:  # the exporters' interval
                        for name, kubelet in kubelets.items():
                            patch = {"zones": shown(name, kubelet)["zones"]}
                            await harness.api.patch(KIND, name, None, patch, patch_type="merge")
            await asyncio.sleep(10)
            await run_kubelets()
        return len(admitted), refused

    admitted, refused = run(main)
    assert refused == []
    assert admitted >= 3


def shown(name: str, kubelet: Kubelet) -> Json:
    zones = [
        {each: (str(most[each]), str(left[each])) for each in most} | {"memory": ("8Gi", "8Gi")}
        for most, left in zip(kubelet.whole, kubelet.free, strict=True)
    ]
    made = topology(name, *zones, scope=kubelet.scope, policy=kubelet.policy)
    found: Json = msgspec.to_builtins(made)
    return found


def documents(containers: list[dict[str, str]]) -> list[Json]:
    return [
        {
            "name": f"c{number}",
            "image": "pause",
            "resources": {"requests": each, "limits": each},
        }
        for number, each in enumerate(containers)
    ]


def requests_of(pod: Any) -> list[dict[str, int]]:
    return [
        {
            name: int(str(amount))
            for name, amount in each.resources.requests.items()
            if name != "memory"
        }
        for each in pod.spec.containers
    ]


def test_pods_that_the_kubelet_would_refuse_as_restricted() -> None:
    """Six CPUs fit on one empty zone of eight, but three are left on each."""
    zones = [{"cpu": ("8", "3"), "memory": ("8Gi", "8Gi")}] * 2
    used = topology("used", *zones, policy="restricted")
    empty = topology("empty", *[{"cpu": "8", **MEMORY}] * 2, policy="restricted")
    small = topology("small", *[{"cpu": "4", **MEMORY}] * 2, policy="restricted")
    # No zone of the small node has six CPUs, even if it is empty: it may use both.
    assert placed_on(guaranteed({"cpu": "6"}), used, empty, small) == [False, True, True]


def test_nodes_without_a_topology() -> None:
    handle = FakeHandle([node("n")])
    pod = guaranteed({"cpu": "1"})
    for policy, want in (("Allow", SUCCESS), ("Deny", UNKNOWN)):
        args = msgspec.convert({"missingTopologyDataPolicy": policy}, NodeResourceTopologyMatchArgs)
        plugin = NodeResourceTopologyMatch(args, handle)
        assert run_filter(plugin, pod, handle.snapshot.nodes) == [want]


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


def harness_with(args: Json) -> ContribHarness:
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}},
        "pluginConfig": [{"name": "NodeResourceTopologyMatch", "args": args}],
    }
    return ContribHarness(profile, [NodeResourceTopologyMatch], ["noderesourcetopologies.yaml"])


def steps(args: Json) -> list[int]:
    """Two pods of 3 CPUs on a node with zones of 4 and 2 CPUs whose exporter is late."""

    async def main() -> list[int]:
        harness = harness_with(args)
        await harness.prepare()
        await harness.node("n", cpu="8")
        document = msgspec.to_builtins(
            topology("n", {"cpu": "4", **MEMORY}, {"cpu": "2", **MEMORY})
        )
        await harness.api.create_document(KIND, None, document)
        async with harness.live.running():
            wanted = {"cpu": "3", "memory": "1Mi"}
            resources = {"requests": wanted, "limits": wanted}
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
    assert steps({})[0] == 2


def test_the_cache_waits_until_the_topology_shows_the_pod() -> None:
    assert steps({"cacheResyncPeriodSeconds": 5}) == [1, 1, 2]
