"""Reserve to PostBind: docs/reference/04 §8.3, §8.5, §8.6 on the virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kubesched.api import Pod
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MINUTE, SECOND
from kubesched.framework import SKIP, SUCCESS, Code, CycleState, Plugin, Status, Wait
from kubesched.scheduler.config.types import KubeSchedulerProfile, PluginRef, Plugins, PluginSet
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.waiting_pods import PodInPreBindEntry
from kubesched.testing import make_node, make_pod
from tests.support import Order, PluginHarness, plugin_class

POD = make_pod("p", node_name="n")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return virtual_loop.run(work)


def harness(*plugins: type[Plugin]) -> PluginHarness:
    return PluginHarness(*plugins, nodes=[make_node("n")])


def waiting_plugin(name: str, timeout_ns: int) -> type[Plugin]:
    return plugin_class(name, permit=lambda *_: Wait(timeout_ns))


# -- Reserve ---------------------------------------------------------------------------


def test_unreserve_runs_in_reverse_and_also_for_plugins_that_were_not_reached() -> None:
    calls: list[str] = []

    def noting(name: str, status: Status) -> type[Plugin]:
        return plugin_class(
            name,
            reserve=lambda *_: calls.append(f"reserve {name}") or status,
            unreserve=lambda *_: calls.append(f"unreserve {name}"),
        )

    points = harness(
        noting("A", SUCCESS), noting("B", Status.unschedulable("r")), noting("C", SUCCESS)
    ).framework.binding
    status = points.run_reserve(CycleState(), POD, "n")
    assert (status.code, status.plugin, status.message) == (Code.UNSCHEDULABLE, "B", "r")
    points.run_unreserve(CycleState(), POD, "n")
    assert calls == ["reserve A", "reserve B", "unreserve C", "unreserve B", "unreserve A"]


def test_an_exception_in_unreserve_does_not_skip_the_other_plugins() -> None:
    calls: list[str] = []
    bad = plugin_class("Bad", unreserve=lambda *_: 1 / 0)
    good = plugin_class("Good", unreserve=lambda *_: calls.append("good"))
    harness(good, bad).framework.binding.run_unreserve(CycleState(), POD, "n")
    assert calls == ["good"]


# -- Permit ----------------------------------------------------------------------------


async def permit_outcome(points: Any) -> tuple[Status, Status, float]:
    """Return Permit's status, the outcome of the wait, and its duration in seconds."""
    said = points.run_permit(CycleState(), POD, "n")
    started = asyncio.get_running_loop().time()
    ended = await points.wait_on_permit(POD)
    return said, ended, asyncio.get_running_loop().time() - started


def test_a_wait_is_cut_at_fifteen_minutes_and_times_out() -> None:
    points = harness(waiting_plugin("P", 20 * MINUTE)).framework.binding
    said, ended, seconds = run(permit_outcome(points))
    assert said.code is Code.WAIT
    assert seconds == 15 * 60
    assert ended.message == "rejected due to timeout after waiting 15m0s at plugin P"
    assert (ended.code, ended.plugin) == (Code.UNSCHEDULABLE, "P")


def test_a_pod_allowed_by_one_of_two_plugins_times_out_at_the_other() -> None:
    async def scenario() -> Status:
        made = harness(waiting_plugin("A", 10 * SECOND), waiting_plugin("B", 60 * SECOND))
        outcome = asyncio.create_task(permit_outcome(made.framework.binding))
        await asyncio.sleep(5)
        entry = made.framework.waiting_pod(POD.metadata.uid)
        assert entry is not None
        assert set(entry.pending_plugins) == {"A", "B"}
        entry.allow("A")
        entry.allow("stranger")
        _, ended, _ = await outcome
        return ended

    ended = run(scenario())
    assert ended.plugin == "B"
    assert ended.message == "rejected due to timeout after waiting 1m0s at plugin B"


def test_an_allowed_pod_cannot_be_rejected_any_more() -> None:
    async def scenario() -> tuple[bool, Status]:
        made = harness(waiting_plugin("A", 10 * SECOND))
        outcome = asyncio.create_task(permit_outcome(made.framework.binding))
        await asyncio.sleep(1)
        entry = made.framework.waiting_pod(POD.metadata.uid)
        assert entry is not None
        entry.allow("A")
        rejected = entry.reject("A", "too late")
        _, ended, _ = await outcome
        assert made.framework.waiting_pod(POD.metadata.uid) is None
        return rejected, ended

    assert run(scenario()) == (False, SUCCESS)


def test_a_preempted_waiting_pod_ends_in_an_error() -> None:
    async def scenario() -> Status:
        made = harness(waiting_plugin("A", 10 * SECOND))
        outcome = asyncio.create_task(permit_outcome(made.framework.binding))
        await asyncio.sleep(1)
        entry = made.framework.waiting_pod(POD.metadata.uid)
        assert entry is not None
        assert entry.preempt("DefaultPreemption", "preempted")
        return (await outcome)[1]

    ended = run(scenario())
    assert (ended.code, ended.message) == (Code.ERROR, "waiting on permit for pod: preempted")


