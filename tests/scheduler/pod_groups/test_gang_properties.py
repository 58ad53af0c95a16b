"""Gangs of equal pods, which arrive and end in random order: which of them wait is arithmetic.

At every second a gang has no pod with a node, or at least its minimum. A gang whose minimum fits
into what is free, or into what is free in one rack, does not wait. With preemption it does not wait
for less important pods either.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PodGroup, PriorityClass
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.foundation.util import virtual_loop
from kubesched.testing import make_node, make_pod
from tests.scheduler.pod_groups.group_harness import (
    GANGS,
    GroupHarness,
    gang,
    group_harness,
    member,
)

SEEDS = range(200) if os.environ.get("KUBESCHED_EXPLORE") else range(6)
RACK = "example.com/rack"
PER_NODE = 4


async def _free(harness: GroupHarness, racks: dict[str, str]) -> Counter[str]:
    """Return the free CPUs of each rack; every pod requests one."""
    free = Counter(racks.values())
    for rack in free:
        free[rack] *= PER_NODE
    for pod in (await harness.api.list(Pod)).items:
        if pod.spec.node_name:
            free[racks[pod.spec.node_name]] -= 1
    return free


async def _sizes(harness: GroupHarness) -> Counter[str]:
    """Return the number of pods with a node of each gang; pods of others are under ''."""
    sizes: Counter[str] = Counter()
    for pod in (await harness.api.list(Pod)).items:
        reference = pod.spec.scheduling_group
        name = "" if reference is None else reference.pod_group_name or ""
        sizes[name] += bool(pod.spec.node_name)
    return +sizes


async def _watch(harness: GroupHarness, least: dict[str, int], seconds: int) -> Counter[str]:
    """Check every second that no gang is bound in part; return the sizes in the end."""
    sizes: Counter[str] = Counter()
    for _ in range(seconds):
        await harness.settle(1)
        sizes = await _sizes(harness)
        assert all(size >= least[name] for name, size in sizes.items() if name), (sizes, least)
    return sizes


async def _end(harness: GroupHarness, name: str) -> None:
    for pod in (await harness.api.list(Pod)).items:
        reference = pod.spec.scheduling_group
        if reference is not None and reference.pod_group_name == name:
            await harness.api.delete(
                Pod, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
            )
    await harness.api.delete(PodGroup, name, "default")


@pytest.mark.parametrize("in_one_rack", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_gang_waits_while_its_minimum_fits(seed: int, in_one_rack: bool) -> None:
    rng = random.Random(seed)
    racks = {f"n{number}": f"rack-{number % 2}" for number in range(rng.randint(1, 5))}
    least = {f"g{number}": rng.randint(1, 7) for number in range(rng.randint(2, 5))}

    async def scenario() -> None:
        gates = {**GANGS, "TopologyAwareWorkloadScheduling": in_one_rack}
        async with group_harness(gates, verify_engine=True, seed=seed) as harness:
            for name, rack in racks.items():
                await harness.add(make_node(name, cpu=str(PER_NODE), labels={RACK: rack}))
            constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=RACK),))
            coming: list[PodGroup | Pod] = []
            for name, need in least.items():
                extra = {"scheduling_constraints": constraints} if in_one_rack else {}
                coming.append(gang(need, name, **extra))
                coming += [member(f"{name}-{each}", "1", name) for each in range(need)]
            rng.shuffle(coming)
            for each in coming:
                await harness.add(each)
                await harness.settle(rng.choice([0.01, 1]))
            running = dict(least)
            while running:
                sizes = await _watch(harness, least, 60)
                free = await _free(harness, racks)
                room = max(free.values()) if in_one_rack else free.total()
                waiting = {name: need for name, need in running.items() if not sizes[name]}
                assert all(need > room for need in waiting.values()), (waiting, free)
                if in_one_rack:
                    await _check_racks(harness, racks)
                if len(waiting) == len(running):
                    break
                ending = rng.choice(sorted(set(running) - set(waiting)))
                del running[ending]
                await _end(harness, ending)

    virtual_loop.run(scenario)


async def _end_terminating(harness: GroupHarness) -> None:
    """Do what kubelets do."""
    for pod in (await harness.api.list(Pod)).items:
        if pod.metadata.deletion_timestamp:
            await harness.api.delete(
                Pod, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
            )


async def _check_racks(harness: GroupHarness, racks: dict[str, str]) -> None:
    where: dict[str, set[str]] = {}
    for pod in (await harness.api.list(Pod)).items:
        if pod.spec.node_name and pod.spec.scheduling_group is not None:
            name = pod.spec.scheduling_group.pod_group_name or ""
            where.setdefault(name, set()).add(racks[pod.spec.node_name])
    assert all(len(found) == 1 for found in where.values()), where


@pytest.mark.parametrize("seed", SEEDS)
def test_no_gang_waits_for_less_important_pods(seed: int) -> None:
    """Plain pods of priority 0 fill the nodes; gangs of priority 0 and 5 follow."""
    rng = random.Random(seed)
    racks = {f"n{number}": "" for number in range(rng.randint(1, 4))}
    capacity = PER_NODE * len(racks)
    least = {f"g{number}": rng.randint(1, 7) for number in range(rng.randint(1, 4))}
    priority = {name: rng.choice([0, 5]) for name in least}

    async def scenario() -> None:
        gates = {**GANGS, "WorkloadAwarePreemption": True}
        async with group_harness(gates, seed=seed) as harness:
            for name in racks:
                await harness.add(make_node(name, cpu=str(PER_NODE)))
            for number in range(rng.randint(0, capacity)):
                await harness.add(make_pod(f"plain-{number}", images=["i"], requests={"cpu": "1"}))
            await harness.settle(2)
            await harness.add(PriorityClass(metadata=ObjectMeta(name="high"), value=5))
            for name, need in least.items():
                with_class = {"priority_class_name": "high"} if priority[name] else {}
                await harness.add(gang(need, name, **with_class))
                for each in range(need):
                    pod = member(f"{name}-{each}", "1", name)
                    await harness.add(replace(pod, spec=replace(pod.spec, **with_class)))
                await harness.settle(rng.choice([0.01, 1]))
            for _ in range(120):
                await harness.settle(1)
                await _end_terminating(harness)
            sizes = await _sizes(harness)
            free = (await _free(harness, racks)).total()
            important = sum(sizes[name] for name in least if priority[name])
            left = {pod.metadata.name for pod in (await harness.api.list(Pod)).items}
            for name, need in least.items():
                if any(f"{name}-{each}" not in left for each in range(need)):
                    assert not priority[name], "pods of priority 5 are no victims"
                elif not sizes[name]:
                    room = capacity - important if priority[name] else free
                    assert need > room, (name, need, sizes, priority, capacity)
                else:
                    assert sizes[name] == need

    virtual_loop.run(scenario)
