"""Whatever a pod or node contains: other pods are placed, and the process goes on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.hostile_world import HostileWorld, tell

BIG = "8191Pi"


def asking(**requests: str) -> dict[str, Any]:
    return {
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    }


HUGE = {
    "memory": asking(memory=BIG),
    "cpu": asking(cpu="9223372036854775"),
    "ephemeral storage": asking(**{"ephemeral-storage": BIG}),
    "an extended resource": asking(**{"example.com/gpu": "9223372036854775807"}),
}


@pytest.mark.parametrize("lie", HUGE.values(), ids=HUGE)
def test_pods_that_ask_for_more_than_can_be_counted_stop_nobody(lie: dict[str, Any]) -> None:
    async def story(world: HostileWorld) -> None:
        for number in range(3):
            await world.add_pod(f"huge{number}", lie, node_name="n0")
        await world.add_pod("innocent", requests={"cpu": "1"})
        await world.until_bound("innocent")
        for number in range(3):
            await world.delete_pod(f"huge{number}")
        # What was added up beyond 64 bits is taken away again without a rest.
        for number in range(3):
            await world.add_pod(f"large{number}", requests={"cpu": "7", "memory": "15Gi"})
        for number in range(3):
            await world.until_bound(f"large{number}", within_s=400)
        world.scheduler.cache.check_invariants()

    tell(story)
