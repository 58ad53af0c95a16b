"""Plugins that return wrong values or raise any exception fail one attempt of one pod."""

from __future__ import annotations

import asyncio
import math
import random
import signal
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    EventResource,
    Nominating,
    NominatingMode,
    OnlyNodes,
    Plugin,
    PodPart,
    PodsOnNode,
    PostFilterResult,
    Reads,
    Rejections,
    Status,
    Wait,
)
from kubesched.scheduler.config import load_configuration
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.scheduler.hostile_object_harness import fresh

NODE_ALONE = Reads(
    pod=PodPart.LABELS, pods_on_node=PodsOnNode.TOTALS, other_nodes=False, objects=()
)
NO = Status.unschedulable("no")
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
QUEUE_SORT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: &plugins
    queueSort:
      disabled: [{name: PrioritySort}]
      enabled: [{name: Odd}]
- schedulerName: odd
  plugins: *plugins
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


class OwnError(BaseException):
    """As some test frameworks have them."""


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raising(error: BaseException) -> Callable[..., Any]:
    def misdeed(*_: Any) -> Any:
        raise error

    return misdeed


def answering(answer: Any) -> Callable[..., Any]:
    return lambda *_: answer


class Uncomparable:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __lt__ = __bool__ = __int__ = __index__ = __iter__ = fails


MISDEEDS: dict[str, Callable[..., Any]] = {
    "forgets to return": lambda *_: None,
    "answers with a number": lambda *_: 5,
    "answers with a text": lambda *_: "yes",
    "raises": fails,
    "exits": exits,
    "cancels": cancels,
}
MORE: dict[str, Callable[..., Any]] = {
    **MISDEEDS,
    "interrupts": raising(KeyboardInterrupt()),
    "raises no Exception": raising(OwnError("own")),
    "raises what has no text": raising(MuteError()),
    "stops an iteration": raising(StopIteration()),
    "ends a generator": raising(GeneratorExit()),
    "has a number for a reason": answering(Status(Code.UNSCHEDULABLE, (5,))),  # type: ignore[arg-type]
    "has no reasons": answering(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, None)),  # type: ignore[arg-type]
    "has a number for a code": answering(Status(2)),  # type: ignore[arg-type]
    "has a code of elsewhere": answering(Status(Code.WAIT)),
    "has half a character": answering(Status(Code.UNSCHEDULABLE, ("\ud800",))),
    "says very much": answering(Status(Code.ERROR, ("x" * 200_000,))),
    "has a text for an error": answering(Status(Code.ERROR, (), "no")),  # type: ignore[arg-type]
    "is not a number": answering(math.nan),
    "is endless": answering(math.inf),
    "is beyond 64 bits": answering(2**80),
    "is a number of numpy": answering(np.float32(7.5)),
    "is a matrix": answering(np.ones((2, 2))),
    "is another number of nodes": answering(Rejections(np.ones(99, np.uint8), (NO,))),
    "has no such status": answering(Rejections(np.full(2, 9, np.uint8), (NO,))),
    "has statuses that are none": answering(Rejections(np.ones(2, np.uint8), ("no",))),  # type: ignore[arg-type]
    "names numbers as nodes": answering(OnlyNodes(5)),  # type: ignore[arg-type]
    "nominates a number": answering(PostFilterResult(SUCCESS, 5)),  # type: ignore[arg-type]
    "nominates to a number": answering(
        PostFilterResult(NO, Nominating(NominatingMode.OVERRIDE, 5))  # type: ignore[arg-type]
    ),
    "waits without end": answering(Wait(10**400, ())),
    "waits for nothing": answering(Wait(-1, None)),  # type: ignore[arg-type]
    "cannot be compared": answering(Uncomparable()),
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
    "concerns",
    "uniform_score",
    "cache_version",
    "add_pod",
    "remove_pod",
    "ignores",
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
    if point in ("add_pod", "remove_pod", "ignores"):
        methods["filter"] = lambda self, *_: SUCCESS
    if point == "concerns":
        methods["pre_filter"] = lambda self, *_: SUCCESS
    if point in ("uniform_score", "cache_version"):
        methods["score"] = lambda self, *_: 5
        methods["reads"] = NODE_ALONE
    if point == "close":
        methods["filter"] = lambda self, *_: SUCCESS
    if point == "pre_bind":
        methods["pre_bind_pre_flight"] = lambda self, *_: SUCCESS
    return type("Odd", (Plugin,), methods)


@pytest.fixture(autouse=True)
def process_that_handles_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.SIG_IGN)


@pytest.mark.parametrize("misdeed", MISDEEDS.values(), ids=MISDEEDS)
@pytest.mark.parametrize("point", POINTS[:17])
def test_other_pods_are_placed_before_and_after(point: str, misdeed: Callable[..., Any]) -> None:
    configuration = CONFIGURATION + (BINDING_FIRST if point == "bind" else "")
    live_with({"Odd": odd_plugin(point, misdeed)}, configuration)


@pytest.mark.parametrize("point", [*POINTS, "close"])
def test_hostile_plugin_results_and_exceptions_are_handled(point: str) -> None:
    """Return one profile per plugin, so that all are tried in one run."""
    plugins = {f"Odd{number}": odd_plugin(point, each) for number, each in enumerate(MORE.values())}
    configuration = CONFIGURATION.partition("- schedulerName: odd")[0]
    for name in plugins:
        configuration += f"""
- schedulerName: {name.lower()}
  plugins:
    multiPoint:
      enabled: [{{name: {name}}}]
"""
        if point == "bind":
            configuration += BINDING_FIRST.replace("Odd", name)
    live_with(plugins, configuration)


@pytest.mark.parametrize("misdeed", MORE.values(), ids=MORE)
def test_a_queue_without_order_loses_no_pod(misdeed: Callable[..., Any]) -> None:
    keys = [misdeed, lambda *_: (1, "a"), misdeed, lambda *_: {}]

    def sort_key(self: Plugin, queued: Any) -> Any:
        return keys[sum(map(ord, queued.pod.metadata.name)) % len(keys)](queued)

    plugin = type("Odd", (Plugin,), {"name": "Odd", "sort_key": sort_key})
    live_with({"Odd": plugin}, QUEUE_SORT)


def live_with(plugins: Mapping[str, type[Plugin]], configuration: str) -> None:
    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        scheduler = Scheduler(
            api,
            clock,
            configuration=load_configuration(configuration),
            out_of_tree_registry=plugins,
            seed=1,
        )

        async def is_bound(name: str) -> bool:
            return bool((await api.get(Pod, name, "default")).spec.node_name)

        async def add_pod(name: str, **more: Any) -> None:
            await api.create(fresh(make_pod(name, images=["i"], **more)))

        async with running(scheduler):
            await api.create(fresh(make_node("n0", cpu="8")))
            await api.create(fresh(make_node("n1", cpu="8")))
            for name in map(str.lower, plugins):
                for number in range(3 if len(plugins) == 1 else 1):
                    await add_pod(f"{name}-{number}", scheduler_name=name)
                await add_pod(f"impossible-{name}", scheduler_name=name, requests={"cpu": "64"})
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
            waiting = len(list(scheduler.services.waiting_pods))
            assert scheduler.cache.assumed_count == waiting

    virtual_loop.run(main, seed=1)
