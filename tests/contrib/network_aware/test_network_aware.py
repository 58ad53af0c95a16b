"""NetworkOverhead and TopologicalSort: costs against a model, orders, hints, remedies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.labels import Selector
from kubesched.contrib.network_aware import places
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_KIND,
    APP_GROUP_LABEL,
    APP_GROUPS,
    WORKLOAD_LABEL,
    read_app_group,
)
from kubesched.contrib.network_aware.network_costs import (
    NETWORK_TOPOLOGIES,
    NETWORK_TOPOLOGY_KIND,
)
from kubesched.contrib.network_aware.network_overhead import NetworkOverhead, NetworkOverheadArgs
from kubesched.contrib.network_aware.topological_sort import TopologicalSort
from kubesched.contrib.network_aware.workload_order import workload_order
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    PodInfo,
    QueuedPodInfo,
    QueueingHint,
)
from kubesched.framework.pod_query import PodQuery
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_node,
    make_pod,
    run_filter,
    run_score,
)
from tests.contrib.harness import ContribHarness, Json

GROUP = APP_GROUP_KIND.type
TOPOLOGY = NETWORK_TOPOLOGY_KIND.type
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
Costs = dict[tuple[str, str], int]


def spec_of_group(algorithm: str = "KahnSort", **dependencies: dict[str, int]) -> Json:
    """Return the spec of an AppGroup: by workload, what it depends on and at which cost."""

    def named(name: str) -> Json:
        return {"kind": "Deployment", "name": name, "selector": name}

    return {
        "numMembers": len(dependencies),
        "topologySortingAlgorithm": algorithm,
        "workloads": [
            {
                "workload": named(name),
                "dependencies": [
                    {"workload": named(other), "maxNetworkCost": most} for other, most in of.items()
                ],
            }
            for name, of in dependencies.items()
        ],
    }


def spec_of_topology(regions: Costs, zones: Costs, weights: str = "UserDefined") -> Json:
    def entry(key: str, costs: Costs) -> Json:
        origins = [
            {
                "origin": origin,
                "costList": [
                    {"destination": end, "networkCost": cost}
                    for (start, end), cost in costs.items()
                    if start == origin
                ],
            }
            for origin in {start for start, _ in costs}
        ]
        return {"topologyKey": key, "originList": origins}

    topologies = [entry(ZONE, zones), entry(REGION, regions)]
    return {"configmapName": "c", "weights": [{"name": weights, "topologyList": topologies}]}


def group(name: str = "a", algorithm: str = "KahnSort", **dependencies: dict[str, int]) -> Any:
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec_of_group(algorithm, **dependencies),
    }
    return msgspec.convert(document, GROUP)


def topology(regions: Costs, zones: Costs, weights: str = "UserDefined") -> Any:
    document = {
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": spec_of_topology(regions, zones, weights),
    }
    return msgspec.convert(document, TOPOLOGY)


def node(name: str, region: str = "", zone: str = "") -> Node:
    return make_node(name, region=region or None, zone=zone or None)


def member(name: str, workload: str, on: str = "", app: str = "a") -> Pod:
    labels = {APP_GROUP_LABEL: app, WORKLOAD_LABEL: workload}
    return make_pod(name, labels=labels, node_name=on) if on else make_pod(name, labels=labels)


class Verdict(msgspec.Struct):
    near: int = 0
    far: int = 0
    cost: int = 0


def model(
    candidate: Node,
    nodes: Iterable[Node],
    placed: Iterable[Pod],
    dependencies: dict[str, int],
    regions: Costs,
    zones: Costs,
) -> Verdict:
    """Judge one node pod by pod, as the public documentation describes it."""
    by_name = {each.metadata.name: each for each in nodes}
    found = Verdict()

    def place(each: Node) -> tuple[str, str]:
        labels = each.metadata.labels
        return labels.get(REGION, ""), labels.get(ZONE, "")

    here = place(candidate)
    for pod in placed:
        most = dependencies.get(pod.metadata.labels.get(WORKLOAD_LABEL, ""))
        if most is None or pod.metadata.labels.get(APP_GROUP_LABEL) != "a":
            continue
        there = place(by_name[pod.spec.node_name])
        if pod.spec.node_name == candidate.metadata.name:
            found.near += 1
            continue
        if there == ("", ""):
            found.far += 1
            found.cost += 100
            continue
        if here == there:
            found.near += 1
            found.cost += 1
            continue
        if here[0] == there[0]:
            cost = zones.get((here[1], there[1]))
        else:
            cost = regions.get((here[0], there[0]))
        found.cost += 100 if cost is None else cost
        if cost is not None:
            found.near += cost <= most
            found.far += cost > most
    return found


@pytest.mark.parametrize("seed", range(60))
def test_nodes_are_judged_as_by_the_model(seed: int) -> None:
    rng = random.Random(seed)
    regions = ["", "r1", "r2", "r3"]
    zone_names = ["", "z1", "z2", "z3"]
    nodes = [
        node(f"n{number}", rng.choice(regions), rng.choice(zone_names))
        for number in range(rng.randint(1, 12))
    ]

    def costs(names: list[str]) -> Costs:
        pairs = [(one, two) for one in names[1:] for two in names if one != two]
        return {pair: rng.randint(0, 120) for pair in pairs if rng.random() < 0.7}

    by_region, by_zone = costs(regions), costs(zone_names)
    dependencies = {name: rng.choice([0, 1, 20, 60, 10_000]) for name in rng.sample("bcd", 2)}
    placed = [
        member(
            f"p{number}",
            rng.choice("abcd"),
            rng.choice(nodes).metadata.name,
            rng.choice(["a", "a", "a", "other"]),
        )
        for number in range(rng.randint(0, 20))
    ]
    handle = FakeHandle([*nodes, *placed, group(own=dependencies), topology(by_region, by_zone)])
    plugin = NetworkOverhead(None, handle)
    pod, view = member("p", "own"), handle.snapshot.nodes
    want = {
        each.metadata.name: model(each, nodes, placed, dependencies, by_region, by_zone)
        for each in nodes
    }
    has_any = any(
        each.metadata.labels[WORKLOAD_LABEL] in dependencies
        and each.metadata.labels[APP_GROUP_LABEL] == "a"
        for each in placed
    )
    state = CycleState()
    assert plugin.pre_filter(state, PodInfo(pod), view) == (SUCCESS if has_any else SKIP)
    statuses = run_filter(plugin, pod, view, state)
    assert {
        name: not status.is_success for name, status in zip(view.names, statuses, strict=True)
    } == {name: verdict.far > verdict.near for name, verdict in want.items()}
    raw = run_score(plugin, pod, view, state, normalize=False)
    assert dict(zip(view.names, raw, strict=True)) == {
        name: verdict.cost for name, verdict in want.items()
    }


def test_scores_are_highest_where_the_costs_are_lowest() -> None:
    nodes = [node("same", "r", "z1"), node("near", "r", "z2"), node("far", "r", "z3")]
    nodes.append(node("beside", "r", "z1"))
    objects = [
        *nodes,
        member("db", "db", "same"),
        group(own={"db": 100}),
        topology({}, {("z2", "z1"): 5, ("z3", "z1"): 11}),
    ]
    handle = FakeHandle(objects)
    view = handle.snapshot.nodes
    found = run_score(NetworkOverhead(None, handle), member("p", "own"), view)
    # Costs of 0, 5, 11 and 1; 100 - trunc(100 * cost / 11).
    assert dict(zip(view.names, found, strict=True)) == {
        "same": 100,
        "near": 55,
        "far": 0,
        "beside": 91,
    }


def test_costs_follow_labels_pods_and_the_topology() -> None:
    handle = FakeHandle(
        [
            node("n1", "r", "z1"),
            node("n2", "r", "z2"),
            member("db", "db", "n1"),
            group(own={"db": 10}),
            topology({}, {("z2", "z1"): 20}),
        ]
    )
    plugin, pod = NetworkOverhead(None, handle), member("p", "own")

    def fits() -> dict[str, bool]:
        view = handle.snapshot.nodes
        found = run_filter(plugin, pod, view)
        return {name: each.is_success for name, each in zip(view.names, found, strict=True)}

    assert fits() == {"n1": True, "n2": False}
    handle.objects.put(topology({}, {("z2", "z1"): 10}))
    assert fits() == {"n1": True, "n2": True}
    handle.objects.put(topology({}, {("z2", "z1"): 10}, weights="NetperfCosts"))
    assert fits() == {"n1": True, "n2": True}, "a link of unknown cost is not judged"
    handle.objects.put(topology({}, {("z2", "z1"): 11}))
    handle.objects.put(group(own={"db": 11}))
    assert fits() == {"n1": True, "n2": True}
    handle.objects.put(group(other={"db": 0}))
    assert fits() == {"n1": True, "n2": True}, "the workload has no dependencies any more"


def test_pods_without_an_application_are_not_judged() -> None:
    handle = FakeHandle([node("n1"), member("db", "db", "n1"), group(own={"db": 10})])
    plugin, view = NetworkOverhead(None, handle), handle.snapshot.nodes
    for pod in (make_pod("p"), member("p", "own", app="gone"), member("p", "unnamed")):
        assert plugin.pre_filter(CycleState(), PodInfo(pod), view) == SKIP
    elsewhere = NetworkOverhead(NetworkOverheadArgs(namespaces=("shop",)), handle)
    assert elsewhere.pre_filter(CycleState(), PodInfo(member("p", "own")), view) == SKIP


@pytest.mark.parametrize("kind", [NetworkOverhead, TopologicalSort])
def test_the_plugins_fulfil_the_plugin_contract(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The random pods have a label `app`: each is a member of one application here."""
    monkeypatch.setattr(places, "pods_of", lambda _, workload: _with_app(workload))
    monkeypatch.setattr("kubesched.contrib.network_aware.application_network.WORKLOAD_LABEL", "app")
    found = group(web={"db": 0, "web": 20}, db={"web": 5}, batch={"db": 5})
    costs = topology({}, {("zone-a", "zone-b"): 20, ("zone-b", "zone-a"): 1, ("zone-c", ""): 3})

    def in_an_application(args: Any, handle: Any) -> Any:
        plugin = kind(args, handle)
        if kind is NetworkOverhead:
            plugin._network.group_of = lambda _: read_app_group(found)
            plugin._network._topologies._topology_changed(None, costs)
        return plugin

    in_an_application.args_type = kind.args_type  # type: ignore[attr-defined]
    check_plugin(in_an_application)


