"""Pod groups whose members extenders decide about, too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PodGroup, PodSchedulingGroup, PriorityClass
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.types import ExtenderManagedResource
from kubesched.testing import make_node
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply, keep_nodes, score_nodes
from tests.scheduler.extender_harness import (
    FOO,
    ExtenderHarness,
    Gate,
    a_pod,
    cluster_with,
    nodes,
    run,
)
from tests.scheduler.pod_groups.group_harness import GANGS, gang

ALL = {**GANGS, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}


def member(name: str, cpu: str = "600m", group: str = "g", **fields: Any) -> Pod:
    pod = a_pod(name, cpu=cpu, **fields)
    scheduling_group = PodSchedulingGroup(pod_group_name=group)
    return replace(pod, spec=replace(pod.spec, scheduling_group=scheduling_group))


def groups(gates: dict[str, bool] = GANGS) -> dict[str, Any]:
    return {"feature_gates": FeatureGates(gates)}


async def nodes_of(harness: ExtenderHarness, *names: str) -> list[str]:
    return [await harness.node_of(name) for name in names]


async def group_condition(harness: ExtenderHarness, name: str = "g") -> tuple[str, str] | None:
    group = await harness.api.get(PodGroup, name, "default")
    for each in group.status.conditions:
        return each.reason, each.message
    return None


def test_members_are_placed_on_nodes_that_extenders_accept() -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(lambda name: name in ("n1", "n2")))
        async with cluster_with(extender, **groups()) as harness:
            await harness.add(*nodes("n0", "n1", "n2"))
            await harness.add(gang(2), member("p1"), member("p2"))
            await harness.settle()
            assert sorted(await nodes_of(harness, "p1", "p2")) == ["n1", "n2"]
            assert [call.verb for call in extender.calls] == ["filter", "filter"]

    run(scenario)


def test_no_member_is_placed_if_extenders_accept_too_few_nodes() -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(lambda name: name == "n1"))
        async with cluster_with(extender, **groups()) as harness:
            await harness.add(*nodes("n0", "n1"))
            await harness.add(gang(2), member("p1"), member("p2"))
            await harness.settle()
            assert await nodes_of(harness, "p1", "p2") == ["", ""]
            assert await group_condition(harness) == (
                "Unschedulable",
                "pod group is unschedulable",
            )

    run(scenario)


def test_scores_of_extenders_are_added() -> None:
    async def scenario() -> None:
        extender = FakeExtender(prioritize=score_nodes(lambda name: 10 if name == "n2" else 0))
        async with cluster_with(extender, **groups()) as harness:
            await harness.add(*nodes("n0", "n1", "n2", cpu="4"))
            await harness.add(gang(2), member("p1"), member("p2"))
            await harness.settle()
            assert await nodes_of(harness, "p1", "p2") == ["n2", "n2"]

    run(scenario)


def test_an_error_of_an_extender_fails_the_group() -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=lambda _: Reply(500, b"broken"))
        async with cluster_with(extender, **groups()) as harness:
            await harness.add(*nodes("n0", "n1"))
            await harness.add(gang(2), member("p1"), member("p2"))
            await harness.settle()
            assert await nodes_of(harness, "p1", "p2") == ["", ""]
            condition = await group_condition(harness)
            assert condition is not None
            assert condition[0] == "SchedulerError"

    run(scenario)


def test_other_pods_are_placed_while_extenders_are_called_for_a_group() -> None:
    async def scenario() -> None:
        gate = Gate(keep_nodes(lambda _: True))
        extender = FakeExtender(filter=gate)
        settings = extender.settings("/0", managed_resources=(ExtenderManagedResource(name=FOO),))
        async with cluster_with((extender, settings), **groups()) as harness:
            await harness.add(make_node("n0", extended={FOO: "8"}))
            await harness.add(gang(2), member("p1", foo=1), member("p2", foo=1))
            await harness.settle()
            await harness.add(a_pod("plain"))
            await harness.settle()
            assert await nodes_of(harness, "plain", "p1") == ["n0", ""]
            await harness.add(a_pod("managed", foo=1))
            gate.opened.set()
            await harness.settle()
            assert await nodes_of(harness, "p1", "p2", "managed") == ["n0", "n0", "n0"]

    run(scenario)


def test_a_member_deleted_during_the_cycle_is_skipped() -> None:
    async def scenario() -> None:
        gate = Gate(keep_nodes(lambda _: True))
        extender = FakeExtender(filter=gate)
        async with cluster_with(extender, **groups()) as harness:
            await harness.add(*nodes("n0", "n1", "n2"))
            await harness.add(gang(2), *(member(f"p{n}") for n in range(3)))
            await asyncio.sleep(0.1)
            await harness.delete_pod("p1")
            gate.opened.set()
            await harness.settle()
            assert all(await nodes_of(harness, "p0", "p2"))

    run(scenario)


@pytest.mark.parametrize("accepted", ["a", "b"])
def test_extenders_and_racks(accepted: str) -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(lambda name: name.startswith(accepted)))
        async with cluster_with(extender, **groups(ALL)) as harness:
            for rack in "ab":
                for number in range(2):
                    await harness.add(make_node(f"{rack}{number}", cpu="1", labels={"rack": rack}))
            rule = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
            await harness.add(gang(2, scheduling_constraints=rule), member("p1"), member("p2"))
            await harness.settle()
            placed = await nodes_of(harness, "p1", "p2")
            assert sorted(placed) == [f"{accepted}0", f"{accepted}1"]

    run(scenario)


def test_only_nodes_that_extenders_accept_are_preempted() -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(lambda name: name == "n1"))
        async with cluster_with(extender, **groups(ALL)) as harness:
            await harness.api.create(PriorityClass(metadata=ObjectMeta(name="high"), value=9))
            await harness.add(*nodes("n0", "n1"))
            for name in ("n0", "n1"):
                await harness.add(a_pod(f"on-{name}", cpu="900m", node_name=name))
            pod = member("p1")
            pod = replace(pod, spec=replace(pod.spec, priority_class_name="high"))
            await harness.add(gang(1, priority_class_name="high"), pod)
            await harness.settle(2)
            terminating = [
                name
                for name in ("on-n0", "on-n1")
                if (await harness.pod(name)).metadata.deletion_timestamp is not None
            ]
            assert terminating == ["on-n1"]

    run(scenario)
