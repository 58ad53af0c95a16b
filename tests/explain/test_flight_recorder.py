"""The flight recorder beside a scheduler in virtual time: ring, replay, damage, secrets."""

from __future__ import annotations

import asyncio
import gc
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.time import format_time
from kubesched.dashboard.recording_timeline import timeline_of_recording
from kubesched.explain import Snapshot
from kubesched.explain.recordings.decision_replay import compare_recording, replay_recording
from kubesched.explain.recordings.flight_recorder import FlightRecorder
from kubesched.explain.recordings.past_clusters import capture_at, recorded_changes
from kubesched.explain.recordings.segment_files import (
    MAGIC,
    RecordingError,
    SegmentReader,
    SegmentWriter,
    segments_of,
)
from kubesched.explain.shadow.shadow_entries import AssumedState, ShadowVerdict
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.components import running
from kubesched.testing import make_node, make_pod
from tests.explain.shadow_harness import Churn, ShadowHarness, completed, furnish
from tests.explain.test_shadow import PACKING

GIB = 1 << 30


def record(
    folder: Path,
    *steps: Callable[[ShadowHarness], Any],
    size: int = GIB,
    smallest: int = 256 * 1024,
    seed: int = 0,
) -> None:
    async def main() -> None:
        harness = ShadowHarness(seed)
        recorder = FlightRecorder(
            folder, size, harness.other, harness.clock, smallest_segment=smallest
        )
        async with running(*harness.cluster.parts, harness.other, recorder):
            await harness.other.synced.wait()
            for step in steps:
                await step(harness)
            await asyncio.sleep(10)

    virtual_loop.run(main, seed=seed)


@pytest.fixture(scope="module")
def churned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of churn, with volumes, devices and preemption, in several segments."""
    folder = tmp_path_factory.mktemp("churn")
    record(folder, furnish, Churn(steps=60), size=160_000, smallest=10_000, seed=3)
    return folder


def test_every_decision_is_the_same_to_the_last_byte(tmp_path: Path) -> None:
    record(tmp_path, furnish, Churn(steps=60), seed=2)
    result = replay_recording(tmp_path)
    assert result.difference is None
    assert result.decisions > 100
    assert result.damages == ()


def test_a_ring_begins_each_segment_with_a_snapshot(churned: Path) -> None:
    whole = replay_recording(churned)
    assert whole.difference is None
    paths = segments_of(churned)
    assert len(paths) > 1
    for path in paths:
        first = next(SegmentReader(path).records())
        assert first[0] == "h"


def test_the_oldest_segment_can_be_deleted(churned: Path, tmp_path: Path) -> None:
    for path in segments_of(churned)[1:]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    result = replay_recording(tmp_path)
    assert result.difference is None
    assert result.decisions > 0


def bytes_of(folder: Path) -> int:
    """The bytes of all files of a folder, also of those that are being written."""
    return sum(path.stat().st_size for path in folder.iterdir())


async def one_by_one(harness: ShadowHarness, count: int, sizes: list[int], folder: Path) -> None:
    """Create pods, and note how large the folder is after each."""
    for number in range(count):
        name = f"p{len(sizes)}-{number}"
        await harness.create(make_pod(name, requests={"cpu": "1m"}, images=["x"]))
        await asyncio.sleep(0.25)
        sizes.append(bytes_of(folder))


def test_the_folder_stays_within_its_size(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def pods(harness: ShadowHarness) -> None:
        await one_by_one(harness, 100, sizes, tmp_path)

    record(tmp_path, furnish, Churn(steps=60), pods, size=60_000, smallest=6_000, seed=3)
    assert max(sizes) <= 60_000
    assert segments_of(tmp_path)[0].stem != "00000001"
    assert replay_recording(tmp_path).difference is None


def test_the_folder_stays_within_its_size_if_the_process_restarts_again_and_again(
    tmp_path: Path,
) -> None:
    """None of the processes fills a segment."""
    sizes: list[int] = []

    async def pods(harness: ShadowHarness) -> None:
        await harness.nodes(20)
        await one_by_one(harness, 10, sizes, tmp_path)

    for number in range(20):
        record(tmp_path, pods, size=40_000, smallest=15_000, seed=number)
    assert max(sizes) <= 40_000
    assert segments_of(tmp_path)[-1].stem == "00000020"
    assert len(segments_of(tmp_path)) > 2
    assert replay_recording(tmp_path).difference is None


def test_a_ring_that_is_small_for_its_cluster_does_not_consist_of_snapshots(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sizes: list[int] = []

    async def many_nodes(harness: ShadowHarness) -> None:
        await harness.nodes(300)
        await asyncio.sleep(5)
        await one_by_one(harness, 100, sizes, tmp_path)

    record(tmp_path, many_nodes, size=12_000, smallest=1_000)
    written = int(segments_of(tmp_path)[-1].stem)
    assert written < 10, "a snapshot after every half second"
    assert replay_recording(tmp_path).difference is None
    assert "needs more than --record-size" in caplog.text


def test_a_recorder_that_stops_while_it_writes_a_snapshot_closes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning about an open file fails the test."""

    def has_unfinished_segment() -> bool:
        return any(tmp_path.glob("*.part"))

    monkeypatch.setattr("kubesched.explain.recordings.flight_recorder._SNAPSHOT_STEP", 1)

    async def main() -> None:
        harness = ShadowHarness(0)
        recorder = FlightRecorder(
            tmp_path, 10_000, harness.other, harness.clock, smallest_segment=1_000
        )
        async with running(*harness.cluster.parts, harness.other, recorder):
            await harness.other.synced.wait()
            for number in range(1000):
                await harness.nodes(1, first=number)
                if number % 10 == 0:
                    await asyncio.sleep(0.1)
                if has_unfinished_segment():
                    return
        raise AssertionError("no snapshot was written")

    virtual_loop.run(main)
    gc.collect()
    assert replay_recording(tmp_path).difference is None