def _with_app(workload: str) -> PodQuery:
    return PodQuery([(None, Selector.from_map({"app": workload}))])


@pytest.mark.parametrize(
    ("what", "want"),
    [
        ("a dependency is placed", QueueingHint.QUEUE),
        ("another pod is placed", QueueingHint.SKIP),
        ("a dependency is created", QueueingHint.SKIP),
        ("a dependency ends", QueueingHint.QUEUE),
        ("a pod of another application is placed", QueueingHint.SKIP),
        ("the pod itself changes", QueueingHint.QUEUE),
    ],
)
def test_hints_about_pods(what: str, want: QueueingHint) -> None:
    handle = FakeHandle([node("n1"), group(own={"db": 10})])
    plugin, pod = NetworkOverhead(None, handle), member("p", "own")
    database, placed = member("db", "db"), member("db", "db", "n1")
    changes: dict[str, tuple[Pod | None, Pod | None]] = {
        "a dependency is placed": (None, placed),
        "another pod is placed": (None, member("x", "own", "n1")),
        "a dependency is created": (None, database),
        "a dependency ends": (placed, None),
        "a pod of another application is placed": (None, member("x", "db", "n1", "b")),
        "the pod itself changes": (pod, pod),
    }
    hint = plugin.events_to_register()[0].hint
    assert hint is not None
    assert hint(pod, *changes[what]) is want


