from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kubesched.api.access import ApiAccess
from kubesched.api.events import Event, EventSeries
from kubesched.api.meta import ObjectMeta
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.foundation.client.event_recorder import (
    EventBroadcaster,
    EventsV1Recorder,
    truncate_note,
)
from kubesched.foundation.util.clock import MINUTE, SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.foundation.client.fake_api_server import failure

START_NS = 1_794_726_659_350_715_123


class FakeEventSink:
    """The events API: stores events, notes requests with their time, fails on demand."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, str], Event] = {}
        self.requests: list[tuple[str, int, Any]] = []
        self.failures: list[int] = []
        self.delay_s = 0.01

    @property
    def access(self) -> ApiAccess:
        return cast("ApiAccess", self)

    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.requests]

    async def create(self, new: Event) -> Event:
        await self._request("create", new)
        key = (new.metadata.namespace, new.metadata.name)
        if key in self.events:
            raise failure(409)
        self.events[key] = new
        return new

    async def patch(
        self, kind: type[Event], name: str, namespace: str, patch: Mapping[str, Any], **_: Any
    ) -> Event:
        await self._request("patch", patch)
        if (namespace, name) not in self.events:
            raise failure(404)
        old = self.events[namespace, name]
        series = msgspec.convert(patch["series"], EventSeries)
        self.events[namespace, name] = msgspec.structs.replace(old, series=series)
        return self.events[namespace, name]

    async def _request(self, verb: str, body: Any) -> None:
        self.requests.append((verb, current_clock().monotonic_ns(), body))
        await asyncio.sleep(self.delay_s)
        if self.failures:
            code = self.failures.pop(0)
            if code >= 0:
                raise failure(code)


def make_pod(name: str = "fits", version: str = "95168") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace="default", uid="104ac9b9", resource_version=version
        )
    )


SpecSteps = Callable[[FakeEventSink, EventBroadcaster, EventsV1Recorder], Awaitable[None]]


def run_steps(steps: SpecSteps) -> FakeEventSink:
    async def main() -> FakeEventSink:
        sink = FakeEventSink()
        broadcaster = EventBroadcaster(sink.access, current_clock(), random.Random(1))
        async with running(broadcaster):
            await steps(sink, broadcaster, broadcaster.recorder("default-scheduler", "vm"))
        return sink

    return run(main, start_ns=START_NS)


def failed(recorder: EventsV1Recorder, pod: Pod | None = None, note: str = "no nodes") -> None:
    recorder.event(pod or make_pod(), "Warning", "FailedScheduling", "Scheduling", note)


def test_an_event_equals_that_of_the_reference(goldens: Path) -> None:
    recorded = json.loads((goldens / "api" / "events.json").read_text())["items"][0]

    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        regarding = recorded["regarding"]
        pod = Pod(
            metadata=ObjectMeta(
                name=regarding["name"],
                namespace=regarding["namespace"],
                uid=regarding["uid"],
                resource_version=regarding["resourceVersion"],
            )
        )
        recorder.event(
            pod, recorded["type"], recorded["reason"], recorded["action"], recorded["note"]
        )
        await asyncio.sleep(1)

    sink = run_steps(steps)
    [event] = sink.events.values()
    ours = json.loads(msgspec.json.encode(event))
    # What the server adds, and what depends on when it happened.
    for server_side in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedSource"):
        del recorded[server_side]
    for type_side in ("apiVersion", "kind"):
        del recorded[type_side]
    theirs_metadata, ours_metadata = recorded.pop("metadata"), ours.pop("metadata")
    their_time, our_time = recorded.pop("eventTime"), ours.pop("eventTime")
    assert ours == recorded
    pattern = re.compile(r"fits\.[0-9a-f]{16}")
    assert pattern.fullmatch(theirs_metadata["name"])
    assert pattern.fullmatch(ours_metadata["name"])
    assert int(ours_metadata["name"].removeprefix("fits."), 16) == START_NS
    assert ours_metadata["namespace"] == theirs_metadata["namespace"]
    shape = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
    assert shape.fullmatch(their_time)
    assert shape.fullmatch(our_time)


def test_recording_an_event_sends_no_request() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        failed(recorder)
        assert sink.requests == []
        await asyncio.sleep(1)
        assert sink.verbs() == ["create"]

    run_steps(steps)


def test_events_about_cluster_scoped_objects_are_in_the_default_namespace() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        node = Node(metadata=ObjectMeta(name="n1"))
        recorder.event(make_pod(), "Normal", "Preempted", "Preempting", "by x", related=node)
        recorder.event(node, "Normal", "R", "A", "note")
        await asyncio.sleep(1)

    sink = run_steps(steps)
    preempted, about_node = sink.events.values()
    assert preempted.related is not None
    assert (preempted.related.kind, preempted.related.api_version) == ("Node", "v1")
    assert about_node.metadata.namespace == "default"
    assert about_node.regarding.namespace == ""


def test_an_unknown_type_is_refused() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        recorder.event(make_pod(), "Info", "R", "A", "note")
        await asyncio.sleep(1)
        assert sink.requests == []

    run_steps(steps)


def test_notes_pass_through_gos_printf() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        failed(recorder, note="disk 90% full")
        await asyncio.sleep(1)

    [event] = run_steps(steps).events.values()
    assert event.note == "disk 90%!f(MISSING)ull"


def test_a_name_that_would_be_invalid_becomes_a_uuid() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        for name in ("Not_A_Name", "x" * 250):
            failed(recorder, make_pod(name))
        await asyncio.sleep(1)

    names = [event.metadata.name for event in run_steps(steps).events.values()]
    assert [str(uuid.UUID(name)) for name in names] == names
    assert [uuid.UUID(name).version for name in names] == [4, 4]


def test_events_of_one_instant_have_names_of_their_own() -> None:
    async def steps(sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder) -> None:
        for reason in ("A", "B", "C"):
            recorder.event(make_pod(), "Normal", reason, "Binding", "note")
        await asyncio.sleep(1)

    assert len(run_steps(steps).events) == 3


class TestSeries:
    def test_the_second_event_makes_a_series_of_two_and_retains_the_first_note(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            failed(recorder, note="first")
            await asyncio.sleep(5)
            failed(recorder, note="second")
            await asyncio.sleep(5)
            assert sink.verbs() == ["create", "patch"]
            [event] = sink.events.values()
            assert event.note == "first"
            assert event.series is not None
            assert event.series.count == 2
            body = sink.requests[1][2]
            assert set(body) == {"series"}
            assert set(body["series"]) == {"count", "lastObservedTime"}

        run_steps(steps)

    def test_a_patch_waits_for_the_creation_under_way(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            await asyncio.sleep(1)  # past the refresh at the start
            sink.delay_s = 2
            failed(recorder)
            failed(recorder)
            await asyncio.sleep(10)
            assert sink.verbs() == ["create", "patch"]
            assert sink.requests[1][1] - sink.requests[0][1] >= 2 * SECOND

        run_steps(steps)

    def test_further_events_only_count_until_the_refresh(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            for _ in range(10):
                failed(recorder)
                await asyncio.sleep(180)
            # Half an hour has passed; the refresh at its end sends the count.
            await asyncio.sleep(1)
            assert sink.verbs() == ["create", "patch", "patch"]
            [event] = sink.events.values()
            assert event.series is not None
            assert event.series.count == 10

        run_steps(steps)

    def test_an_ended_series_is_sent_a_last_time_and_evicted(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            for _ in range(3):
                failed(recorder)
                await asyncio.sleep(1)
            await asyncio.sleep(13 * 60)
            assert sink.verbs() == ["create", "patch", "patch"]
            assert sink.requests[-1][2]["series"]["count"] == 3
            failed(recorder)
            await asyncio.sleep(1)
            assert sink.verbs()[-1] == "create"
            assert len(sink.events) == 2

        run_steps(steps)

    def test_a_last_sending_that_fails_is_repeated_at_the_next_round(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            for _ in range(3):
                failed(recorder)
                await asyncio.sleep(1)
            sink.failures = [0]
            await asyncio.sleep(13 * 60)
            assert sink.verbs() == ["create", "patch", "patch"]
            await asyncio.sleep(6 * 60)
            assert sink.verbs() == ["create", "patch", "patch", "patch"]

        run_steps(steps)

    def test_a_series_that_grows_during_its_last_sending_stays_cached(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            for _ in range(3):
                failed(recorder)
                await asyncio.sleep(1)
            sink.delay_s = 20
            await asyncio.sleep(12 * 60)  # the second round looks for series that ended
            assert len(sink.requests) == 3
            failed(recorder)
            await asyncio.sleep(30)
            failed(recorder)
            await asyncio.sleep(30)
            assert sink.verbs() == ["create", "patch", "patch"]
            await asyncio.sleep(12 * 60)
            assert sink.verbs() == ["create", "patch", "patch", "patch"]
            assert sink.requests[-1][2]["series"]["count"] == 5

        run_steps(steps)

    def test_a_single_event_is_evicted_after_six_minutes(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            failed(recorder)
            await asyncio.sleep(13 * 60)
            failed(recorder)
            await asyncio.sleep(1)
            assert sink.verbs() == ["create", "create"]

        run_steps(steps)

    def test_a_change_of_the_object_begins_a_new_event(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            failed(recorder, make_pod(version="1"))
            failed(recorder, make_pod(version="2"))
            recorder.event(make_pod(version="2"), "Warning", "FailedScheduling", "Other", "note")
            await asyncio.sleep(1)
            assert sink.verbs() == ["create"] * 3

        run_steps(steps)

    def test_an_event_deleted_on_the_server_is_recreated_with_its_series(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            failed(recorder)
            await asyncio.sleep(1)
            sink.events.clear()
            failed(recorder)
            await asyncio.sleep(1)
            assert sink.verbs() == ["create", "patch", "create"]
            [event] = sink.events.values()
            assert event.series is not None
            assert event.series.count == 2

        run_steps(steps)

    def test_a_series_whose_event_is_created_concurrently_is_patched_later(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            failed(recorder)
            await asyncio.sleep(1)
            sink.failures = [404, 409]
            failed(recorder)
            await asyncio.sleep(15)
            assert sink.verbs() == ["create", "patch", "create", "patch"]
            assert 10 * SECOND <= sink.requests[3][1] - sink.requests[2][1] <= 12.6 * SECOND

        run_steps(steps)


class TestSending:
    @pytest.mark.parametrize("code", [400, 403, 404, 409, 422, 429, 500])
    def test_events_that_the_server_refuses_are_dropped(self, code: int) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            sink.failures = [code]
            failed(recorder)
            await asyncio.sleep(120)
            assert sink.verbs() == ["create"]

        run_steps(steps)

    def test_an_unreachable_server_is_tried_twelve_times(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            sink.failures = [0] * 100
            failed(recorder)
            await asyncio.sleep(600)
            assert sink.verbs() == ["create"] * 12
            gaps = [b[1] - a[1] for a, b in zip(sink.requests, sink.requests[1:], strict=False)]
            assert all(10 * SECOND <= gap <= 12.6 * SECOND for gap in gaps)
            assert sink.requests[-1][1] < 2.5 * MINUTE

        run_steps(steps)

    def test_a_server_that_comes_back_gets_the_event(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            sink.failures = [0, 0]
            failed(recorder)
            await asyncio.sleep(60)
            assert sink.verbs() == ["create"] * 3
            assert len(sink.events) == 1

        run_steps(steps)

    def test_a_slow_event_does_not_delay_other_events(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            sink.failures = [0]
            for number in range(100):
                failed(recorder, make_pod(f"p{number}"))
            await asyncio.sleep(1)
            assert len(sink.events) == 99

        run_steps(steps)

    def test_drain_waits_for_what_was_recorded(self) -> None:
        async def steps(
            sink: FakeEventSink, b: EventBroadcaster, recorder: EventsV1Recorder
        ) -> None:
            for number in range(100):
                failed(recorder, make_pod(f"p{number}"))
            await b.drain()
            assert len(sink.events) == 100

        run_steps(steps)

    def test_a_full_queue_drops_and_never_blocks(self) -> None:
        async def main() -> int:
            sink = FakeEventSink()
            broadcaster = EventBroadcaster(
                sink.access, current_clock(), random.Random(1), capacity=10
            )
            recorder = broadcaster.recorder("default-scheduler", "vm")
            for number in range(50):
                failed(recorder, make_pod(f"p{number}"))
            async with running(broadcaster):
                await broadcaster.drain()
            return len(sink.events)

        assert run(main) == 10

    def test_queued_events_are_sent_after_stop(self) -> None:
        async def main() -> int:
            sink = FakeEventSink()
            broadcaster = EventBroadcaster(sink.access, current_clock(), random.Random(1))
            async with running(broadcaster):
                recorder = broadcaster.recorder("default-scheduler", "vm")
                for number in range(100):
                    recorder.event(make_pod(f"p{number}"), "Normal", "Scheduled", "Binding", "done")
            return len(sink.events)

        assert run(main) == 100

    def test_events_yield_to_bindings_up_to_a_limit(self) -> None:
        async def main() -> list[float]:
            busy_s = 3.0
            sink = FakeEventSink()
            clock = current_clock()
            began_ns = clock.monotonic_ns()

            def seconds() -> float:
                return (clock.monotonic_ns() - began_ns) / SECOND

            broadcaster = EventBroadcaster(
                sink.access, clock, random.Random(1), is_busy=lambda: seconds() < busy_s
            )
            recorder = broadcaster.recorder("default-scheduler", "vm")
            sent = []
            async with running(broadcaster):
                for name in ("a", "b"):
                    recorder.event(make_pod(name), "Normal", "Scheduled", "Binding", "done")
                await broadcaster.drain()
                sent.append(seconds())
                busy_s = 1000.0
                recorder.event(make_pod("c"), "Normal", "Scheduled", "Binding", "done")
                await broadcaster.drain()
                sent.append(seconds())
                assert len(sink.events) == 3
            return sent

        first, second = run(main)
        assert 3 <= first < 3.1
        assert 13 <= second < 13.2

    def test_dropped_events_are_counted_and_logged_a_few_times(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        heard: list[int] = []

        async def main() -> int:
            broadcaster = EventBroadcaster(
                FakeEventSink().access,
                current_clock(),
                random.Random(1),
                capacity=10,
                on_drop=lambda: heard.append(1),
            )
            recorder = broadcaster.recorder("default-scheduler", "vm")
            for number in range(25):
                recorder.event(make_pod(f"p{number}"), "Normal", "Scheduled", "Binding", "done")
            for _ in range(2):  # repetitions do not fit into the queue either
                recorder.event(make_pod("p0"), "Normal", "Scheduled", "Binding", "done")
            return broadcaster.dropped

        with caplog.at_level(logging.ERROR):
            assert run(main) == len(heard) == 16
        assert len(caplog.records) == 5

    def test_stopping_does_not_wait_for_the_queue(self) -> None:
        async def main() -> float:
            sink = FakeEventSink()
            sink.failures = [0] * 1_000
            broadcaster = EventBroadcaster(sink.access, current_clock(), random.Random(1))
            async with running(broadcaster):
                failed(broadcaster.recorder("default-scheduler", "vm"))
                await asyncio.sleep(1)
            return current_clock().monotonic_ns() / SECOND

        assert run(main) == 1


NOTES = {
    "short notes stay": ("x" * 1024, "x" * 1024),
    "long notes are cut": ("x" * 2000, "x" * 1020 + " ..."),
    "the limit counts bytes": ("é" * 600, "é" * 510 + " ..."),
}


@pytest.mark.parametrize(("note", "want"), NOTES.values(), ids=NOTES)
def test_notes_are_cut_by_bytes(note: str, want: str) -> None:
    assert truncate_note(note) == want
