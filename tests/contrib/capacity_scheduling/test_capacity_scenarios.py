"""Scenarios of CapacityScheduling on an embedded cluster, in virtual time."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import Namespace, Pod
from kubesched.contrib.capacity_scheduling.elastic_quotas import ELASTIC_QUOTA_KIND, ELASTIC_QUOTAS
from kubesched.contrib.capacity_scheduling.plugin import CapacityScheduling
from kubesched.foundation.util.virtual_loop import run
from kubesched.testing import check_plugin
from tests.contrib.harness import ContribHarness

PROFILE: dict[str, Any] = {
    "plugins": {
        "preFilter": {"enabled": [{"name": "CapacityScheduling"}]},
        "postFilter": {"enabled": [{"name": "CapacityScheduling"}], "disabled": [{"name": "*"}]},
        "reserve": {"enabled": [{"name": "CapacityScheduling"}]},
    }
}
SEEDS = range(100) if os.environ.get("KUBESCHED_EXPLORE") else range(5)
ROUND_SEEDS = range(300) if os.environ.get("KUBESCHED_EXPLORE") else range(16)


def run_steps(
    scenario: Callable[[ContribHarness], Awaitable[Any]], nodes: int = 2, seed: int = 0
) -> Any:
    """Run a scenario on nodes of 4 CPUs, with the namespaces a, b and c."""

    async def main() -> Any:
        harness = ContribHarness(PROFILE, [CapacityScheduling], ["elasticquotas.yaml"], seed)
        await harness.prepare()
        for number in range(nodes):
            await harness.node(f"n{number}")
        for name in "abc":
            await harness.api.create_document(Namespace, None, {"metadata": {"name": name}})
        async with harness.live.running():
            return await scenario(harness)

    return run(main)


async def quota(harness: ContribHarness, namespace: str, least: int, most: int) -> None:
    spec = {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}}
    await harness.custom(ELASTIC_QUOTAS, "quota", spec, namespace)


async def pods(
    harness: ContribHarness, namespace: str, count: int, start: int = 0, **f: Any
) -> None:
    for number in range(start, start + count):
        await harness.pod(f"p{number}", namespace=namespace, **f)


async def placed(harness: ContribHarness) -> dict[str, int]:
    return dict(await harness.placed_by(lambda pod: pod.metadata.namespace))


def test_the_plugin_fulfils_the_contract() -> None:
    check_plugin(CapacityScheduling)


def test_a_namespace_borrows_up_to_its_max() -> None:
    async def scenario(harness: ContribHarness) -> dict[str, int]:
        await quota(harness, "a", 2, 5)
        await quota(harness, "b", 6, 8)
        await pods(harness, "a", 8)
        await asyncio.sleep(5)
        return await placed(harness)

    assert run_steps(scenario) == {"a": 5}


def test_lent_resources_are_reclaimed_whatever_the_priority() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await quota(harness, "a", 2, 8)
        await quota(harness, "b", 6, 8)
        await pods(harness, "a", 8, priority=100)
        await asyncio.sleep(5)
        seen = [await placed(harness)]
        await pods(harness, "b", 6)
        await asyncio.sleep(60)
        return [*seen, await placed(harness)]

    assert run_steps(scenario) == [{"a": 8}, {"a": 2, "b": 6}]


def test_a_namespace_that_borrows_evicts_its_own_less_important_pods_only() -> None:
    async def scenario(harness: ContribHarness) -> tuple[dict[str, int], set[str]]:
        await quota(harness, "a", 4, 8)
        await quota(harness, "b", 4, 8)
        await pods(harness, "a", 4)
        await pods(harness, "b", 4)
        await asyncio.sleep(5)
        await pods(harness, "a", 1, start=10, priority=100)
        await pods(harness, "b", 1, start=20)
        await asyncio.sleep(60)
        names = {
            pod.metadata.name
            for pod in (await harness.pods()).values()
            if pod.metadata.namespace == "b" and pod.spec.node_name
        }
        return await placed(harness), names

    assert run_steps(scenario) == ({"a": 4, "b": 4}, {"p0", "p1", "p2", "p3"})


def test_namespaces_without_a_quota_are_not_changed() -> None:
    async def scenario(harness: ContribHarness) -> dict[str, int]:
        await quota(harness, "a", 2, 2)
        await pods(harness, "c", 6)
        await pods(harness, "a", 3)
        await asyncio.sleep(60)
        return await placed(harness)

    assert run_steps(scenario) == {"a": 2, "c": 6}


def test_deleted_pods_and_raised_quotas_admit_waiting_pods() -> None:
    async def scenario(harness: ContribHarness) -> list[dict[str, int]]:
        await quota(harness, "a", 2, 2)
        await pods(harness, "a", 4)
        await asyncio.sleep(5)
        seen = [await placed(harness)]
        gone = next(
            pod for pod in (await harness.pods()).values() if pod.spec.node_name
        ).metadata.name
        await harness.api.delete(Pod, gone, "a", grace_period_seconds=0)
        await asyncio.sleep(20)
        seen.append(await placed(harness))
        patch = {"spec": {"min": {"cpu": "3"}, "max": {"cpu": "3"}}}
        await harness.api.patch(ELASTIC_QUOTA_KIND.type, "quota", "a", patch, patch_type="merge")
        await asyncio.sleep(20)
        return [*seen, await placed(harness)]

    assert run_steps(scenario) == [{"a": 2}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize("namespace", ["a", "b"])
def test_a_pod_that_shrinks_lets_pods_in(namespace: str) -> None:
    """The pod is resized in place; it used all of the quota, or all that is guaranteed."""

    async def scenario(harness: ContribHarness) -> list[set[str]]:
        await quota(harness, "a", 2, 2 if namespace == "a" else 4)
        await quota(harness, "b", 2, 4)
        await harness.pod("large", "2" if namespace == "a" else "4", namespace=namespace)
        await asyncio.sleep(5)
        await harness.pod("late", "1", namespace="a", preemptionPolicy="Never")
        await asyncio.sleep(5)
        seen = [await harness.placed()]
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        await harness.api.patch(
            Pod, "large", namespace, {"spec": {"containers": containers}}, subresource="resize"
        )
        await asyncio.sleep(20)
        return [*seen, await harness.placed()]

    assert run_steps(scenario) == [{"large"}, {"large", "late"}]


def test_the_status_has_what_is_used() -> None:
    async def scenario(harness: ContribHarness) -> dict[str, Any]:
        await quota(harness, "a", 2, 8)
        await pods(harness, "a", 1, cpu="1500m")
        await asyncio.sleep(5)
        return await harness.status(ELASTIC_QUOTAS, "quota", "a")

    assert run_steps(scenario) == {"used": {"cpu": "1500m"}}


def test_pods_that_wait_for_evictions_count_against_the_min() -> None:
    """The namespace c is not there, so a has borrowed from b and c; b reclaims its own part."""

    async def scenario(harness: ContribHarness) -> dict[str, int]:
        await quota(harness, "a", 4, 8)
        await quota(harness, "b", 2, 8)
        await quota(harness, "c", 2, 8)
        await pods(harness, "a", 8)
        await asyncio.sleep(5)
        await pods(harness, "b", 3, start=50)
        await asyncio.sleep(60)
        return await placed(harness)

    assert run_steps(scenario) == {"a": 6, "b": 2}


@pytest.mark.parametrize("seed", ROUND_SEEDS)
def test_borrowed_resources_return_within_one_round_of_evictions(seed: int) -> None:
    """All preemptors evict together what they need, and no pod is evicted after that.

    They are equally important. Pods of two sizes share nodes with pods that take long to end.
    """
    rng = random.Random(seed)
    nodes = rng.randint(1, 4)
    room = 4 * nodes
    lent_size, size = rng.choice([(1, 1), (1, 1), (1, 2), (2, 1), (2, 2), (4, 1)])
    least = {"b": rng.randint(1, room // 2), "c": rng.randint(0, room // 2)}
    wanted = {name: rng.randint(0, cpus // size) for name, cpus in least.items()}
    grace_s = rng.choice([1, 5, 30])

    async def scenario(harness: ContribHarness) -> tuple[set[str], set[str], dict[str, int]]:
        await quota(harness, "a", room - sum(least.values()), room)
        for name in "bc":
            await quota(harness, name, least[name], room)
        fields = {"cpu": str(lent_size), "terminationGracePeriodSeconds": grace_s}
        await pods(harness, "a", room // lent_size, priority=rng.choice([0, 100]), **fields)
        await asyncio.sleep(10)
        assert await placed(harness) == {"a": room // lent_size}
        before = set(await harness.pods())
        waiting = [name for name, count in wanted.items() for _ in range(count)]
        rng.shuffle(waiting)
        for number, name in enumerate(waiting):
            await harness.pod(f"new-{number}", str(size), namespace=name)
            await asyncio.sleep(rng.choice([0, 0, 0.02]))
        await asyncio.sleep(0.5)
        found = (await harness.pods()).items()
        evicted = {name for name, pod in found if pod.metadata.deletion_timestamp}
        await asyncio.sleep(grace_s + 15)
        return evicted, before - set(await harness.pods()), await placed(harness)

    evicted, gone, last = run_steps(scenario, nodes, seed)
    assert evicted == gone, "a single round"
    returned = size * sum(wanted.values())
    assert returned <= lent_size * len(gone) < returned + lent_size, "no more than that"
    assert {name: last.get(name, 0) for name in "bc"} == wanted


@pytest.mark.parametrize("seed", SEEDS)
def test_quotas_are_never_exceeded_and_loans_return(seed: int) -> None:
    """Random namespaces share nodes that have exactly what all quotas guarantee."""
    rng = random.Random(seed)
    nodes = rng.randint(1, 3)
    cuts = sorted(rng.randint(0, 4 * nodes) for _ in range(2))
    least = dict(zip("abc", (cuts[0], cuts[1] - cuts[0], 4 * nodes - cuts[1]), strict=True))
    most = {name: rng.randint(size, 4 * nodes) for name, size in least.items()}

    async def scenario(harness: ContribHarness) -> None:
        for name in "abc":
            await quota(harness, name, least[name], most[name])
        wanted: Counter[str] = Counter()
        for number in range(rng.randint(2, 6)):
            name = rng.choice("abc")
            count = rng.randint(1, 6)
            wanted[name] += count
            await pods(harness, name, count, start=10 * number, priority=rng.choice([0, 0, 100]))
            for _ in range(rng.choice([2, 90])):
                await asyncio.sleep(1)
                used = await placed(harness)
                assert all(used.get(each, 0) <= most[each] for each in "abc"), (seed, used, most)
                assert sum(used.values()) <= sum(least.values())
        await asyncio.sleep(120)
        used = await placed(harness)
        created = Counter(pod.metadata.namespace for pod in (await harness.api.list(Pod)).items)
        for name in "abc":
            guaranteed = min(least[name], created[name])
            assert used.get(name, 0) >= guaranteed, (seed, name, used, least, created)
        # Nothing is evicted without need: free nodes would be used by pods that may borrow.
        allowed = sum(min(most[name], created[name]) for name in "abc")
        assert sum(used.values()) == min(allowed, 4 * nodes), (seed, used, created, most)

    run_steps(scenario, nodes, seed)
