"""A cluster whose scheduler shadow mode observes, in virtual time, with churn of many sorts."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from typing import Any

from msgspec.structs import replace

from kubesched.api import (
    ApiError,
    DeviceClass,
    Node,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from kubesched.api.codec import from_builtins
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.explain.shadow.shadow_entries import ShadowReport
from kubesched.explain.shadow.shadow_watch import ShadowWatch
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod, make_priority_class, make_pvc, make_spread

READS = frozenset(["get", "list", "watch"])
_ENDED = ("Succeeded", "Failed")


def completed(configuration: KubeSchedulerConfiguration | None = None) -> Any:
    return scheduler_configuration(configuration=configuration or default_configuration())


class _SlowApi(LocalApi):
    """Delays new objects of some kinds."""

    slow_watches: tuple[type[Any], ...] = ()

    def watch(self, kind: type[Any], *arguments: Any, **options: Any) -> Any:
        events = super().watch(kind, *arguments, **options)
        return self._delayed(events) if kind in self.slow_watches else events

    async def _delayed(self, events: Any) -> AsyncIterator[Any]:
        async for event in events:
            if event.type == "ADDED":
                await asyncio.sleep(0.5)
            yield event


class ShadowHarness:
    """An embedded cluster, another scheduler, and a shadow that only reads."""

    def __init__(
        self,
        seed: int,
        *,
        other: KubeSchedulerConfiguration | None = None,
        own: KubeSchedulerConfiguration | None = None,
        latency_ms: float = 20,
        window_ns: int = SECOND,
        slow_watches: Collection[type[Any]] = (),
    ) -> None:
        """New objects of the kinds `slow_watches` reach the other scheduler half a second late."""
        self.random = random.Random(seed)
        self.clock = current_clock()
        self.cluster = EmbeddedCluster(
            self.clock, random.Random(seed), heartbeats=False, parts=ClusterPart.ALL
        )
        self.api = self.cluster.api
        store = self.api.store
        latency = random.Random(seed)

        def slow(verb: str, *_: object) -> Fault | None:
            if verb in READS:
                return None
            return Fault(delay_ns=int(latency.expovariate(1 / latency_ms) * MILLISECOND))

        slow_api = _SlowApi(store, self.clock, faults=slow if latency_ms else None)
        slow_api.slow_watches = tuple(slow_watches)
        self.other = Scheduler(slow_api, self.clock, configuration=other, seed=seed)
        self.requests: set[str] = set()

        def record(verb: str, *_: object) -> None:
            self.requests.add(verb)

        self.shadow = ShadowWatch(
            LocalApi(store, self.clock, faults=record),
            self.clock,
            completed(own or other),
            IN_TREE_PLUGINS,
            window_ns=window_ns,
            seed=seed + 1,
        )

    async def run(self, *steps: Callable[[ShadowHarness], Any]) -> ShadowReport:
        async with running(*self.cluster.parts, self.other, self.shadow):
            await self.shadow.synced.wait()
            for step in steps:
                await step(self)
            await asyncio.sleep(30)
        return self.shadow.report()

    async def create(self, *objects: Any) -> None:
        for each in objects:
            metadata = replace(each.metadata, uid="", resource_version="")
            await self.api.create(replace(each, metadata=metadata))

    async def nodes(self, count: int, *, first: int = 0, **fields: Any) -> None:
        for number in range(first, first + count):
            zone = f"z{number % 3}"
            await self.create(make_node(f"n{number}", zone=zone, **fields))

    async def delete(self, kind: type[Any], name: str, namespace: str = "default") -> None:
        with contextlib.suppress(ApiError):
            await self.api.delete(kind, name, namespace)


def device_objects(nodes: int) -> list[Any]:
    """A class of devices, and two devices on each of the first nodes."""
    made: list[Any] = [from_builtins({"metadata": {"name": "gpu"}, "spec": {}}, DeviceClass)]
    for number in range(nodes):
        name = f"n{number}"
        spec = {
            "driver": "d.example.com",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": name,
            "devices": [{"name": "d0"}, {"name": "d1"}],
        }
        made.append(from_builtins({"metadata": {"name": name}, "spec": spec}, ResourceSlice))
    return made


def device_claim(name: str) -> ResourceClaim:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    body: Mapping[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": [request]}},
    }
    return from_builtins(body, ResourceClaim)


class Churn:
    """Random pods, deletions, and changes of nodes, at random times."""

    def __init__(self, *, steps: int = 150, nodes: int = 12, gap_ms: float = 40) -> None:
        self._steps, self._nodes, self._gap_ms = steps, nodes, gap_ms

    async def __call__(self, harness: ShadowHarness) -> None:
        rng = harness.random
        for number in range(self._steps):
            kind = rng.choices(
                ["pods", "burst", "volume", "device", "urgent", "delete", "node"],
                [10, 3, 3, 3, 2, 6, 2],
            )[0]
            await getattr(self, f"_{kind}")(harness, number)
            await asyncio.sleep(rng.expovariate(1000 / self._gap_ms))

    async def _pods(
        self, harness: ShadowHarness, number: int, name: str = "p", *, rank: str = "", **more: Any
    ) -> None:
        rng = harness.random
        spread = [make_spread(labels={"app": "a"})] if rng.random() < 0.3 else []
        pod = make_pod(
            f"{name}{number}",
            labels={"app": rng.choice("abc")},
            requests={"cpu": rng.choice(["100m", "500m", "1"]), "memory": "256Mi"},
            images=["x"],
            spread=spread,
            **more,
        )
        await harness.create(_ranked(pod, rank))

    async def _burst(self, harness: ShadowHarness, number: int) -> None:
        for each in range(harness.random.randrange(3, 25)):
            await self._pods(
                harness, number, f"b{each}-", rank=harness.random.choice(["", "", "high"])
            )

    async def _volume(self, harness: ShadowHarness, number: int) -> None:
        await harness.create(make_pvc(f"v{number}", storage_class="standard"))
        await self._pods(harness, number, "v", pvcs=[f"v{number}"])

    async def _device(self, harness: ShadowHarness, number: int) -> None:
        await harness.create(device_claim(f"d{number}"))
        await self._pods(harness, number, "d", resource_claims={"gpu": f"d{number}"})

    async def _urgent(self, harness: ShadowHarness, number: int) -> None:
        pod = make_pod(f"u{number}", requests={"cpu": "2"}, images=["x"])
        await harness.create(_ranked(pod, "urgent"))

    async def _delete(self, harness: ShadowHarness, number: int) -> None:
        pods = [pod.metadata.name for pod in (await harness.api.list(Pod)).items]
        for name in harness.random.sample(pods, min(len(pods), harness.random.randrange(1, 12))):
            await harness.delete(Pod, name)

    async def _node(self, harness: ShadowHarness, number: int) -> None:
        name = f"n{harness.random.randrange(self._nodes)}"
        if harness.random.random() < 0.3:
            await harness.delete(Node, name, "")
            await harness.create(make_node(name, zone=f"z{number % 3}"))
            return
        with contextlib.suppress(ApiError):
            node = await harness.api.get(Node, name)
            flipped = replace(node.spec, unschedulable=not node.spec.unschedulable)
            await harness.api.update(replace(node, spec=flipped))


def _ranked(pod: Pod, rank: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, priority_class_name=rank)) if rank else pod


async def furnish(harness: ShadowHarness) -> None:
    await harness.nodes(12)
    classes = [make_priority_class("high", 10), make_priority_class("urgent", 1000)]
    await harness.create(*device_objects(8), *classes)


def observe(seed: int, *steps: Any, **options: Any) -> ShadowReport:
    async def main() -> ShadowReport:
        return await ShadowHarness(seed, **options).run(furnish, *steps)

    return virtual_loop.run(main, seed=seed)