def test_a_decision_that_differs_is_named(tmp_path: Path) -> None:
    async def pods(harness: ShadowHarness) -> None:
        await harness.create(make_node("a", cpu="8"), make_node("b", cpu="8"))
        for number in range(3):
            pod = make_pod(f"p{number}", requests={"cpu": "1", "memory": "1Gi"}, images=["x"])
            await harness.create(pod)
            await asyncio.sleep(2)

    record(tmp_path, pods)
    assert replay_recording(tmp_path).difference is None
    found = replay_recording(tmp_path, configuration=completed(PACKING)).difference
    assert found is not None
    assert found.pod == "default/p1"
    assert found.recorded != found.replayed
    report = compare_recording(tmp_path, completed(PACKING))
    assert report.compared == 3
    assert set(report.states) == {AssumedState.RECORDED}
    assert report.verdicts[ShadowVerdict.ANOTHER] >= 1
    assert compare_recording(tmp_path, None).agreed == 1


def test_the_past_is_explained(tmp_path: Path) -> None:
    moments: list[int] = []

    async def actions(harness: ShadowHarness) -> None:
        await harness.create(make_node("a", cpu="1"))
        await harness.create(make_pod("big", requests={"cpu": "4"}, images=["x"]))
        await asyncio.sleep(5)
        moments.append(harness.clock.now_ns())
        await asyncio.sleep(1)
        await harness.create(make_node("b", cpu="8"))
        await asyncio.sleep(5)

    record(tmp_path, actions)
    then = Snapshot.of_capture(capture_at(tmp_path, moments[0])).explain("default/big")
    assert then.verdict == "pending"
    assert "cpu" in then.summary
    now = capture_at(tmp_path, None)
    (pod,) = (each for each in now.objects if isinstance(each, Pod))
    assert pod.spec.node_name == "b"
    with pytest.raises(RecordingError, match="begins at"):
        capture_at(tmp_path, 1)
    assert format_time(moments[0]) in capture_at(tmp_path, moments[0]).taken


def test_changes_have_the_objects_before_and_after(churned: Path) -> None:
    state: dict[Any, Any] = {}
    for change in recorded_changes(churned):
        either = change.after or change.before
        key = (type(either), either.metadata.namespace, either.metadata.name)
        assert state.get(key) == change.before
        state[key] = change.after
    assert any(isinstance(each, Pod) and each.spec.node_name for each in state.values())


def test_the_page_has_a_timeline(churned: Path) -> None:
    timelines = timeline_of_recording(churned)
    (run,) = timelines.outline()["runs"]
    assert run["end"] > run["start"]
    first = timelines.frame({"at": str(run["start"])})
    last = timelines.frame({})
    assert first["totals"]["placed"] == 0
    assert len(last["nodes"]) > 0
    assert last["totals"]["placed"] > 10


