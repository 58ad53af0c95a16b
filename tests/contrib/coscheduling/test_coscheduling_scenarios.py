"""Scenarios of Coscheduling on an embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import Pod
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUPS
from kubesched.contrib.coscheduling.plugin import Coscheduling
from kubesched.foundation.util.virtual_loop import run
from tests.contrib.harness import ContribHarness

PROFILE = {
    "plugins": {
        "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
    }
}


def run_steps(
    scenario: Callable[[ContribHarness], Awaitable[Any]], nodes: int = 2, **args: int
) -> Any:
    """Run a scenario on nodes of 4 CPUs."""

    async def main() -> Any:
        profile = {**PROFILE, "pluginConfig": [{"name": "Coscheduling", "args": args}]}
        harness = ContribHarness(profile, [Coscheduling], ["podgroups.yaml"])
        await harness.prepare()
        for number in range(nodes):
            await harness.node(f"n{number}")
        async with harness.live.running():
            return await scenario(harness)

    return run(main)


async def gang(
    harness: ContribHarness, name: str, pods: int, least: int, cpu: str = "1", **spec: Any
) -> None:
    await harness.custom(POD_GROUPS, name, {"minMember": least, **spec})
    await members(harness, name, range(pods), cpu)


async def members(
    harness: ContribHarness, name: str, numbers: range, cpu: str = "1", **fields: Any
) -> None:
    for number in numbers:
        await harness.pod(f"{name}-{number}", cpu, {GROUP_LABEL: name}, **fields)


async def counts(harness: ContribHarness) -> dict[str, int]:
    return dict(await harness.placed_by(lambda pod: pod.metadata.labels.get(GROUP_LABEL, "")))


def test_a_group_that_fits_is_placed_at_once() -> None:
    async def scenario(harness: ContribHarness) -> dict[str, int]:
        await gang(harness, "a", 8, 8)
        await asyncio.sleep(2)
        return await counts(harness)

    assert run_steps(scenario) == {"a": 8}


def test_a_group_that_does_not_fit_holds_no_node() -> None:
    async def scenario(harness: ContribHarness) -> tuple[dict[str, int], dict[str, int]]:
        await gang(harness, "large", 9, 9)
        await asyncio.sleep(2)
        before = await counts(harness)
        await members(harness, "", range(0))
        for number in range(8):
            await harness.pod(f"plain-{number}")
        await asyncio.sleep(20)
        return before, await counts(harness)

    assert run_steps(scenario) == ({}, {"": 8})


def test_a_new_node_makes_room_for_a_group() -> None:
    async def scenario(harness: ContribHarness) -> tuple[dict[str, int], dict[str, int]]:
        await gang(harness, "a", 12, 12)
        await asyncio.sleep(5)
        before = await counts(harness)
        await harness.node("n2")
        await asyncio.sleep(15)
        return before, await counts(harness)

    assert run_steps(scenario) == ({}, {"a": 12})


def test_members_wait_for_their_group_and_for_each_other() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        seen = []
        await members(harness, "a", range(2))
        await asyncio.sleep(5)
        seen.append(await counts(harness))
        await harness.custom(POD_GROUPS, "a", {"minMember": 3})
        await asyncio.sleep(5)
        seen.append(await counts(harness))
        await members(harness, "a", range(2, 3))
        await asyncio.sleep(5)
        return [*seen, await counts(harness)]

    assert run_steps(scenario) == [{}, {}, {"a": 3}]


def test_two_groups_that_need_all_nodes_are_placed_one_after_the_other() -> None:
    async def scenario(harness: ContribHarness) -> set[int]:
        await harness.custom(POD_GROUPS, "a", {"minMember": 6})
        await harness.custom(POD_GROUPS, "b", {"minMember": 6})
        for number in range(6):
            await members(harness, "a", range(number, number + 1))
            await members(harness, "b", range(number, number + 1))
        seen = set()
        for _ in range(30):
            await asyncio.sleep(1)
            seen |= set((await counts(harness)).values())
        return seen

    assert run_steps(scenario) == {6}


def test_a_rule_that_the_check_of_room_misses_rejects_the_whole_group() -> None:
    """There are resources for four pods on two nodes, but the pods must be on different nodes."""

    async def scenario(harness: ContribHarness) -> tuple[dict[str, int], dict[str, int]]:
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {GROUP_LABEL: "apart"}},
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        await harness.custom(POD_GROUPS, "apart", {"minMember": 3})
        await members(harness, "apart", range(3), affinity=affinity)
        await asyncio.sleep(30)
        before = await counts(harness)
        await harness.node("n2")
        await asyncio.sleep(30)
        return before, await counts(harness)

    assert run_steps(scenario) == ({}, {"apart": 3})


def test_deleting_a_pod_of_another_group_lets_a_group_in() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await gang(harness, "a", 8, 8)
        await asyncio.sleep(2)
        await gang(harness, "b", 4, 4)
        await asyncio.sleep(5)
        seen = [await counts(harness)]
        for number in range(4):
            await harness.api.delete(Pod, f"a-{number}", "default", grace_period_seconds=0)
        await asyncio.sleep(20)
        return [*seen, await counts(harness)]

    assert run_steps(scenario) == [{"a": 8}, {"a": 4, "b": 4}]


def test_a_group_waits_for_its_min_resources() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await gang(harness, "a", 2, 2, minResources={"cpu": "10"})
        await asyncio.sleep(5)
        seen = [await counts(harness)]
        await harness.node("n2")
        await asyncio.sleep(15)
        return [*seen, await counts(harness)]

    assert run_steps(scenario) == [{}, {"a": 2}]


def test_a_smaller_min_member_lets_a_group_in() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await gang(harness, "a", 9, 9)
        await asyncio.sleep(5)
        seen = [await counts(harness)]
        from kubesched.contrib.coscheduling.group_spec import pod_group_type

        patch = {"spec": {"minMember": 8}}
        await harness.api.patch(pod_group_type(), "a", "default", patch, patch_type="merge")
        await asyncio.sleep(15)
        return [*seen, await counts(harness)]

    assert run_steps(scenario) == [{}, {"a": 8}]


def test_an_important_group_takes_the_nodes_of_less_important_pods() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        for number in range(8):
            await harness.pod(f"plain-{number}", priority=0)
        await asyncio.sleep(5)
        seen = [await counts(harness)]
        await harness.custom(POD_GROUPS, "vip", {"minMember": 4})
        await members(harness, "vip", range(4), priority=100)
        await asyncio.sleep(120)
        return [*seen, await counts(harness)]

    assert run_steps(scenario) == [{"": 8}, {"": 4, "vip": 4}]


def test_the_status_follows_the_pods() -> None:
    async def scenario(harness: ContribHarness) -> list[tuple[Any, ...]]:
        seen = []

        async def look() -> None:
            status = await harness.status(POD_GROUPS, "a")
            seen.append((status.get("phase"), status.get("running"), status.get("succeeded")))

        await gang(harness, "a", 1, 2)
        await asyncio.sleep(5)
        await look()
        await members(harness, "a", range(1, 2))
        await asyncio.sleep(10)
        await look()
        for number in range(2):
            patch = {"status": {"phase": "Succeeded"}}
            await harness.api.patch(Pod, f"a-{number}", "default", patch, subresource="status")
        await asyncio.sleep(5)
        await look()
        return seen

    assert run_steps(scenario) == [("Pending", 0, 0), ("Running", 2, 0), ("Finished", 0, 2)]


def test_a_pending_member_that_shrinks_lets_its_group_in() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await harness.custom(POD_GROUPS, "a", {"minMember": 2})
        await members(harness, "a", range(1), "4")
        await members(harness, "a", range(1, 2), "1")
        await asyncio.sleep(5)
        seen = [await counts(harness)]
        containers = [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]
        patch = {"spec": {"containers": containers}}
        await harness.api.patch(Pod, "a-0", "default", patch, subresource="resize")
        await asyncio.sleep(20)
        return [*seen, await counts(harness)]

    assert run_steps(scenario, nodes=1) == [{}, {"a": 2}]


@pytest.mark.parametrize("how", ["ends", "shrinks"])
def test_a_pod_that_leaves_room_on_its_node_lets_a_group_in(how: str) -> None:
    """The pod uses all CPUs of the node; it succeeds, or is resized in place."""

    async def scenario(harness: ContribHarness) -> list[set[str]]:
        await harness.pod("large", "4")
        await asyncio.sleep(5)
        await gang(harness, "a", 2, 2)
        await asyncio.sleep(5)
        seen = [await harness.placed()]
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        patches = {
            "ends": ("status", {"status": {"phase": "Succeeded"}}),
            "shrinks": ("resize", {"spec": {"containers": containers}}),
        }
        subresource, patch = patches[how]
        await harness.api.patch(Pod, "large", "default", patch, subresource=subresource)
        await asyncio.sleep(20)
        return [*seen, await harness.placed()]

    assert run_steps(scenario, nodes=1) == [{"large"}, {"large", "a-0", "a-1"}]


def test_a_pod_that_ends_lets_a_group_in_that_another_rule_rejected() -> None:
    """Each member needs port 80 of a node, and a pod that uses one ends."""

    async def scenario(harness: ContribHarness) -> list[set[str]]:
        containers = [
            {
                "name": "c",
                "image": "pause",
                "ports": [{"containerPort": 80, "hostPort": 80}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ]
        await harness.pod("web", containers=containers)
        await asyncio.sleep(5)
        await harness.custom(POD_GROUPS, "a", {"minMember": 2})
        await members(harness, "a", range(2), containers=containers)
        await asyncio.sleep(5)
        seen = [await harness.placed()]
        patch = {"status": {"phase": "Succeeded"}}
        await harness.api.patch(Pod, "web", "default", patch, subresource="status")
        await asyncio.sleep(20)
        return [*seen, await harness.placed()]

    assert run_steps(scenario) == [{"web"}, {"web", "a-0", "a-1"}]
