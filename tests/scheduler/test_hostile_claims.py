"""Claims that take long to search block neither other pods nor the event loop.

The cluster is the embedded one, on virtual time. Work is counted in steps of the device search.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kubesched.api import DeviceClass, Node, Pod, ResourceClaim, ResourceSlice
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.cycles import scheduling_cycle
from kubesched.scheduler.plugins.dynamic_resources import device_search_steps
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import SearchBudget
from kubesched.scheduler.scheduler import Scheduler

DRIVER = "gpu.example.com"
CLASS = "gpu"

Json = dict[str, Any]


class Steps:
    """The steps of all attempts, one after another, and how often other tasks ran then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of_turns: list[int] = []
        self.others_ran = 0
        begin, charge = SearchBudget.begin, SearchBudget.charge

        def begin_turn(budget: SearchBudget, *, may_pause: bool) -> None:
            self.of_turns.append(0)
            asyncio.get_running_loop().call_soon(self._note)
            begin(budget, may_pause=may_pause)

        def charge_turn(budget: SearchBudget, steps: int) -> None:
            self.of_turns[-1] += steps
            charge(budget, steps)

        monkeypatch.setattr(SearchBudget, "begin", begin_turn)
        monkeypatch.setattr(SearchBudget, "charge", charge_turn)

    def _note(self) -> None:
        self.others_ran += 1


def device(place: int, **attributes: int) -> Json:
    values = {"slot": place, **attributes}
    return {"name": f"d{place:04}", "attributes": {k: {"int": v} for k, v in values.items()}}


class ClaimHarness:
    """A cluster with a node, its devices, and pods with claims."""

    def __init__(self) -> None:
        self.clock = current_clock()
        self.cluster = EmbeddedCluster(self.clock, derive(1, "store"), heartbeats=False)
        self.api = self.cluster.api
        self.scheduler = Scheduler(self.api, self.clock, seed=1)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.cluster, running(*self.cluster.parts, self.scheduler):
            yield

    async def prepare(self, devices: list[Json]) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        node: Json = {"metadata": {"name": "n"}, "status": {"capacity": amounts}}
        node["status"]["allocatable"] = amounts
        await self.api.create_document(Node, None, node)
        await self.api.create_document(DeviceClass, None, {"metadata": {"name": CLASS}})
        parts = [devices[begin : begin + 128] for begin in range(0, len(devices), 128)]
        for number, part in enumerate(parts):
            pool = {"name": "p", "generation": 1, "resourceSliceCount": len(parts)}
            spec = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": part}
            document = {"metadata": {"name": f"s{number}"}, "spec": spec}
            await self.api.create_document(ResourceSlice, None, document)

    async def add(self, name: str, *requests: Json, constraints: list[Json] | None = None) -> None:
        """Add a pod; with requests, it gets a separate claim."""
        spec: Json = {"containers": [{"name": "c", "image": "pause"}]}
        if requests:
            named = [
                {"name": f"r{number}", "exactly": {"deviceClassName": CLASS, **each}}
                for number, each in enumerate(requests)
            ]
            devices: Json = {"requests": named, "constraints": constraints or []}
            claim = {"metadata": {"name": name}, "spec": {"devices": devices}}
            await self.api.create_document(ResourceClaim, "default", claim)
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        await self.api.create_document(Pod, "default", {"metadata": {"name": name}, "spec": spec})

    async def condition(self, name: str) -> tuple[str, str]:
        pod = await self.api.get(Pod, name, "default")
        (found,) = [each for each in pod.status.conditions if each.type == "PodScheduled"]
        return found.reason, found.message

    async def bound(self) -> set[str]:
        pods = (await self.api.list(Pod)).items
        return {each.metadata.name for each in pods if each.spec.node_name}


def same(attribute: str, *requests: int) -> Json:
    """Return a constraint; without requests it applies to all."""
    return {
        "matchAttribute": f"{DRIVER}/{attribute}",
        "requests": [f"r{each}" for each in requests],
    }


