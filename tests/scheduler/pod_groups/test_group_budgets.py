"""The cost of a pod group in calls: each further member costs the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kubesched.api import Pod, PodGroup
from tests.counted_calls import count_calls, grow
from tests.scheduler.hostile_object_harness import GROUPS, HostileObjectHarness, run_steps

SIZE = 30
CALLS_PER_MEMBER = 8_000
"""Creating it, receiving its event, trying it with its group, and writing the result."""


def cost(count: int, least: int, cpu: str) -> int:
    """Measure the cost of creating this many members of a gang, or of pods without a group (0)."""
    policy: dict[str, Any] = {"gang": {"minCount": least}} if least else {"basic": {}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulingGroup": {"podGroupName": "g"}}

    async def steps(harness: HostileObjectHarness) -> None:
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        await harness.api.create_document(PodGroup, "default", group)
        for number in range(count):
            pod = {"metadata": {"name": f"p{number}"}, "spec": spec}
            await harness.api.create_document(Pod, "default", pod)
        await asyncio.sleep(3)

    return count_calls(lambda: run_steps(steps, GROUPS))


CASES: dict[str, Callable[[int], int]] = {
    "a gang that one is missing of": lambda count: cost(count, count + 1, "1m"),
    "a gang that fits nowhere": lambda count: cost(count, count, "100"),
    "a gang that fits": lambda count: cost(count, count, "1m"),
    "a gang that fits in part": lambda count: cost(count, count, "1"),
    "a group that fits nowhere": lambda count: cost(count, 0, "100"),
    "a gang without measure": lambda count: cost(count, 2**31 - 1, "1m"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_member_costs_the_same_in_a_large_group(case: Callable[[int], int]) -> None:
    case(2)  # fills the caches
    growth = grow(case, SIZE)
    # A quadratic loop would double it: every member would be compared with every other one.
    assert growth.among_many <= 1.5 * growth.among_few, growth
    assert growth.among_many <= CALLS_PER_MEMBER, growth
