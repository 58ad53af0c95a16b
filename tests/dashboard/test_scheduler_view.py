"""The view of a scheduler's own counts equals a recount at any time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.rows import node_row
from kubesched.dashboard.scheduler_view import SchedulerView
from kubesched.dashboard.stream_frames import FrameHub
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod


def fresh(made: Any) -> Any:
    return replace(made, metadata=replace(made.metadata, uid="", resource_version=""))


def node(name: str, **facts: Any) -> Any:
    return fresh(make_node(name, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20"}, **facts))


def pod(name: str, cpu: str = "1") -> Any:
    return fresh(make_pod(name, images=["x"], requests={"cpu": cpu}))


class SchedulerViewHarness:
    """A cluster with a scheduler, and what a viewer makes of the frames it is sent."""

    def __init__(self) -> None:
        clock = current_clock()
        self.api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        self.schedulers = [Scheduler(self.api, clock)]
        self.view = SchedulerView(lambda: self.schedulers[-1])
        self.hub = FrameHub(self.view, DecisionLog(clock.now_ns), lambda frame: frame)
        self.counted = ClusterView()
        self.pods: SharedInformer[Pod] = SharedInformer(self.api, Pod, clock, random.Random(1))
        self.nodes: SharedInformer[Node] = SharedInformer(self.api, Node, clock, random.Random(2))
        counted = self.counted
        self.pods.add_handler(
            counted.put_pod,
            lambda _, new: counted.put_pod(new),
            lambda old, _: counted.remove_pod(old),
        )
        self.nodes.add_handler(
            counted.put_node,
            lambda _, new: counted.put_node(new),
            lambda old, _: counted.remove_node(old),
        )
        self.last = 0
        self.shown: dict[str, dict[str, Any]] = {}

    async def look(self) -> dict[str, Any]:
        """Take the next frame, and bring what a viewer has up to date with it."""
        self.last, event = await self.hub.next(self.last)
        frame: dict[str, Any] = json.loads(event.removeprefix(b"data: "))
        if frame.get("all"):
            self.shown.clear()
        for place, name, cpu, _, pods, *_ in frame["nodes"]:
            shape = frame["shapes"][place]
            self.shown[name] = {**shape, "cpu": [cpu, shape["cpu"]], "pods": [pods, shape["pods"]]}
        for name, cpu, _, pods, *_ in frame.get("used", ()):
            row = self.shown[name]
            row["cpu"], row["pods"] = [cpu, row["cpu"][1]], [pods, row["pods"][1]]
        for name in frame.get("gone", ()):
            del self.shown[name]
        return frame

    def check(self, frame: dict[str, Any]) -> None:
        """Check that the viewer's numbers equal an independent count."""
        expected = {}
        for name in self.counted.names():
            facts = self.counted.facts(name)
            assert facts is not None
            expected[name] = node_row(facts)
        assert self.shown.keys() == expected.keys()
        for name, row in expected.items():
            for key in ("cpu", "pods", "labels", "cordoned", "taints"):
                assert self.shown[name].get(key) == row.get(key), (name, key)
        assert frame["counts"] == self.counted.counts()


def virtually(work: Callable[[SchedulerViewHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        harness = SchedulerViewHarness()
        for name in ("a", "b", "c"):
            await harness.api.create(node(name))
        async with running(harness.schedulers[0], harness.pods, harness.nodes):
            await harness.schedulers[0].synced.wait()
            harness.hub.join()
            await work(harness)

    virtual_loop.run(main, start_ns=1_800_000_000_000_000_000, seed=0)


def test_frames_agree_with_an_independent_count() -> None:
    async def work(harness: SchedulerViewHarness) -> None:
        api = harness.api
        harness.check(await harness.look())
        for number in range(9):
            await api.create(pod(f"p{number}"))
        await api.create(pod("giant", "99"))
        await asyncio.sleep(1)
        frame = await harness.look()
        assert frame["counts"] == {"nodes": 3, "pods": 10, "placed": 9, "waiting": 1}
        harness.check(frame)
        assert [each.metadata.name for each in harness.view.waiting()] == ["giant"]
        await api.delete(Pod, "p3", "default", grace_period_seconds=0)
        cordon = {"spec": {"unschedulable": True}}
        await api.patch(Node, "b", None, cordon, patch_type="merge")
        await api.delete(Node, "c")
        await api.create(node("d", labels={"zone": "z"}))
        await asyncio.sleep(1)
        harness.check(await harness.look())
        await api.create(pod("one-more"))
        await asyncio.sleep(1)
        harness.check(await harness.look())

    virtually(work)


def test_a_change_that_a_late_viewer_was_shown_first_reaches_the_others_as_well() -> None:
    async def work(harness: SchedulerViewHarness) -> None:
        await harness.look()
        cordon = {"spec": {"unschedulable": True}}
        await harness.api.patch(Node, "b", None, cordon, patch_type="merge")
        await asyncio.sleep(0.01)
        harness.hub._whole = None  # as if it had grown old
        _, event = await harness.hub.next(0)
        assert b"cordoned" in event
        harness.check(await harness.look())

    virtually(work)


def test_no_changes_are_logged_without_readers_and_a_new_reader_gets_all() -> None:
    async def work(harness: SchedulerViewHarness) -> None:
        await harness.look()
        harness.hub.leave()
        await harness.api.create(pod("p"))
        await asyncio.sleep(1)
        assert harness.hub.backlog == 0
        harness.hub.join()
        frame = await harness.look()
        assert frame["all"] is True
        harness.check(frame)

    virtually(work)


def test_a_scheduler_that_takes_over_is_shown_after_its_caches_are_synced() -> None:
    async def work(harness: SchedulerViewHarness) -> None:
        await harness.api.create(pod("p"))
        await asyncio.sleep(1)
        await harness.look()
        harness.schedulers[0].stop()
        harness.schedulers.append(Scheduler(harness.api, current_clock()))
        frame = await harness.look()
        assert frame["counts"]["placed"] == 1
        async with running(harness.schedulers[1]):
            await harness.schedulers[1].synced.wait()
            await harness.api.create(pod("q"))
            await asyncio.sleep(1)
            harness.check(await harness.look())

    virtually(work)