def test_a_rejecting_permit_stops_the_later_ones() -> None:
    called: list[str] = []
    no = plugin_class("No", permit=lambda *_: Status.unschedulable("rejected on permit"))
    later = plugin_class("Later", permit=lambda *_: called.append("later") or SUCCESS)
    status = harness(no, later).framework.binding.run_permit(CycleState(), POD, "n")
    assert (status.plugin, status.message, called) == ("No", "rejected on permit", [])


# -- PreBind ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "want", "message"),
    [
        ([], Code.SKIP, ""),
        ([SKIP, SKIP], Code.SKIP, ""),
        ([SKIP, SUCCESS], Code.SUCCESS, ""),
        (
            [Status.unschedulable("no")],
            Code.ERROR,
            'PreBindPreFlight P0 returned "Unschedulable", which is unsupported. '
            "It is supposed to return Success, Skip, or Error status",
        ),
        ([Status.failure("broken")], Code.ERROR, 'running PreBindPreFlight "P0": broken'),
    ],
    ids=["no plugin", "all skip", "one has work", "a rejection is not allowed", "an error"],
)
def test_pre_flight(answers: list[Status], want: Code, message: str) -> None:
    async def pre_bind(*_: Any) -> Status:
        return SUCCESS

    plugins = [
        plugin_class(f"P{number}", pre_bind=pre_bind, pre_bind_pre_flight=lambda *_, a=status: a)
        for number, status in enumerate(answers)
    ]
    status = harness(*plugins).framework.binding.run_pre_bind_pre_flight(CycleState(), POD, "n")
    assert (status.code, status.message) == (want, message)


def test_neighbours_that_allow_it_pre_bind_together() -> None:
    spans: dict[str, tuple[float, float]] = {}

    def working(name: str, parallel: bool) -> type[Plugin]:
        class Working(Plugin):
            pre_bind_in_parallel = parallel

            async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
                start = asyncio.get_running_loop().time()
                await asyncio.sleep(10)
                spans[name] = (start, asyncio.get_running_loop().time())
                return SUCCESS

        Working.name = name
        return Working

    plugins = [
        working("p1", False),
        working("p2", True),
        working("p3", False),
        working("p4", True),
        working("p5", True),
        working("p6", True),
        working("p7", False),
    ]

    async def scenario() -> Status:
        state = CycleState()
        state.skip_pre_bind = {"p3", "p5"}
        return await harness(*plugins).framework.binding.run_pre_bind(state, POD, "n")

    assert run(scenario()) is SUCCESS
    assert spans == {
        "p1": (0, 10),
        "p2": (10, 20),
        "p4": (20, 30),
        "p6": (20, 30),
        "p7": (30, 40),
    }


def test_the_first_failure_cancels_its_group_and_ends_pre_bind() -> None:
    ended: list[str] = []

    def working(name: str, seconds: float, status: Status) -> type[Plugin]:
        class Working(Plugin):
            pre_bind_in_parallel = True

            async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
                await asyncio.sleep(seconds)
                ended.append(name)
                return status

        Working.name = name
        return Working

    made = harness(
        working("slow", 60, SUCCESS), working("failing", 5, Status.unschedulable("no room"))
    )
    status = run(made.framework.binding.run_pre_bind(CycleState(), POD, "n"))
    assert (status.code, status.plugin, status.message) == (
        Code.UNSCHEDULABLE,
        "failing",
        "no room",
    )
    assert ended == ["failing"]


def test_a_pod_cancelled_in_pre_bind_fails_with_the_reason() -> None:
    async def endless(*_: Any) -> Status:
        await asyncio.sleep(3600)
        return SUCCESS

    made = harness(plugin_class("Endless", pre_bind=endless))

    async def scenario() -> Status:
        async def binding() -> Status:
            task = asyncio.current_task()
            assert task is not None
            entries.append(PodInPreBindEntry(POD, task))
            return await made.framework.binding.run_pre_bind(CycleState(), POD, "n", entries[0])

        entries: list[PodInPreBindEntry] = []
        task = asyncio.create_task(binding())
        await asyncio.sleep(1)
        assert entries[0].cancel("preempted by Important")
        assert entries[0].cancel("again")
        status = await task
        assert not entries[0].mark_prebound()
        return status

    status = run(scenario())
    assert status.code is Code.ERROR
    assert status.message == 'running PreBind plugin "Endless": preempted by Important'


# -- Bind ------------------------------------------------------------------------------


def test_bind_plugins_run_until_one_does_not_skip() -> None:
    calls: list[str] = []

    def binder(name: str, status: Status) -> type[Plugin]:
        async def bind(*_: Any) -> Status:
            calls.append(name)
            return status

        return plugin_class(name, bind=bind)

    classes = [Order, binder("A", SKIP), binder("B", Status.failure("down")), binder("C", SUCCESS)]
    profile = KubeSchedulerProfile(
        scheduler_name="s",
        plugins=Plugins(multi_point=PluginSet(enabled=tuple(PluginRef(c.name) for c in classes))),
    )
    framework = Framework(profile, {c.name: c for c in classes}, harness().services)
    status = run(framework.binding.run_bind(CycleState(), POD, "n"))
    assert calls == ["A", "B"]
    assert (status.code, status.message) == (Code.ERROR, 'running Bind plugin "B": down')
