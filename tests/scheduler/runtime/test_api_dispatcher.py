"""API calls outside the scheduling loop (docs/reference/04 §20.1), on the virtual clock."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kubesched.api import Pod, PodCondition
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.framework import BackgroundCall, BackgroundCallOutcome, BackgroundCallResult
from kubesched.framework.pod_calls import PodBindingCall, PodStatusPatchCall
from kubesched.framework.pod_status_writer import PodStatusWriter
from kubesched.framework.status import SUCCESS
from kubesched.framework.status_writes import StatusWrites
from kubesched.scheduler.plugins.default_binder import DefaultBinder
from kubesched.scheduler.runtime.api_dispatcher import BackgroundApiDispatcher
from kubesched.testing import FakeApi, FakeHandle, FakeObjects, make_pod

EXECUTED = BackgroundCallResult(BackgroundCallOutcome.EXECUTED)
SKIPPED = BackgroundCallResult(BackgroundCallOutcome.SKIPPED)
OVERWRITTEN = BackgroundCallResult(BackgroundCallOutcome.OVERWRITTEN)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return virtual_loop.run(work)


class SlowCall(BackgroundCall):
    """A call that takes a second and notes when it begins and ends."""

    call_type, relevance = "slow", 1

    def __init__(self, uid: str, name: str, log: list[str], *, is_nothing: bool = False) -> None:
        self._uid, self.name, self.log = uid, name, log
        self.is_nothing = is_nothing
        self.error: ApiError | None = None
        self.merged: list[str] = []

    @property
    def uid(self) -> str:
        return self._uid

    async def execute(self, api: Any) -> None:
        self.log.append(f"begin {self.name}")
        await asyncio.sleep(1)
        self.log.append(f"end {self.name}")
        if self.error is not None:
            raise self.error

    def merge(self, older: BackgroundCall) -> None:
        assert isinstance(older, SlowCall)
        self.merged.append(older.name)

    def is_no_op(self) -> bool:
        return self.is_nothing

    def sync(self, pod: Pod) -> None:
        self.is_nothing = pod.metadata.name == "done"


class UrgentCall(SlowCall):
    call_type, relevance = "urgent", 2


class DispatcherHarness:
    def __init__(self, limit: int = 16, api: Any = None) -> None:
        self.log: list[str] = []
        self.metrics = SchedulerMetrics(CollectorRegistry(), async_api_calls=True)
        self.tasks = BackgroundTasks()
        clock = current_clock()
        self.dispatcher = BackgroundApiDispatcher(
            api, self.metrics, self.tasks.spawn, clock.monotonic_ns, limit
        )

    def slow(self, uid: str, name: str, **more: Any) -> asyncio.Future[BackgroundCallResult]:
        return self.dispatcher.add(SlowCall(uid, name, self.log, **more))

    def urgent(self, uid: str, name: str) -> asyncio.Future[BackgroundCallResult]:
        return self.dispatcher.add(UrgentCall(uid, name, self.log))

    def pending(self) -> dict[str, int]:
        gauge = self.metrics.pending_async_api_calls
        assert gauge is not None
        return {labels["call_type"]: int(each.value) for labels, each in gauge.children()}

    def counts(self) -> dict[tuple[str, str], int]:
        total = self.metrics.async_api_call_execution_total
        assert total is not None
        return {
            (labels["call_type"], labels["result"]): int(each.value)
            for labels, each in total.children()
        }


def test_objects_are_served_together_and_one_after_another_beyond_the_limit() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=2)
        results = [harness.slow(uid, uid) for uid in "abc"]
        assert harness.pending() == {"slow": 1}
        assert await asyncio.gather(*results) == [EXECUTED] * 3
        assert harness.log == ["begin a", "begin b", "end a", "end b", "begin c", "end c"]
        assert harness.pending() == {"slow": 0}
        assert harness.counts() == {("slow", "success"): 3}

    run(scenario())


def test_a_less_relevant_call_is_skipped_while_a_more_relevant_one_waits_or_runs() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=1)
        first = harness.slow("other", "other")
        waiting = harness.urgent("a", "binding")
        assert await harness.slow("a", "patch") == SKIPPED
        await first
        await asyncio.sleep(0)
        assert harness.log[-1] == "begin binding"
        assert await harness.slow("a", "patch") == SKIPPED
        assert await waiting == EXECUTED

    run(scenario())


def test_a_more_relevant_call_replaces_the_waiting_one_in_its_place() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=1)
        harness.slow("other", "other")
        patch = harness.slow("a", "patch")
        last = harness.slow("b", "last")
        binding = harness.urgent("a", "binding")
        assert await patch == OVERWRITTEN
        assert await binding == EXECUTED
        await last
        assert [line for line in harness.log if line.startswith("begin")] == [
            "begin other",
            "begin binding",
            "begin last",
        ]

    run(scenario())


def test_a_more_relevant_call_runs_after_the_one_in_flight() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness()
        patch = harness.slow("a", "patch")
        await asyncio.sleep(0.5)
        binding = harness.urgent("a", "binding")
        assert (await patch, await binding) == (EXECUTED, EXECUTED)
        assert harness.log == ["begin patch", "end patch", "begin binding", "end binding"]

    run(scenario())


def test_calls_of_a_type_are_merged() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=1)
        harness.slow("other", "other")
        old, new = SlowCall("a", "old", harness.log), SlowCall("a", "new", harness.log)
        first, second = harness.dispatcher.add(old), harness.dispatcher.add(new)
        assert await first == OVERWRITTEN
        assert new.merged == ["old"]
        assert await second == EXECUTED
        assert "begin old" not in harness.log

    run(scenario())


def test_a_call_that_cancels_a_waiting_call_is_skipped() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=1)
        other = harness.slow("other", "other")
        waiting = harness.slow("a", "patch")
        assert await harness.slow("a", "nothing", is_nothing=True) == SKIPPED
        assert await waiting == OVERWRITTEN
        await other
        assert harness.pending() == {"slow": 0}

    run(scenario())


def test_a_waiting_call_that_the_object_has_overtaken_is_dropped() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness(limit=1)
        other = harness.slow("other", "other")
        waiting = harness.slow("a", "patch")
        harness.dispatcher.sync(make_pod("unrelated", uid="b"))
        harness.dispatcher.sync(make_pod("pending", uid="a"))
        assert not waiting.done()
        harness.dispatcher.sync(make_pod("done", uid="a"))
        assert await waiting == SKIPPED
        await other

    run(scenario())


def test_a_failed_call_is_counted_and_the_next_one_runs() -> None:
    async def scenario() -> None:
        harness = DispatcherHarness()
        call = SlowCall("a", "patch", harness.log)
        call.error = ApiError(ApiStatus(code=503, reason="ServiceUnavailable"))
        failed = harness.dispatcher.add(call)
        await asyncio.sleep(0.5)
        later = harness.urgent("a", "binding")
        result = await failed
        assert (result.outcome, result.error) == (BackgroundCallOutcome.EXECUTED, call.error)
        assert await later == EXECUTED
        assert harness.counts() == {("slow", "error"): 1, ("urgent", "success"): 1}

    run(scenario())


UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")


def test_a_status_patch_inherits_what_it_does_not_set() -> None:
    async def scenario() -> None:
        pod = make_pod("p")
        objects = FakeObjects([pod])
        api = FakeApi(objects)
        harness = DispatcherHarness(limit=1, api=api)
        writer = PodStatusWriter(
            api, current_clock(), random.Random(0), StatusWrites(objects.lister)
        )
        harness.slow("other", "other")
        first = harness.dispatcher.add(PodStatusPatchCall(writer, pod, UNSCHEDULABLE, "n1"))
        second = harness.dispatcher.add(PodStatusPatchCall(writer, pod, None, "n2"))
        assert await first == OVERWRITTEN
        assert await second == EXECUTED
        patched = objects.get(Pod, "p", "default")
        assert patched is not None
        assert patched.status.nominated_node_name == "n2"
        assert [each.reason for each in patched.status.conditions] == ["Unschedulable"]

    run(scenario())


def test_a_status_patch_that_the_pod_has_already_is_skipped() -> None:
    async def scenario() -> None:
        pod = make_pod("p")
        pod = replace(pod, status=replace(pod.status, conditions=(UNSCHEDULABLE,)))
        harness = DispatcherHarness()
        objects = FakeObjects([pod])
        writer = PodStatusWriter(
            FakeApi(objects), current_clock(), random.Random(0), StatusWrites(objects.lister)
        )
        call = PodStatusPatchCall(writer, pod, UNSCHEDULABLE, "")
        assert await harness.dispatcher.add(call) == SKIPPED

    run(scenario())


def test_the_default_binder_waits_for_its_call() -> None:
    async def scenario() -> None:
        pod = make_pod("p")
        handle = FakeHandle([pod])
        harness = DispatcherHarness(api=handle.api)
        handle.api_dispatcher = harness.dispatcher
        status = await DefaultBinder(None, handle).bind(None, pod, "n1")  # type: ignore[arg-type]
        assert status == SUCCESS
        bound = handle.objects.get(Pod, "p", "default")
        assert bound is not None
        assert bound.spec.node_name == "n1"
        assert harness.counts() == {("pod_binding", "success"): 1}
        gone = make_pod("gone")
        refused = await DefaultBinder(None, handle).bind(None, gone, "n1")  # type: ignore[arg-type]
        assert refused.error is not None
        assert PodBindingCall(pod, "n1").uid == pod.metadata.uid

    run(scenario())
