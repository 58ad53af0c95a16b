"""Random groups on few nodes: none is ever left with fewer pods on nodes than it needs."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter

import pytest

from kubesched.api import Pod
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUPS
from kubesched.contrib.coscheduling.plugin import Coscheduling
from kubesched.foundation.util.virtual_loop import run
from tests.contrib.coscheduling.test_coscheduling_scenarios import PROFILE
from tests.contrib.harness import ContribHarness

SEEDS = range(200) if os.environ.get("KUBESCHED_EXPLORE") else range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_group_is_left_below_its_minimum(seed: int) -> None:
    """Members arrive in random order, whole groups end, and nodes fail to fit some groups."""
    rng = random.Random(seed)
    are_equal = seed % 2 == 0  # then the number of free CPUs determines which groups fit
    least = {f"g{number}": rng.randint(1, 7) for number in range(rng.randint(2, 5))}

    async def main() -> tuple[list[Counter[str]], int]:
        harness = ContribHarness(PROFILE, [Coscheduling], ["podgroups.yaml"], seed)
        await harness.prepare()
        nodes = rng.randint(1, 3)
        for number in range(nodes):
            await harness.node(f"n{number}")
        seen: list[Counter[str]] = []
        gone: set[str] = set()
        async with harness.live.running():
            steps = [
                (group, number)
                for group, members in least.items()
                for number in range(members + rng.randint(0, 1))
            ]
            rng.shuffle(steps)
            for group, members in least.items():
                await harness.custom(POD_GROUPS, group, {"minMember": members})
            for group, number in steps:
                cpu = "1" if are_equal else rng.choice(["500m", "1", "2"])
                await harness.pod(f"{group}-{number}", cpu, {GROUP_LABEL: group})
                await asyncio.sleep(rng.choice([0, 0, 1]))
            await _wait_and_watch(harness, least)
            for _ in least:
                seen.append(await _sizes(harness))
                if are_equal:
                    free = 4 * nodes - seen[-1].total()
                    left = {group: least[group] for group in least if group not in gone}
                    waiting = [need for group, need in left.items() if not seen[-1][group]]
                    assert all(need > free for need in waiting), (seed, seen[-1], least)
                if not seen[-1]:
                    break
                # A whole group ends, and its nodes can be used by others.
                ending = rng.choice(sorted(seen[-1]))
                gone.add(ending)
                for name, pod in (await harness.pods()).items():
                    if pod.metadata.labels[GROUP_LABEL] == ending:
                        await harness.api.delete(Pod, name, "default", grace_period_seconds=0)
                await _wait_and_watch(harness, least)
            attempts = harness.live.scheduler.queue.scheduling_cycle
        return seen, attempts

    seen, attempts = run(main)
    for sizes in seen:
        for group, size in sizes.items():
            assert size >= least[group], (seed, sizes, least)
    assert attempts < 2000, "groups are tried when something changes, not all the time"


async def _wait_and_watch(harness: ContribHarness, least: dict[str, int]) -> None:
    """Check every second for a while that no group is bound in part."""
    for _ in range(90):
        await asyncio.sleep(1)
        sizes = await _sizes(harness)
        assert all(size >= least[group] for group, size in sizes.items()), (sizes, least)


async def _sizes(harness: ContribHarness) -> Counter[str]:
    return await harness.placed_by(lambda pod: pod.metadata.labels[GROUP_LABEL])