def test_hints_about_app_groups() -> None:
    handle = FakeHandle([node("n1"), group(own={"db": 10})])
    hint = NetworkOverhead(None, handle).events_to_register()[2].hint
    assert hint is not None
    pod = member("p", "own")
    assert hint(pod, None, group(own={})) is QueueingHint.QUEUE
    assert hint(pod, group("b"), None) is QueueingHint.SKIP


# The application of the public documentation, with the order that it gives for KahnSort.
BOUTIQUE = {
    "P1": ["P2", "P3", "P4", "P6", "P8", "P9", "P10"],
    "P2": ["P11"],
    "P3": [],
    "P4": [],
    "P5": [],
    "P6": [],
    "P7": [],
    "P8": ["P2", "P3", "P4", "P5", "P6", "P7"],
    "P9": ["P3"],
    "P10": [],
    "P11": [],
}


def test_the_documented_order() -> None:
    want = ["P1", "P10", "P9", "P8", "P7", "P6", "P5", "P4", "P3", "P2", "P11"]
    assert workload_order("KahnSort", BOUTIQUE) == want
    assert workload_order("ReverseKahn", BOUTIQUE) == want[::-1]
    alternate = ["P1", "P11", "P10", "P2", "P9", "P3", "P8", "P4", "P7", "P5", "P6"]
    assert workload_order("AlternateKahn", BOUTIQUE) == alternate
    assert workload_order("", BOUTIQUE) == want


