"""Plugins that answer nonsense or raise what ends tasks and processes: one pod, one attempt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from kubesched.api import Node, Pod
from kubesched.apiserver import LocalApi, Store
from kubesched.config import load_configuration
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Plugin,
)
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from kubesched.util import virtual_loop
from kubesched.util.clock import current_clock
from kubesched.util.components import running
from tests.scheduler.hostile_world import fresh

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: odd
  plugins:
    multiPoint:
      enabled: [{name: Odd}]
"""
BINDING_FIRST = """
    bind:
      disabled: [{name: DefaultBinder}]
      enabled: [{name: Odd}, {name: DefaultBinder}]
"""


def exits(*_: Any) -> Any:
    raise SystemExit(3)


def cancels(*_: Any) -> Any:
    raise asyncio.CancelledError


def fails(*_: Any) -> Any:
    raise RuntimeError("no")


MISDEEDS: dict[str, Callable[..., Any]] = {
    "forgets to return": lambda *_: None,
    "answers with a number": lambda *_: 5,
    "answers with a text": lambda *_: "yes",
    "raises": fails,
    "exits": exits,
    "cancels": cancels,
}
POINTS = [
    "pre_enqueue",
    "pre_filter",
    "filter",
    "filter_nodes",
    "post_filter",
    "pre_score",
    "score",
    "score_nodes",
    "normalize_score",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
    "pre_bind",
    "bind",
    "post_bind",
    "hint",
]
AWAITED = {"pre_bind", "bind", "post_bind"}


def odd_plugin(point: str, misdeed: Callable[..., Any]) -> type[Plugin]:
    async def awaited(self: Plugin, *args: Any) -> Any:
        return misdeed(*args)

    def plain(self: Plugin, *args: Any) -> Any:
        return misdeed(*args)

    methods: dict[str, Any] = {"name": "Odd"}
    if point == "hint":
        event = ClusterEvent(EventResource.NODE, ActionType.ALL)
        methods["events_to_register"] = lambda self: [ClusterEventWithHint(event, misdeed)]
        methods["pre_filter"] = fails
    else:
        methods[point] = awaited if point in AWAITED else plain
    if point == "unreserve":
        methods["reserve"] = fails
    if point == "filter_nodes":
        methods["filter"] = plain
    if point in ("normalize_score", "score_nodes"):
        methods["score"] = lambda self, *_: 5
    if point == "pre_bind":
        methods["pre_bind_pre_flight"] = lambda self, *_: SUCCESS
    return type("Odd", (Plugin,), methods)


@pytest.mark.parametrize("misdeed", MISDEEDS.values(), ids=MISDEEDS)
@pytest.mark.parametrize("point", POINTS)
def test_others_are_placed_before_and_after(point: str, misdeed: Callable[..., Any]) -> None:
    plugin = odd_plugin(point, misdeed)
    configuration = CONFIGURATION + (BINDING_FIRST if point == "bind" else "")

    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        scheduler = Scheduler(
            api,
            clock,
            configuration=load_configuration(configuration),
            out_of_tree_registry={"Odd": plugin},
            seed=1,
        )

        async def is_bound(name: str) -> bool:
            return bool((await api.get(Pod, name, "default")).spec.node_name)

        async def add_pod(name: str, **more: Any) -> None:
            await api.create(fresh(make_pod(name, images=["i"], **more)))

        async with running(scheduler):
            await api.create(fresh(make_node("n0", cpu="8")))
            await api.create(fresh(make_node("n1", cpu="8")))
            for number in range(3):
                await add_pod(f"odd{number}", scheduler_name="odd")
            await add_pod("impossible", scheduler_name="odd", requests={"cpu": "64"})
            await add_pod("first")
            await asyncio.sleep(20)
            await api.create(fresh(make_node("n2", cpu="8")))
            node = await api.get(Node, "n2")
            assert node.metadata.name == "n2"
            await add_pod("second", requests={"cpu": "7"})
            await asyncio.sleep(20)
            assert await is_bound("first")
            assert await is_bound("second")
            assert scheduler.queue.check_invariants() is None
            assert scheduler.cache.assumed_count == 0

    virtual_loop.run(main, seed=1)
