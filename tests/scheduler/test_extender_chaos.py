"""Extenders that fail or respond late, with random pods, nodes and deletions.

Under all faults: no node is overcommitted, no pod is placed on a node that the extender refused for
it, no pod is lost, and pods that no extender manages do not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ApiError, Node, Pod
from kubesched.api.quantity import parse_quantity
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.config.types import ExtenderManagedResource
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply
from tests.scheduler.extender_harness import FOO, ExtenderHarness, a_pod, cluster_with, nodes, run

Json = dict[str, Any]
MANAGED = (ExtenderManagedResource(name=FOO, ignored_by_scheduler=True),)
NODES = [f"n{number}" for number in range(6)]
# Pods with even numbers are placed on nodes with even numbers, and odd ones on odd ones.


def suits(pod: str, node: str) -> bool:
    return int(pod[1:]) % 2 == int(node[1:]) % 2


class RandomVerbs:
    """Verbs of an extender that succeed, are slow or fail at random."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self.is_reliable = False

    async def _fault(self) -> Reply | None:
        if self.is_reliable:
            return None
        await asyncio.sleep(self._random.choice([0, 0.001, 0.05, 0.5, 0.5, 3]))
        return self._random.choice([None, None, None, Reply(500), Reply(200, b"{")])

    async def filter(self, arguments: Json) -> Any:
        trouble = await self._fault()
        if trouble is not None:
            return trouble
        pod = arguments["Pod"]["metadata"]["name"]
        names = arguments["NodeNames"]
        return {
            "NodeNames": [name for name in names if suits(pod, name)],
            "FailedNodes": {name: "odd" for name in names if not suits(pod, name)},
        }

    async def prioritize(self, arguments: Json) -> Any:
        trouble = await self._fault()
        if trouble is not None:
            return trouble
        return [
            {"Host": name, "Score": self._random.randrange(11)} for name in arguments["NodeNames"]
        ]

    async def preempt(self, arguments: Json) -> Any:
        trouble = await self._fault()
        if trouble is not None:
            return trouble
        pod = arguments["Pod"]["metadata"]["name"]
        by_node = arguments["NodeNameToMetaVictims"]
        return {
            "NodeNameToMetaVictims": {
                name: victims for name, victims in by_node.items() if suits(pod, name)
            }
        }


async def check(harness: ExtenderHarness, foos: set[str]) -> None:
    """Check that no node is overcommitted, and no pod is on a forbidden node."""
    used = dict.fromkeys(NODES, 0)
    for pod in (await harness.api.list(Pod, "default")).items:
        node, name = pod.spec.node_name, pod.metadata.name
        if node:
            cpu = pod.spec.containers[0].resources.requests["cpu"]
            used[node] = used.get(node, 0) + parse_quantity(cpu).milli_value
            assert name not in foos or suits(name, node), f"{name} on {node}"
    assert max(used.values()) <= 2000, used
    harness.scheduler.cache.check_invariants()
    harness.scheduler.queue.check_invariants()


async def upheaval(harness: ExtenderHarness, rng: random.Random, foos: set[str]) -> None:
    """Create and delete pods, cordon and delete nodes, while the extender fails at random."""
    for number in range(60):
        name = f"p{number}"
        foo = rng.random() < 0.5
        cpu = rng.choice(["100m", "300m", "700m"])
        # There are no kubelets, so deleted pods are removed at once.
        pod = a_pod(name, cpu=cpu, foo=int(foo), termination_grace_period_seconds=0)
        if foo:
            foos.add(name)
        if rng.random() < 0.2:
            pod = replace(pod, spec=replace(pod.spec, priority_class_name="high"))
        await harness.add(pod)
        if rng.random() < 0.3:
            with contextlib.suppress(ApiError):  # it may be deleted already
                await harness.delete_pod(f"p{rng.randrange(number + 1)}")
        if rng.random() < 0.1:
            node = rng.choice(NODES)
            patch = {"spec": {"unschedulable": rng.random() < 0.5}}
            await harness.api.patch(Node, node, None, patch)
        await asyncio.sleep(rng.choice([0, 0.01, 0.2]))
        await check(harness, foos)


@pytest.mark.parametrize("seed", range(6))
def test_random_extender_behavior_breaks_no_invariant(seed: int) -> None:
    async def scenario() -> None:
        rng = random.Random(seed)
        moody = RandomVerbs(rng)
        extender = FakeExtender(
            filter=moody.filter, prioritize=moody.prioritize, preempt=moody.preempt
        )
        settings = extender.settings(
            managed_resources=MANAGED, node_cache_capable=True, http_timeout_ns=SECOND
        )
        async with cluster_with((extender, settings), seed=seed) as harness:
            await harness.add_priority_class("high", 100)
            await harness.add(*nodes(*NODES, cpu="2"))
            foos: set[str] = set()
            await upheaval(harness, rng, foos)
            moody.is_reliable = True
            for node in NODES:
                await harness.api.patch(Node, node, None, {"spec": {"unschedulable": False}})
            # There is room for all pods, so all must be placed.
            for number in range(6, 18):
                await harness.add(*nodes(f"n{number}", cpu="2"))
                await asyncio.sleep(0.05)
                await check(harness, foos)
            # The hint of NodeResourcesFit knows nothing of ignored resources, as upstream: some
            # pods are only tried again when they have waited for five minutes.
            await harness.settle(400)
            await check(harness, foos)
            waiting = [
                pod.metadata.name
                for pod in (await harness.api.list(Pod, "default")).items
                if not pod.spec.node_name
            ]
            assert waiting == []
            assert harness.scheduler.queue.in_flight_pods == []
            assert harness.scheduler._extender_tasks is not None
            assert harness.scheduler._extender_tasks.busy == set()

    run(scenario)