@pytest.mark.parametrize("algorithm", ["KahnSort", "TarjanSort", "ReverseKahn", "ReverseTarjan"])
@pytest.mark.parametrize("seed", range(20))
def test_orders_follow_the_dependencies(algorithm: str, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"w{number}" for number in range(rng.randint(1, 9))]
    rng.shuffle(names)
    graph = {
        name: [other for other in names[number + 1 :] if rng.random() < 0.4]
        for number, name in enumerate(names)
    }
    shuffled = dict(rng.sample(sorted(graph.items()), len(graph)))
    ordered = workload_order(algorithm, shuffled)
    assert sorted(ordered) == sorted(names)
    step = -1 if algorithm.startswith("Reverse") else 1
    for name, of in graph.items():
        for other in of:
            assert (ordered.index(name) - ordered.index(other)) * step < 0


@pytest.mark.parametrize("algorithm", ["KahnSort", "TarjanSort", "AlternateTarjan"])
def test_circles_are_ordered_too(algorithm: str) -> None:
    graph = {"a": ["b", "gone", "a"], "b": ["c"], "c": ["a"], "d": ["a"]}
    assert sorted(workload_order(algorithm, graph)) == ["a", "b", "c", "d"]


def queue_order(pods: list[tuple[Pod, int]], *objects: Any) -> list[str]:
    handle = FakeHandle([*objects, *(pod for pod, _ in pods)])
    plugin = TopologicalSort(None, handle)
    queued = [QueuedPodInfo(pod, at) for pod, at in pods]
    keyed = [(plugin.sort_key(each), each.pod.metadata.name) for each in queued]
    return [name for _, name in sorted(keyed)]


CHAIN = {"front": {"back": 1}, "back": {"db": 1}, "db": {}}


def test_pods_of_an_application_follow_its_order() -> None:
    pods = [
        (make_pod("alone-early"), 1),
        (member("db", "db"), 2),
        (make_pod("alone-late"), 3),
        (member("back", "back"), 4),
        (member("front", "front"), 5),
        (member("unnamed", "x"), 6),
        (member("orphan", "db", app="gone"), 0),
        (make_pod("important", priority=5), 9),
    ]
    assert queue_order(pods, group(**CHAIN)) == [
        "important",
        "orphan",
        "alone-early",
        "unnamed",
        "front",
        "back",
        "db",
        "alone-late",
    ]


def test_an_order_in_the_status_counts_if_it_is_complete() -> None:
    given = group(**CHAIN)

    def with_order(*names: str) -> Any:
        order = [
            {"workload": {"selector": name}, "index": number}
            for number, name in enumerate(names, start=1)
        ]
        return replace(given, status={"topologyOrder": order})

    pods = [(member(name, name), 1) for name in CHAIN]
    assert queue_order(pods, with_order("back", "db", "front")) == ["back", "db", "front"]
    assert queue_order(pods, with_order("db", "front")) == ["front", "back", "db"]


def test_an_application_loses_its_place_when_its_pods_have_nodes() -> None:
    first, alone, later = member("p1", "db"), make_pod("alone"), member("p2", "db")
    handle = FakeHandle([group(**CHAIN), first])
    plugin = TopologicalSort(None, handle)
    plugin.sort_key(QueuedPodInfo(first, 1))
    handle.objects.put(replace(first, spec=replace(first.spec, node_name="n1")))
    handle.objects.put(later)
    second = plugin.sort_key(QueuedPodInfo(alone, 2))
    assert second < plugin.sort_key(QueuedPodInfo(later, 3))


PROFILE: Json = {
    "plugins": {
        "multiPoint": {"enabled": [{"name": "NetworkOverhead", "weight": 5}]},
        "queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "*"}]},
    }
}
CRDS = ["appgroups.yaml", "networktopologies.yaml"]


def network_harness(seed: int = 0, **options: Any) -> ContribHarness:
    plugins: list[Any] = [NetworkOverhead, TopologicalSort]
    return ContribHarness(PROFILE, plugins, CRDS, seed, **options)


def labels_of(workload: str) -> Json:
    return {APP_GROUP_LABEL: "a", WORKLOAD_LABEL: workload}


