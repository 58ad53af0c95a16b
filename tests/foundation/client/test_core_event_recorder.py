"""Core events against the embedded API server, on virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from kubesched.api import ApiError, Event, Lease, ObjectMeta, Pod, Status
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster, CoreEventRecorder
from kubesched.foundation.util.clock import MINUTE, SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run

LEASE = Lease(metadata=ObjectMeta(name="kube-scheduler", namespace="kube-system", uid="u"))
POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u", resource_version="1"))


class RecorderHarness:
    def __init__(self) -> None:
        self.requests: list[str] = []
        self.faults: list[Fault] = []

        def note(verb: str, *_: object) -> Fault | None:
            self.requests.append(verb)
            return self.faults.pop(0) if self.faults else None

        store = Store(random.Random(0))
        self.api = LocalApi(store, current_clock())
        self.broadcaster = CoreEventBroadcaster(
            LocalApi(store, current_clock(), faults=note), current_clock(), random.Random(1)
        )
        self.recorder: CoreEventRecorder = self.broadcaster.recorder("default-scheduler", "vm")

    async def events(self) -> list[Event]:
        await asyncio.sleep(1)
        return list((await self.api.list(Event)).items)


def run_steps(steps: Callable[[RecorderHarness], Awaitable[None]]) -> RecorderHarness:
    async def main() -> RecorderHarness:
        harness = RecorderHarness()
        async with running(harness.broadcaster):
            await steps(harness)
        return harness

    return run(main)


def failed(harness: RecorderHarness, message: str) -> None:
    harness.recorder.event(POD, "Warning", "FailedScheduling", "Scheduling", message)


def test_an_event_about_leadership() -> None:
    async def steps(harness: RecorderHarness) -> None:
        harness.recorder.event(LEASE, "Normal", "LeaderElection", "", "me became leader")
        (event,) = await harness.events()
        assert event.metadata.namespace == "kube-system"
        assert event.metadata.name.startswith("kube-scheduler.")
        assert event.involved_object.kind == "Lease"
        assert event.involved_object.api_version == "coordination.k8s.io/v1"
        assert (event.reason, event.message) == ("LeaderElection", "me became leader")
        assert (event.type, event.count) == ("Normal", 1)
        assert (event.source.component, event.source.host) == ("default-scheduler", "")
        assert event.reporting_component == "default-scheduler"
        assert event.reporting_instance == ""
        assert event.first_timestamp == event.last_timestamp

    run_steps(steps)


def test_the_same_event_is_counted() -> None:
    async def steps(harness: RecorderHarness) -> None:
        for _ in range(3):
            failed(harness, "no nodes")
            await asyncio.sleep(60)
        (event,) = await harness.events()
        assert event.count == 3
        assert event.last_timestamp != event.first_timestamp

    assert run_steps(steps).requests == ["create", "patch", "patch"]


def test_a_deleted_counted_event_is_created_again() -> None:
    async def steps(harness: RecorderHarness) -> None:
        failed(harness, "no nodes")
        (event,) = await harness.events()
        await harness.api.delete(Event, event.metadata.name, "default")
        failed(harness, "no nodes")
        (again,) = await harness.events()
        assert (again.count, again.metadata.name) == (2, event.metadata.name)

    run_steps(steps)


def test_the_tenth_message_is_combined_with_those_that_follow() -> None:
    async def steps(harness: RecorderHarness) -> None:
        for number in range(12):
            failed(harness, f"reason {number}")
        events = await harness.events()
        combined = [event for event in events if event.message.startswith("(combined")]
        assert len(events) == 10
        assert [(event.message, event.count) for event in combined] == [
            ("(combined from similar events): reason 11", 3)
        ]

    run_steps(steps)


def test_events_about_one_object_are_rate_limited() -> None:
    async def steps(harness: RecorderHarness) -> None:
        for _ in range(40):
            failed(harness, "no nodes")
        await asyncio.sleep(1)
        assert len(harness.requests) == 25
        await asyncio.sleep(5 * MINUTE // SECOND)
        failed(harness, "no nodes")
        failed(harness, "no nodes")
        await asyncio.sleep(1)
        assert len(harness.requests) == 26

    run_steps(steps)


def test_an_unreachable_server_is_retried_and_a_refusal_is_not() -> None:
    away = Fault(error=ApiError(Status(code=0, message="away")))
    no = Fault(error=ApiError(Status(code=403, reason="Forbidden", message="no")))

    async def steps(harness: RecorderHarness) -> None:
        harness.faults = [away, away]
        failed(harness, "one")
        await asyncio.sleep(30)
        assert harness.requests == ["create"] * 3
        harness.faults = [no]
        failed(harness, "two")
        await asyncio.sleep(30)
        assert harness.requests == ["create"] * 4
        assert len(await harness.events()) == 1

    run_steps(steps)
