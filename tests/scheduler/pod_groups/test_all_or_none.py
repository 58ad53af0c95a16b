"""Of a gang either at least its minimum is placed, or no pod, under any fault.

Random gangs, nodes and other pods arrive in random order, on virtual time. Every decision is
compared with a full search without caches.
"""

from __future__ import annotations

import random

import pytest

from kubesched.api import Pod
from kubesched.foundation.util import virtual_loop
from kubesched.testing import make_node, make_pod
from tests.scheduler.pod_groups.group_harness import GroupHarness, gang, group_harness, member

SEEDS = range(12)


async def _shake(harness: GroupHarness, rng: random.Random) -> dict[str, int]:
    """Create objects in random order with random pauses; return the minimum of each gang."""
    needs: dict[str, int] = {}
    coming: list[object] = []
    for number in range(rng.randint(2, 5)):
        name = f"g{number}"
        size = rng.randint(1, 5)
        needs[name] = rng.randint(1, size)
        cpu = str(rng.randint(1, 3))
        coming.append(gang(needs[name], name))
        coming += [member(f"{name}-{each}", cpu, name) for each in range(size)]
    coming += [make_node(f"n{number}", cpu="4") for number in range(rng.randint(1, 4))]
    for number in range(rng.randint(0, 4)):
        coming.append(
            make_pod(f"plain-{number}", images=["i"], requests={"cpu": str(rng.randint(1, 3))})
        )
    rng.shuffle(coming)
    for each in coming:
        await harness.add(each)
        if rng.random() < 0.3:
            await harness.settle(rng.choice([0.01, 1, 12]))
    return needs


def _placed(pods: list[Pod], group: str) -> int:
    return sum(
        pod.metadata.name.startswith(f"{group}-") and bool(pod.spec.node_name) for pod in pods
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gang_is_placed_or_not(seed: int) -> None:
    async def scenario() -> None:
        rng = random.Random(seed)
        async with group_harness(verify_engine=True, seed=seed) as harness:
            needs = await _shake(harness, rng)
            await harness.settle(60)
            pods = list((await harness.api.list(Pod)).items)
            for group, need in needs.items():
                assert _placed(pods, group) == 0 or _placed(pods, group) >= need, group
            assert not list(harness.scheduler.services.waiting_pods)
            assert harness.scheduler.cache.assumed_count == 0
            # There is no free room in which a waiting gang fits.
            await harness.add(make_node("big", cpu="64"))
            await harness.settle(30)
            assert all(pod.spec.node_name for pod in (await harness.api.list(Pod)).items)

    virtual_loop.run(scenario)
