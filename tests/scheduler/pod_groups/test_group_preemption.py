"""Groups that preempt other pods, and groups that are preempted as a whole."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PodGroup, PriorityClass
from kubesched.foundation.util import virtual_loop
from kubesched.testing import make_node, make_pdb, make_pod
from tests.scheduler.pod_groups.group_harness import (
    GANGS,
    GroupHarness,
    basic,
    gang,
    group_harness,
    member,
)

GATES = {**GANGS, "WorkloadAwarePreemption": True}
IMAGE = ["example.com/app:v1"]
FULL = "0/{n} nodes are available: {n} Insufficient cpu. no new claims to deallocate, "
NOT_ALONE = "preemption: not eligible due to workload aware preemption enabled"


def classes(*values: int) -> list[PriorityClass]:
    return [PriorityClass(metadata=ObjectMeta(name=f"of-{value}"), value=value) for value in values]


def of_priority(pod: Pod, priority: int) -> Pod:
    spec = replace(
        pod.spec, priority_class_name=f"of-{priority}", termination_grace_period_seconds=0
    )
    return replace(pod, spec=spec)


def plain(name: str, priority: int, node: str = "", **fields: Any) -> Pod:
    pod = make_pod(name, images=IMAGE, requests={"cpu": "1"}, node_name=node, **fields)
    return of_priority(pod, priority)


def important(name: str, cpu: str = "1") -> Pod:
    return of_priority(member(name, cpu), 100)


def preemptor(count: int, priority: int = 100, **fields: Any) -> PodGroup:
    return gang(count, priority_class_name=f"of-{priority}", **fields)


def unit(name: str, priority: int = 10) -> PodGroup:
    """A group whose pods are only evicted together."""
    return gang(1, name, disruption_mode="PodGroup", priority_class_name=f"of-{priority}")


def of_unit(name: str, group: str, node: str, priority: int = 10) -> Pod:
    return of_priority(member(name, group=group, node_name=node), priority)


async def evicted(harness: GroupHarness, *names: str) -> list[str]:
    left = {pod.metadata.name for pod in (await harness.api.list(Pod)).items}
    return [name for name in names if name not in left]


class Case:
    """Pods on one node of 4 CPUs (n1), and a gang of two; the expected victims."""

    def __init__(self, *objects: Any, evicted: list[str], needs: int = 1) -> None:
        self.objects = objects
        self.evicted = evicted
        self.needs = needs


ON = "n1"
CASES = {
    "the least important pods go": Case(
        *(plain(f"v{priority}", priority, ON) for priority in (40, 30, 20, 10)),
        evicted=["v20", "v10"],
        needs=2,
    ),
    "a group of mode PodGroup goes as a whole": Case(
        unit("u"),
        *(of_unit(f"u{n}", "u", ON) for n in range(3)),
        plain("v30", 30, ON),
        evicted=["u0", "u1", "u2"],
    ),
    "a single pod goes before a group of equal priority": Case(
        unit("u"),
        *(of_unit(f"u{n}", "u", ON) for n in range(3)),
        plain("v10", 10, ON),
        evicted=["v10"],
    ),
    "of two groups the smaller goes": Case(
        unit("u"),
        unit("w"),
        *(of_unit(f"u{n}", "u", ON) for n in range(2)),
        of_unit("w0", "w", ON),
        plain("v40", 40, ON),
        evicted=["w0"],
    ),
    "a budget protects a pod": Case(
        make_pdb("guard", selector={"app": "guarded"}, disruptions_allowed=0),
        plain("v10", 10, ON, labels={"app": "guarded"}),
        *(plain(f"v{n}", 30 + 10 * (n > 0), ON) for n in range(3)),
        evicted=["v0"],
    ),
    "the priority of a unit is that of its PodGroup": Case(
        unit("u", priority=40),
        *(of_unit(f"u{n}", "u", ON, priority=10) for n in range(3)),
        plain("v20", 20, ON),
        evicted=["v20"],
    ),
    "nothing goes that is as important": Case(
        *(plain(f"v{n}", 100, ON) for n in range(4)),
        evicted=[],
    ),
    "all pods go if all their room is needed": Case(
        *(plain(f"v{n}", 10, ON) for n in range(4)),
        evicted=["v0", "v1", "v2", "v3"],
        needs=4,
    ),
}


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "placed"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_victims(case: Case, counts: bool) -> None:
    async def scenario() -> None:
        async with group_harness(GATES) as harness:
            cycle: Any = harness.scheduler._group_cycle
            cycle._preemption.counts_members = counts
            await harness.add(*classes(10, 20, 30, 40, 100), make_node(ON))
            await harness.add(*case.objects)
            await harness.settle()
            running = [pod.metadata.name for pod in (await harness.api.list(Pod)).items]
            pods = [important(f"p{n}") for n in range(case.needs)]
            await harness.add(preemptor(case.needs), *pods)
            await harness.settle(60)
            gone = await evicted(harness, *running)
            assert sorted(gone) == sorted(case.evicted)
            if case.evicted:
                assert await harness.nodes(*(pod.metadata.name for pod in pods)) == [ON] * len(pods)

    virtual_loop.run(scenario)


def test_preemption_of_a_group_without_lower_pods_is_reported_as_impossible() -> None:
    async def scenario() -> None:
        async with group_harness(GATES) as harness:
            await harness.add(*classes(10, 100), make_node(ON, cpu="1"))
            await harness.add(plain("v", 100, ON), preemptor(1), important("p"))
            await harness.settle()
            text = "pod group is unschedulable, No preemption victims found for incoming preemptor"
            assert await harness.group_condition() == ("False", "Unschedulable", text)
            alone = FULL.format(n=1) + NOT_ALONE
            assert await harness.condition("p") == ("False", "Unschedulable", alone)

    virtual_loop.run(scenario)


def test_explaining_without_default_preemption_reports_that() -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}

    async def scenario() -> None:
        async with group_harness(GATES, profiles=[{"plugins": plugins}]) as harness:
            await harness.add(*classes(10, 100), make_node(ON, cpu="1"))
            await harness.add(plain("v", 10, ON), preemptor(1), important("p"))
            await harness.settle()
            text = (
                "pod group is unschedulable, default preemption plugin is not registered, "
                "workload aware preemption is disabled"
            )
            assert await harness.group_condition() == ("False", "Unschedulable", text)

    virtual_loop.run(scenario)


def test_a_basic_group_preempts_for_one_member_at_a_time() -> None:
    async def scenario() -> None:
        async with group_harness(GATES) as harness:
            await harness.add(*classes(10, 100), make_node("n1", cpu="1"), make_node("n2", cpu="1"))
            await harness.add(plain("v1", 10, "n1"), plain("v2", 10, "n2"))
            await harness.add(basic(priority_class_name="of-100"), important("p1"), important("p2"))
            await harness.settle(0.1)
            assert len(await evicted(harness, "v1", "v2")) == 1
            await harness.settle(60)
            assert sorted(await harness.nodes("p1", "p2")) == ["n1", "n2"]

    virtual_loop.run(scenario)


async def _waits_for_victims(harness: GroupHarness) -> None:
    """A gang of three: p1 and p2 are nominated to the nodes that are free, and p3 waits for n3."""
    await harness.add(*classes(10, 20, 100))
    await harness.add(*(make_node(name, cpu="1") for name in ("n1", "n2", "n3")))
    victim = plain("v", 10, "n3")
    slow = replace(victim.spec, termination_grace_period_seconds=30)
    await harness.add(replace(victim, spec=slow))
    await harness.settle()
    pods = [of_priority(member(name), 20) for name in ("p1", "p2", "p3")]
    await harness.add(preemptor(3, 20), *pods)
    await harness.settle()
    assert sorted(await _nominated(harness)) == ["n1", "n2"]
    await harness.add(plain("small", 10))
    await harness.settle(15)
    assert await harness.nodes("small") == [""], "the nominations keep the nodes"


async def _nominated(harness: GroupHarness) -> list[str]:
    pods = (await harness.api.list(Pod)).items
    return [each for pod in pods if (each := pod.status.nominated_node_name)]


def test_nominations_end_if_preemption_cannot_help_any_more() -> None:
    async def scenario() -> None:
        async with group_harness(GATES) as harness:
            await _waits_for_victims(harness)
            # One node is left. p1 is tried there, and p2 was nominated to it or to the other one.
            taken = [(await harness.pod("p1")).status.nominated_node_name, "n3"]
            await harness.add(*(plain(f"rival-{name}", 100, name) for name in taken))
            await harness.api.delete(Pod, "v", "default", grace_period_seconds=0)
            await harness.settle(60)
            (free,) = {"n1", "n2"} - set(taken)
            assert await harness.nodes("small") == [free]
            assert await _nominated(harness) == []

    virtual_loop.run(scenario)


def test_nominations_end_if_too_few_members_are_left() -> None:
    async def scenario() -> None:
        async with group_harness(GATES) as harness:
            await _waits_for_victims(harness)
            await harness.api.delete(Pod, "p3", "default", grace_period_seconds=0)
            await harness.settle(15)
            assert (await harness.nodes("small"))[0] in ("n1", "n2")
            assert await _nominated(harness) == []

    virtual_loop.run(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_counting_equal_members_preempts_as_placing_them(seed: int) -> None:
    async def scenario(counts: bool) -> Any:
        rng = random.Random(seed)
        async with group_harness(GATES, profiles=[{"tieBreak": "NodeName"}]) as harness:
            cycle: Any = harness.scheduler._group_cycle
            cycle._preemption.counts_members = counts
            await harness.add(*classes(10, 20, 30, 40, 100))
            budget = make_pdb("guard", selector={"app": "guarded"}, disruptions_allowed=1)
            await harness.add(budget, unit("u0", 10), unit("u1", 20))
            names = []
            for node in range(rng.randint(2, 5)):
                await harness.add(make_node(f"n{node}", pods=rng.choice([3, 110])))
                for number in range(rng.randint(0, 4)):
                    name = f"v{node}-{number}"
                    names.append(name)
                    priority = rng.choice([10, 20, 30, 40, 100])
                    labels = {"app": "guarded"} if rng.random() < 0.3 else {}
                    if rng.random() < 0.3:
                        pod = of_unit(name, rng.choice(["u0", "u1"]), f"n{node}")
                    else:
                        pod = plain(name, priority, f"n{node}", labels=labels)
                    await harness.add(pod)
            await harness.settle()
            count = rng.randint(1, 5)
            cpu = rng.choice(["1", "2", "3"])
            pods = [important(f"p{n}", cpu=cpu) for n in range(count)]
            await harness.add(preemptor(rng.randint(1, count)), *pods)
            await harness.settle(0.2)
            return (
                await evicted(harness, *names),
                await harness.group_condition(),
                len(await harness.bound()),
            )

    counted = virtual_loop.run(lambda: scenario(True))
    placed = virtual_loop.run(lambda: scenario(False))
    assert counted == placed