async def two_regions(harness: ContribHarness, dependencies: dict[str, dict[str, int]]) -> None:
    """Region r1 has the zones z1 and z2, region r2 the zone z3; one node of 4 CPUs in each."""
    await harness.prepare()
    for name, region, zone in (("n1", "r1", "z1"), ("n2", "r1", "z2"), ("n3", "r2", "z3")):
        await harness.node(name, "4", **{REGION: region, ZONE: zone})
    costs = spec_of_topology(
        {("r1", "r2"): 50, ("r2", "r1"): 50}, {("z1", "z2"): 10, ("z2", "z1"): 10}
    )
    await harness.custom(NETWORK_TOPOLOGIES, "nt-default", costs)
    await harness.custom(APP_GROUPS, "a", spec_of_group("ReverseKahn", **dependencies))


def test_an_application_is_placed_together() -> None:
    """The database fills its node, so that the others use the other zone of the region."""

    async def main() -> None:
        harness = network_harness()
        await two_regions(harness, {"web": {"db": 10}, "db": {}})
        async with harness.live.running():
            for number in range(3):
                await harness.pod(f"web-{number}", "1", labels_of("web"))
            await harness.pod("db", "4", labels_of("db"), nodeSelector={ZONE: "z1"})
            await asyncio.sleep(30)
            placed = {name: pod.spec.node_name for name, pod in (await harness.pods()).items()}
            assert placed == {"db": "n1", "web-0": "n2", "web-1": "n2", "web-2": "n2"}

    run(main)


def test_a_pod_that_is_too_far_waits_for_what_helps() -> None:
    """Nothing is free near the database; then the AppGroup allows the distance."""

    async def main() -> None:
        harness = network_harness()
        await two_regions(harness, {"web": {"db": 10}, "db": {}})
        async with harness.live.running():
            await harness.pod("db", "4", labels_of("db"), nodeSelector={ZONE: "z1"})
            await harness.pod("other", "4", nodeSelector={ZONE: "z2"})
            await asyncio.sleep(5)
            await harness.pod("web", "1", labels_of("web"))
            await asyncio.sleep(30)
            web = (await harness.pods())["web"]
            assert not web.spec.node_name
            (condition,) = web.status.conditions
            assert "1 node(s) were too far from pods that the pod depends on" in condition.message
            patch = {"spec": spec_of_group(web={"db": 50}, db={})}
            await harness.api.patch(GROUP, "a", "default", patch, patch_type="merge")
            await asyncio.sleep(30)
            assert (await harness.pods())["web"].spec.node_name == "n3"

    run(main)


def test_no_pod_is_evicted_to_be_nearer() -> None:
    async def main() -> None:
        harness = network_harness()
        await two_regions(harness, {"web": {"db": 10}, "db": {}})
        async with harness.live.running():
            await harness.pod("db", "1", labels_of("db"), nodeSelector={ZONE: "z1"})
            await harness.pod("other", "1", nodeSelector={ZONE: "z3"})
            await asyncio.sleep(5)
            selector = {ZONE: "z3"}
            await harness.pod("web", "1", labels_of("web"), priority=9, nodeSelector=selector)
            await asyncio.sleep(60)
            assert await harness.placed() == {"db", "other"}

    run(main)


@pytest.mark.parametrize("seed", range(4))
def test_every_decision_of_a_storm_is_that_of_a_full_search(seed: int) -> None:
    """Pods come and go, labels and costs change; `verify_engine` compares each decision."""
    rng = random.Random(seed)

    async def main() -> None:
        harness = network_harness(seed, verify_engine=True)
        names = ["web", "cart", "db"]
        await two_regions(harness, {"web": {"cart": 10, "db": 50}, "cart": {"db": 20}, "db": {}})
        async with harness.live.running():
            for number in range(40):
                choice = rng.random()
                if choice < 0.6:
                    await harness.pod(f"p{number}", "500m", labels_of(rng.choice(names)))
                elif choice < 0.75:
                    placed = sorted(await harness.placed())
                    if placed:
                        await harness.api.delete(
                            Pod, rng.choice(placed), "default", grace_period_seconds=0
                        )
                elif choice < 0.9:
                    patch = {"metadata": {"labels": {ZONE: rng.choice(["z1", "z2", None])}}}
                    await harness.api.patch(
                        Node, f"n{rng.randint(1, 3)}", None, patch, patch_type="merge"
                    )
                else:
                    costs = spec_of_topology({}, {("z1", "z2"): rng.randint(0, 40)})
                    await harness.api.patch(
                        TOPOLOGY, "nt-default", "default", {"spec": costs}, patch_type="merge"
                    )
                await asyncio.sleep(1)
            await asyncio.sleep(400)
            assert await harness.placed()

    run(main)
