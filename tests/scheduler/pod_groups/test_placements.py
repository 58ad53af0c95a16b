"""Groups with a topology constraint: placements, their scores, and own plugins for both."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kubesched.api import PodGroup
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.foundation.util import virtual_loop
from kubesched.framework import (
    CycleState,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
    Status,
)
from kubesched.scheduler.pod_groups.placement_algorithm import PlacementAlgorithm
from kubesched.testing import make_node, make_pod
from tests.scheduler.pod_groups.group_harness import GANGS, basic, gang, group_harness, member

TOPOLOGY = {**GANGS, "TopologyAwareWorkloadScheduling": True}
ALL = {**TOPOLOGY, "WorkloadAwarePreemption": True}
RACK = "example.com/rack"
ONE_RACK = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=RACK),))


def rack_node(name: str, rack: str, cpu: str = "2", **fields: Any) -> Any:
    return make_node(name, cpu=cpu, labels={RACK: rack}, **fields)


def in_one_rack(count: int, name: str = "g") -> PodGroup:
    return gang(count, name, scheduling_constraints=ONE_RACK)


def racks_of(nodes: list[str]) -> set[str]:
    """The racks of nodes whose names begin with them."""
    return {name.partition("-")[0] for name in nodes if name}


def test_the_rack_that_is_fullest_afterwards_is_chosen() -> None:
    async def scenario() -> None:
        async with group_harness(TOPOLOGY) as harness:
            for rack, nodes in {"a": 2, "b": 3, "c": 1}.items():
                await harness.add(*(rack_node(f"{rack}-{n}", rack) for n in range(nodes)))
            await harness.add(in_one_rack(3), member("p1"), member("p2"), member("p3"))
            await harness.settle()
            # Rack c is too small; 3 of 4 CPUs are more than 3 of 6.
            assert racks_of(await harness.nodes("p1", "p2", "p3")) == {"a"}
            assert await harness.group_condition() == ("True", "Scheduled", "")

    virtual_loop.run(scenario)


def test_running_members_pin_the_group_to_their_rack() -> None:
    async def scenario() -> None:
        async with group_harness(TOPOLOGY) as harness:
            await harness.add(*(rack_node(f"{rack}-0", rack, cpu="4") for rack in "ab"))
            bound = member("old", node_name="b-0")
            await harness.add(in_one_rack(2), bound, member("p1"))
            await harness.settle()
            assert await harness.nodes("p1") == ["b-0"]

    virtual_loop.run(scenario)


PINNED = "cannot determine domain for already scheduled pods: "


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (("a-0", "b-0"), "more than 1 domain found for pod group: a, b"),
        (("plain",), "no topology domain found for pod default/old-0"),
        (
            ("gone",),
            'getting node for pod default/old-0: nodeinfo not found for node name "gone"',
        ),
    ],
    ids=["in two racks", "on a node without the label", "on a node that is gone"],
)
def test_members_that_are_in_no_single_domain_are_an_error(
    nodes: tuple[str, ...], text: str
) -> None:
    async def scenario() -> None:
        async with group_harness(TOPOLOGY) as harness:
            await harness.add(*(rack_node(f"{rack}-0", rack) for rack in "ab"))
            await harness.add(make_node("plain"))
            olds = [member(f"old-{n}", node_name=node) for n, node in enumerate(nodes)]
            await harness.add(in_one_rack(1), *olds)
            await harness.settle()
            await harness.add(member("p1"))
            await harness.settle()
            assert await harness.condition("p1") == ("False", "SchedulerError", PINNED + text)
            assert await harness.group_condition() == ("False", "SchedulerError", PINNED + text)

    virtual_loop.run(scenario)


def test_a_nomination_to_another_rack_is_ignored() -> None:
    async def scenario() -> None:
        async with group_harness(TOPOLOGY) as harness:
            await harness.add(rack_node("a-0", "a"), rack_node("b-0", "b"))
            await harness.add(member("old", node_name="a-0"))
            waiting = member("p1", nominated_node_name="b-0")
            await harness.add(in_one_rack(1), waiting)
            await harness.settle()
            assert await harness.nodes("p1") == ["a-0"]

    virtual_loop.run(scenario)


def test_a_basic_group_gets_the_rack_with_room_for_most_members() -> None:
    async def scenario() -> None:
        async with group_harness(TOPOLOGY) as harness:
            await harness.add(*(rack_node(f"a-{n}", "a", cpu="1") for n in range(1)))
            await harness.add(*(rack_node(f"b-{n}", "b", cpu="1") for n in range(2)))
            await harness.add(member("p1"), member("p2"), member("p3"))
            await harness.settle()
            await harness.add(basic(scheduling_constraints=ONE_RACK))
            await harness.settle()
            nodes = await harness.nodes("p1", "p2", "p3")
            assert sorted(filter(None, nodes)) == ["b-0", "b-1"]

    virtual_loop.run(scenario)


class Halves(Plugin):
    """Two placements: the first half of the nodes, and the second."""

    name = "Halves"

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement]:
        names = list(parent.nodes.names)
        return [
            PodGroupPlacement(
                half, parent.nodes.at_rows(parent.nodes.table.rows_of(names[place::2]))
            )
            for place, half in enumerate(("even", "odd"))
        ]


class PreferOdd(Plugin):
    """Scores by the nodes of the assignments."""

    name = "PreferOdd"

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        assert len(assignments.node_names) == len(assignments.pods) == 2
        return 100 if assignments.placement.name == "odd" else 0


class Refuse(Plugin):
    name = "Refuse"

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement
    ) -> Status:
        return Status.unschedulable("the network is being repaired")


class Overrate(Plugin):
    name = "Overrate"

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        return 101


def own_profile(*names: str) -> list[dict[str, Any]]:
    """A profile whose plugins for placements are these."""
    points: dict[str, Any] = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    points["placementGenerate"] = {"disabled": [{"name": "TopologyPlacementGenerator"}]}
    points["placementScore"] = {
        "disabled": [{"name": "PodGroupPodsCount"}, {"name": "NodeResourcesFit"}]
    }
    return [{"plugins": points}]


OWN = {
    "own placements and scores decide": ((Halves, PreferOdd), ["n1", "n1"], ("True", "", "")),
    "a status of PlacementGenerate is the verdict": (
        (Refuse,),
        ["", ""],
        ("False", "Unschedulable", "the network is being repaired"),
    ),
    "a score out of range is an error": (
        (Halves, Overrate),
        ["", ""],
        (
            "False",
            "SchedulerError",
            "applying score defaultWeights on PlacementScore plugins: "
            'plugin "Overrate" returns an invalid score 101, '
            "it should in the range of [0, 100] after normalizing",
        ),
    ),
}


@pytest.mark.parametrize("case", OWN.values(), ids=OWN)
def test_out_of_tree_plugins_place_groups(case: Any) -> None:
    plugins, nodes, condition = case

    async def scenario() -> None:
        profiles = own_profile(*(plugin.name for plugin in plugins))
        registry = {plugin.name: plugin for plugin in plugins}
        async with group_harness(
            TOPOLOGY, profiles=profiles, out_of_tree_registry=registry
        ) as harness:
            await harness.add(make_node("n0"), make_node("n1"))
            await harness.add(gang(2), member("p1"), member("p2"))
            await harness.settle()
            assert await harness.nodes("p1", "p2") == nodes
            assert await harness.condition("p1") == condition

    virtual_loop.run(scenario)


@pytest.mark.parametrize("seed", range(12))
def test_counting_equal_members_decides_as_placing_them(seed: int) -> None:
    """The chosen nodes may differ where scores are equal; the racks may not."""

    async def scenario(counts: bool) -> Any:
        rng = random.Random(seed)
        async with group_harness(ALL, profiles=[{"tieBreak": "NodeName"}]) as harness:
            cycle: Any = harness.scheduler._group_cycle
            algorithm = cycle._algorithm
            assert isinstance(algorithm, PlacementAlgorithm)
            algorithm.counts_members = counts
            for rack in "abcd":
                for number in range(rng.randint(1, 4)):
                    taints = ["t=1:NoSchedule"] if rng.random() < 0.2 else []
                    cpu, pods = str(rng.randint(1, 4)), rng.choice([2, 110])
                    name = f"{rack}-{number}"
                    await harness.add(rack_node(name, rack, cpu, taints=taints, pods=pods))
                    if rng.random() < 0.4:
                        image = ["example.com/app:v1"]
                        await harness.add(
                            make_pod(
                                f"on-{name}", images=image, requests={"cpu": "1"}, node_name=name
                            )
                        )
            verdicts = []
            for name in ("g1", "g2", "g3"):
                count = rng.randint(2, 6)
                cpu = rng.choice(["1", "1", "2", "500m"])
                group = in_one_rack(rng.randint(1, count), name)
                pods = [f"{name}-{number}" for number in range(count)]
                await harness.add(group, *(member(pod, cpu, name) for pod in pods))
                await harness.settle()
                nodes = await harness.nodes(*pods)
                verdicts.append(
                    (racks_of(nodes), sum(map(bool, nodes)), await harness.group_condition(name))
                )
            return verdicts

    counted = virtual_loop.run(lambda: scenario(True))
    placed = virtual_loop.run(lambda: scenario(False))
    assert counted == placed
    assert all(len(racks) <= 1 for racks, _, _ in counted)
