"""The panels of plugins on the page, with a live cluster in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import Namespace, Node
from kubesched.contrib.capacity_scheduling import CapacityScheduling
from kubesched.contrib.capacity_scheduling.elastic_quotas import ELASTIC_QUOTAS
from kubesched.contrib.coscheduling import Coscheduling
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUPS
from kubesched.contrib.network_aware import NetworkOverhead
from kubesched.contrib.network_aware.app_groups import APP_GROUP_LABEL, APP_GROUPS, WORKLOAD_LABEL
from kubesched.contrib.network_aware.network_costs import NETWORK_TOPOLOGIES
from kubesched.contrib.node_resource_topology import NodeResourceTopologyMatch
from kubesched.contrib.node_resource_topology.zones import NODE_TOPOLOGY_KIND
from kubesched.contrib.trimaran import TargetLoadPacking
from kubesched.dashboard.plugin_panels import have_panels, panels_of
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import Panel, Plugin
from kubesched.scheduler.options import scheduler_configuration
from tests.contrib.harness import ContribHarness

Json = dict[str, Any]
SORTED: Json = {"queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]}}


def panels(
    plugin: type[Plugin],
    crds: list[str],
    scenario: Callable[[ContribHarness], Awaitable[Any]],
    points: Json | None = None,
    args: Json | None = None,
) -> tuple[Panel, ...]:
    """Return the panels of a plugin after a scenario on two nodes of 4 CPUs."""

    async def main() -> tuple[Panel, ...]:
        enabled = {"multiPoint": {"enabled": [{"name": plugin.name}]}, **(points or {})}
        given = [{"name": plugin.name, "args": args}] if args else []
        profile = {"plugins": enabled, "pluginConfig": given}
        harness = ContribHarness(profile, [plugin], crds)
        await harness.prepare()
        for number in range(2):
            await harness.node(f"n{number}")
        async with harness.live.running():
            await scenario(harness)
            (shown,) = panels_of(harness.live.scheduler.profiles.values())
            assert shown["plugin"] == plugin.name
            return tuple(shown["panels"])

    return run(main)


def rows(panel: Panel) -> dict[str, tuple[str, str]]:
    """Return the state and the first meter of each row."""
    return {row.name: (row.state, row.meters[0].text) for row in panel.rows}


def test_the_panel_of_quotas_has_bars_with_the_guarantee() -> None:
    async def scenario(harness: ContribHarness) -> None:
        for name, least, most in (("a", 2, 8), ("b", 6, 6), ("c", 0, 0)):
            await harness.api.create_document(Namespace, None, {"metadata": {"name": name}})
            spec = {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}}
            await harness.custom(ELASTIC_QUOTAS, "quota", spec, name)
        for number in range(4):
            await harness.pod(f"p{number}", namespace="a")
        await asyncio.sleep(5)

    (panel,) = panels(CapacityScheduling, ["elasticquotas.yaml"], scenario)
    assert panel.summary == "Namespaces with a quota: 3. Of these, 1 borrow."
    assert rows(panel) == {
        "all namespaces": ("", "4 of 8"),
        "a": ("borrows", "4 of 8"),
        "b": ("within its min", "0 of 6"),
        "c": ("within its min", "0 of 0"),
    }
    (meter,) = panel.rows[1].meters
    assert (meter.share, [(mark.share, mark.text) for mark in meter.marks]) == (
        0.5,
        [(0.25, "min 2")],
    )


def test_groups_show_what_they_wait_for() -> None:
    async def scenario(harness: ContribHarness) -> None:
        for name, pods, least in (("placed", 3, 3), ("short", 1, 2), ("large", 9, 9)):
            await harness.custom(POD_GROUPS, name, {"minMember": least})
            for number in range(pods):
                await harness.pod(f"{name}-{number}", labels={GROUP_LABEL: name})
        await harness.pod("orphan", labels={GROUP_LABEL: "gone"})
        await asyncio.sleep(5)

    (panel,) = panels(Coscheduling, ["podgroups.yaml"], scenario, SORTED)
    assert panel.summary == "3 of 4 wait."
    assert rows(panel) == {
        "default/gone": ("no PodGroup", "0"),
        "default/large": ("waits", "0 of 9"),
        "default/short": ("incomplete", "0 of 2"),
        "default/placed": ("placed", "3 of 3"),
    }
    assert panel.rows[1].text.endswith(
        "the nodes have room for 5 of the 9 pods that it still needs."
    )
    assert panel.rows[2].pods == ("default/short-0",)


def test_the_load_of_simulated_nodes_is_read_as_from_metrics_server() -> None:
    """Two pods of a node with 4 CPUs use one CPU each; the other node is idle."""

    async def scenario(harness: ContribHarness) -> None:
        for number in range(2):
            usage = {"kubesched.io/cpu-usage": "1"}
            await harness.pod(f"p{number}", nodeSelector={"kubernetes.io/hostname": "n1"})
            pod = (await harness.pods())[f"p{number}"]
            patch = {"metadata": {"annotations": usage}}
            await harness.api.patch(type(pod), f"p{number}", "default", patch, patch_type="merge")
        await asyncio.sleep(65)

    (panel,) = panels(TargetLoadPacking, [], scenario)
    assert panel.title == "Measured load from metrics-server"
    assert [row.name for row in panel.rows] == ["n1", "n0"]
    assert panel.rows[0].meters[0].text == "50 %"
    assert panel.tone == ""


def test_applications_show_how_many_dependencies_are_near() -> None:
    """Two pods of web, one on the node of the database; the other node is in another zone."""

    async def scenario(harness: ContribHarness) -> None:
        zone = "topology.kubernetes.io/zone"
        for number in range(2):
            patch = {"metadata": {"labels": {zone: f"z{number}"}}}
            await harness.api.patch(Node, f"n{number}", None, patch, patch_type="merge")
        db, web = ({"kind": "Deployment", "name": each, "selector": each} for each in ("db", "web"))
        needs = [{"workload": db, "maxNetworkCost": 9}]
        workloads = [{"workload": web, "dependencies": needs}, {"workload": db}]
        spec = {"numMembers": 2, "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
        await harness.custom(APP_GROUPS, "shop", spec)
        for name, node in (("db", "n0"), ("web-0", "n0"), ("web-1", "n1")):
            labels = {APP_GROUP_LABEL: "shop", WORKLOAD_LABEL: name.partition("-")[0]}
            await harness.pod(name, labels=labels, nodeSelector={"kubernetes.io/hostname": node})
            await asyncio.sleep(1)
        await harness.custom(
            NETWORK_TOPOLOGIES, "nt-default", {"configmapName": "c", "weights": [weights]}
        )
        await harness.pod("another")
        await asyncio.sleep(5)

    costs = [{"origin": "z1", "costList": [{"destination": "z0", "networkCost": 10}]}]
    topology = {"topologyKey": "topology.kubernetes.io/zone", "originList": costs}
    weights = {"name": "UserDefined", "topologyList": [topology]}
    (panel,) = panels(NetworkOverhead, ["appgroups.yaml", "networktopologies.yaml"], scenario)
    assert rows(panel) == {"default/shop": ("too far", "1 of 2")}
    assert panel.summary == "1 have dependencies too far."
    assert panel.rows[0].text == "Placed in this order: web, db."


def test_a_source_that_fails_is_shown() -> None:
    async def scenario(harness: ContribHarness) -> None:
        await asyncio.sleep(5)

    args = {"metricProvider": {"type": "File", "address": "/nonexistent/load.json"}}
    (panel,) = panels(TargetLoadPacking, [], scenario, args=args)
    assert panel.tone == "bad"
    assert "all nodes have the score 0" in panel.summary
    assert "/nonexistent/load.json: No such file" in panel.summary


def test_numa_nodes_show_free_and_reserved_amounts() -> None:
    async def scenario(harness: ContribHarness) -> None:
        resources = [{"name": "cpu", "capacity": "2", "allocatable": "2", "available": "2"}]
        resources.append({"name": "memory", **dict.fromkeys(_AMOUNTS, "8Gi")})
        document = {
            "metadata": {"name": "n0"},
            "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
            "zones": [
                {"name": f"node-{number}", "type": "Node", "resources": resources}
                for number in range(2)
            ],
        }
        await harness.api.create_document(NODE_TOPOLOGY_KIND.type, None, document)
        amounts = {"cpu": "1", "memory": "1Gi"}
        container = {"name": "c", "image": "i", "resources": {"limits": amounts}}
        selector = {"kubernetes.io/hostname": "n0"}
        await harness.pod("p", containers=[container], nodeSelector=selector)
        await asyncio.sleep(2)

    args = {"cacheResyncPeriodSeconds": 5}
    crds = ["noderesourcetopologies.yaml"]
    (panel,) = panels(NodeResourceTopologyMatch, crds, scenario, args=args)
    assert panel.summary == "1 of 2 nodes have a NodeResourceTopology."
    (row,) = panel.rows
    assert [meter.text for meter in row.meters] == ["1 of 2 left"] * 2
    assert row.text == "scope container; reserved, not reported yet: 1 cpu, 1Gi memory"


_AMOUNTS = ("capacity", "allocatable", "available")


def test_a_plugin_that_fails_does_not_end_the_page() -> None:
    class Broken(Plugin):
        name = "Broken"

        def pre_enqueue(self, pod: Any) -> Any:
            raise NotImplementedError

        def panels(self) -> Any:
            raise ValueError("no state")

    async def scenario(harness: ContribHarness) -> None:
        await asyncio.sleep(1)

    assert panels(Broken, [], scenario) == (Panel("Broken", "the plugin failed: no state", "bad"),)


def test_the_page_has_the_view_only_with_such_plugins() -> None:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}]}}}
    registry = {"CapacityScheduling": CapacityScheduling}
    configuration = scheduler_configuration(profiles=[profile], out_of_tree_registry=registry)
    assert have_panels(configuration, registry)
    assert not have_panels(scheduler_configuration(), registry)