def test_no_command_argument_or_other_annotation_is_recorded(tmp_path: Path) -> None:
    async def secretive(harness: ShadowHarness) -> None:
        await harness.nodes(1)
        pod = make_pod("p", images=["registry/x"], annotations={"vault": "hunter2-note"})
        (container,) = pod.spec.containers
        told = replace(
            container,
            command=("run", "hunter2-command"),
            args=("--password=hunter2-arg",),
        )
        await harness.create(replace(pod, spec=replace(pod.spec, containers=(told,))))
        await asyncio.sleep(3)
        found = await harness.api.get(Pod, "p", "default")
        annotations = {**found.metadata.annotations, "vault": "hunter2-later"}
        metadata = replace(found.metadata, annotations=annotations, labels={"a": "b"})
        await harness.api.update(replace(found, metadata=metadata))
        await asyncio.sleep(3)

    record(tmp_path, secretive)
    found = [list(SegmentReader(path).records()) for path in segments_of(tmp_path)]
    text = repr(found)
    assert "registry/x" in text
    assert "hunter2" not in text


@pytest.mark.parametrize("cut", [1, 7, 8, 50, 1000])
def test_a_truncated_segment_is_read_up_to_its_last_whole_frame(
    churned: Path, tmp_path: Path, cut: int
) -> None:
    content = segments_of(churned)[0].read_bytes()
    (tmp_path / "00000001.segment").write_bytes(content[:-cut])
    reader = SegmentReader(tmp_path / "00000001.segment")
    records = sum(1 for _ in reader.records())
    assert records > 0
    assert "ends within a frame at byte" in reader.damage
    assert replay_recording(tmp_path).difference is None


def test_a_changed_byte_ends_a_segment_with_one_line(churned: Path, tmp_path: Path) -> None:
    content = bytearray(segments_of(churned)[0].read_bytes())
    content[len(content) // 2] ^= 1
    path = tmp_path / "00000001.segment"
    path.write_bytes(content)
    result = replay_recording(tmp_path)
    assert result.difference is None
    (damage,) = result.damages
    assert damage.startswith(f"{path}: wrong checksum") or "ends within" in damage


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no segment of a recording"), (b"PK\x03\x04zip file", "no segment of a recording")],
)
def test_a_file_that_is_no_segment_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "00000001.segment").write_bytes(content)
    with pytest.raises(RecordingError, match=message):
        replay_recording(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no segments of a recording"):
        replay_recording(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        zlib.compress(bytes(257 << 20), 9),
        b"no zlib",
        zlib.compress(b"no JSON"),
        zlib.compress(b"5"),
    ],
    ids=["a bomb", "no zlib", "no JSON", "no record"],
)
def test_a_frame_that_cannot_be_read_is_damage(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "00000001.segment"
    head = struct.pack("<II", len(content), zlib.crc32(content))
    path.write_bytes(MAGIC + head + content)
    reader = SegmentReader(path)
    assert list(reader.records()) == []
    assert "invalid frame at byte" in reader.damage


def test_large_objects_are_written_in_several_turns_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods with many labels, in the first snapshot, in a burst, and in the next snapshot."""
    most_bytes, turn = 1 << 20, 0
    by_turn: Counter[int] = Counter()
    write = SegmentWriter.write

    def count(writer: SegmentWriter, lines: Iterable[bytes]) -> None:
        listed = list(lines)
        by_turn[turn] += sum(map(len, listed))
        write(writer, listed)

    monkeypatch.setattr(SegmentWriter, "write", count)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0 if by_turn[turn - 1] else 0.01)

    async def pods(harness: ShadowHarness) -> None:
        counting = asyncio.create_task(count_turns())
        labels = {f"label-{number}": "x" * 60 for number in range(3_000)}
        for number in range(40):
            await harness.create(make_pod(f"p{number}", labels=labels, images=["x"]))
        await asyncio.sleep(10)
        counting.cancel()

    record(tmp_path, pods, size=60_000, smallest=6_000)
    largest_object = 3_000 * 75
    assert sum(by_turn.values()) > 2 * 40 * largest_object, "no snapshot with all pods"
    # One frame of the burst and one of the snapshot may be written in the same turn.
    assert max(by_turn.values()) <= 2 * (most_bytes + 2 * largest_object)
    result = replay_recording(tmp_path)
    assert result.difference is None
    assert result.damages == ()