# A claim that even the guided search does not decide within its limit.
HARD_CONSTRAINTS = [
    same("ab"[n % 2], (n * 7 + n // 3) % 24, (n * 5 + 3 * n // 4 + 1) % 24) for n in range(36)
]


async def with_hostile_pods(harness: ClaimHarness) -> None:
    await harness.add("even", {"count": 20}, constraints=[same("slot")])
    await harness.add("pairs", {"count": 20}, constraints=[same("a"), same("b")])
    await harness.add("hard", *({"count": 1} for _ in range(24)), constraints=HARD_CONSTRAINTS)


def devices() -> list[Json]:
    return [device(n, a=n % 6, b=n // 6 % 6) for n in range(115) if (n % 6 * 7 + n // 6 * 3) % 5]


def test_ordinary_pods_are_placed_beside_hostile_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)

    async def scenario() -> None:
        harness = ClaimHarness()
        async with harness.running():
            await harness.prepare(devices())
            await harness.clock.sleep(SECOND)
            await with_hostile_pods(harness)
            ordinary = {f"p{number}" for number in range(20)}
            for name in sorted(ordinary):
                await harness.add(name)
            await harness.clock.sleep(SECOND)
            assert await harness.bound() == ordinary
            for name in ("even", "pairs"):
                assert await harness.condition(name) == (
                    "Unschedulable",
                    "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
                    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for "
                    "scheduling.",
                )
            searched = sum(steps.of_turns)
            assert 0 < max(steps.of_turns) < 1.5 * device_search_steps.STEPS_PER_TURN
            # Retries use the cached results of the first search.
            await harness.clock.sleep(120 * SECOND)
            assert sum(steps.of_turns) == searched

    run(scenario())


def test_a_failed_search_is_repeated_when_devices_change(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)

    async def scenario() -> None:
        harness = ClaimHarness()
        async with harness.running():
            await harness.prepare([device(n, a=n % 4) for n in range(40)])
            await harness.add("waits", {"count": 20}, constraints=[same("a")])
            await harness.clock.sleep(5 * SECOND)
            assert await harness.bound() == set()
            before = sum(steps.of_turns)
            slices = [{"name": f"e{n}", "attributes": {"a": {"int": 3}}} for n in range(10)]
            pool = {"name": "q", "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": DRIVER, "pool": pool, "nodeName": "n", "devices": slices}
            await harness.api.create_document(
                ResourceSlice, None, {"metadata": {"name": "more"}, "spec": spec}
            )
            await harness.clock.sleep(15 * SECOND)
            assert await harness.bound() == {"waits"}
            assert sum(steps.of_turns) > before

    run(scenario())


def test_the_loop_continues_while_selectors_are_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_search_steps, "STEPS_PER_TURN", 1_000)
    steps = Steps(monkeypatch)

    async def scenario() -> None:
        harness = ClaimHarness()
        async with harness.running():
            await harness.prepare([device(n) for n in range(1_000)])
            await harness.clock.sleep(SECOND)
            selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].slot == 999'}}]
            await harness.add("p", {"count": 1, "selectors": selectors})
            await harness.clock.sleep(SECOND)
            assert await harness.bound() == {"p"}
        # 1,000 evaluations of at least 15 steps do not fit into 15 turns.
        assert len(steps.of_turns) > 15
        assert max(steps.of_turns) < 2_000
        assert steps.others_ran == len(steps.of_turns)

    run(scenario())


def test_an_attempt_ends_after_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_search_steps, "STEPS_PER_TURN", 1_000)
    monkeypatch.setattr(scheduling_cycle, "MOST_TURNS", 5)

    async def scenario() -> None:
        harness = ClaimHarness()
        async with harness.running():
            await harness.prepare([device(n) for n in range(1_000)])
            await harness.clock.sleep(SECOND)
            selectors = [{"cel": {"expression": f'device.attributes["{DRIVER}"].slot == 999'}}]
            await harness.add("p", {"count": 1, "selectors": selectors})
            await harness.clock.sleep(SECOND // 2)
            assert await harness.condition("p") == (
                "SchedulerError",
                'running PreFilter plugin "DynamicResources": the search for devices takes long '
                "and continues with the next attempt",
            )
            await harness.clock.sleep(60 * SECOND)  # each attempt continues where one stopped
            assert await harness.bound() == {"p"}

    run(scenario())
