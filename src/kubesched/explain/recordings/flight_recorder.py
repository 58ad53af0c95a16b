"""The flight recorder: writes the input and the decisions of a scheduler to a ring of files.

It records changes in the order in which the scheduler's informers deliver them, and between them
the decisions. Recording an event appends a reference to a list; lines are encoded and compressed in
batches. A segment begins with a snapshot. The snapshot is written in small steps while the previous
segment still grows, so the recording has no gap and the event loop is never blocked for long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import kubesched
from kubesched.api import Node, Pod
from kubesched.explain.clusters.read_configuration import read_configuration_of
from kubesched.explain.recordings.recorded_objects import (
    NO_NODE_FITS,
    NOT_REPLAYED,
    RECORDED_KINDS,
    added_line,
    removed_line,
    updated_line,
)
from kubesched.explain.recordings.segment_files import RecordingError, SegmentWriter, segments_of
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import MILLISECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import FitError, Status
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["FlightRecorder"]

log = get_logger(__name__)

_PERIOD_NS: Final = 500 * MILLISECOND
_BATCH: Final = 1000  # number of records that are written as a frame before the period has passed
_SNAPSHOT_STEP: Final = 100  # number of objects that are encoded before other tasks run
# Other tasks run after a frame of this size. Encoding and compressing a MiB takes about 15 ms.
_STEP_BYTES: Final = 1 << 20
_SEGMENTS: Final = 16  # approximate number of segments in the ring
_SMALLEST: Final = 256 * 1024
_encode = msgspec.json.Encoder().encode

Line = Callable[[], bytes]


class FlightRecorder:
    """A component that records one scheduler while it runs. It stops recording if a write fails."""

    def __init__(
        self,
        folder: Path,
        size: int,
        scheduler: Scheduler,
        clock: Clock,
        *,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        plugins: Sequence[str] = (),
        smallest_segment: int = _SMALLEST,
    ) -> None:
        """Record into `folder`, with at most about `size` bytes.

        `plugins` are the out-of-tree plugins in the form of the command line.

        Raises:
            RecordingError: the folder cannot be written.
        """
        self._folder, self._clock = folder, clock
        self._gates, self._plugins = gates, tuple(plugins)
        self._configuration = scheduler.configuration
        self._size = max(size, 2 * smallest_segment)
        self._segment_size = max(self._size // _SEGMENTS, smallest_segment)
        # The size at which the next segment begins, and that of the snapshot in this one.
        self._limit, self._snapshot_size = self._segment_size, 0
        self._scheduler = scheduler
        self._pending: list[tuple[Any, ...]] = []
        self._nominations = -1  # position of the nominator at the last record
        self._last_nominated: list[tuple[str, str, str, str]] | None = None
        self._next: SegmentWriter | None = None  # while its snapshot is written
        self._since_snapshot: list[bytes] = []  # lines for the next segment
        self._is_over = False
        self._stop = StopSwitch()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._number = _last_number(folder) + 1
            self._segment = SegmentWriter(folder, self._number)
            # The first lists that the informers deliver are the snapshot.
            self._segment.write([_encode(self._header_line(is_start=True))])
            self._segment.publish()
            # A process that restarts often never begins a second segment.
            self._delete_oldest()
        except OSError as error:
            raise RecordingError(f"{folder}: cannot be written: {error.strerror}") from error
        for informer in scheduler.informers.components():
            if informer.kind in RECORDED_KINDS:
                self._follow(informer)
        scheduler.record(self)

    def _header_line(self, *, is_start: bool = False) -> tuple[Any, ...]:
        header = {
            "kubesched": kubesched.__version__,
            "configuration": _document_of(self._configuration),
            "gates": {
                feature.name: is_on
                for feature, is_on in self._gates.items()
                if is_on != feature.default
            },
            "plugins": self._plugins,
        }
        return ("h", self._clock.now_ns(), header, is_start)

    def _follow(self, informer: SharedInformer[Any]) -> None:
        now_ns = self._clock.now_ns

        def added(new: Any) -> None:
            self._append(("+", now_ns(), new))

        def updated(old: Any, new: Any) -> None:
            self._append(("~", now_ns(), old, new))

        def deleted(gone: Any, _is_tombstone: bool) -> None:
            self._append(("-", now_ns(), gone))

        informer.add_handler(added, updated, deleted)

    def _append(self, record: tuple[Any, ...]) -> None:
        if not self._is_over:
            self._pending.append(record)
            if len(self._pending) >= _BATCH:
                self._write_frame()

    def decided(
        self, attempt: Attempt, status: Status, node_name: str, result: ScheduleResult | None
    ) -> None:
        """Record the decision of an attempt. Called before its effects."""
        configuration = self._scheduler.configuration
        if configuration is not self._configuration:
            self._configuration = configuration
            self._append(("c", self._clock.now_ns(), _document_of(configuration)))
        self._note_nominations()
        pod = attempt.queued.pod
        text = post_filter = ""
        evaluated = NOT_REPLAYED
        if result is not None:
            evaluated = result.evaluated_nodes
        elif isinstance(status.error, FitError) and pod.spec.scheduling_group is None:
            evaluated = NO_NODE_FITS
            text = status.message
            post_filter = status.error.diagnosis.post_filter_message
        self._append(("d", self._clock.now_ns(), pod, node_name, evaluated, text, post_filter))

    def failed(self, pod: Pod, status: Status) -> None:  # noqa: ARG002  `decided` has the status
        """Record that an attempt has failed and its assumed state was undone."""
        self._append(("f", self._clock.now_ns(), pod))
        self._note_nominations()

    def _note_nominations(self) -> None:
        nominator = self._scheduler.queue.nominator
        if nominator.position != self._nominations:
            self._nominations = nominator.position
            nominated = self._nominated()
            if nominated != self._last_nominated:
                self._last_nominated = nominated
                self._append(("n", self._clock.now_ns(), nominated))

    def _nominated(self) -> list[tuple[str, str, str, str]]:
        nominator = self._scheduler.queue.nominator
        found = []
        for node in nominator.nominated_nodes():
            for info in nominator.nominated_pods(node):
                metadata = info.pod.metadata
                found.append((node, metadata.namespace, metadata.name, metadata.uid))
        return found

    async def run(self) -> None:
        try:
            await self._stop.guard(self._write_for_ever())
        finally:
            while self._pending:
                self._write_frame()
            self._segment.close()

    def stop(self) -> None:
        self._stop.set()

    async def _write_for_ever(self) -> None:
        await self._scheduler.synced.wait()
        self._append(("e", self._clock.now_ns()))  # the snapshot is complete
        await self._flush()
        self._end_snapshot()
        while True:
            await self._clock.sleep(_PERIOD_NS)
            await self._flush()
            if self._segment.size >= self._limit and not self._is_over:
                await self._begin_segment()

    def _end_snapshot(self) -> None:
        """Set the size of the segment by that of its snapshot, and make room for it.

        A segment has at least as many bytes of changes as of its snapshot: otherwise a ring that is
        small for its cluster would consist of snapshots, and the recorder would write nothing else.
        """
        self._snapshot_size = self._segment.size
        self._limit = max(self._segment_size, 2 * self._snapshot_size)
        most = self._limit + self._snapshot_size
        if most > self._size and not self._is_over:
            log.warning(
                "The recording needs more than --record-size; it has only the newest changes",
                folder=str(self._folder),
                snapshotBytes=self._snapshot_size,
                bytes=most,
            )
        try:
            self._delete_oldest()
        except OSError as error:
            self._stop_recording(error)

    async def _flush(self) -> None:
        """Write all pending records; afterwards none is pending."""
        while self._pending:
            self._write_frame()
            if self._pending:
                await asyncio.sleep(0)

    def _write_frame(self) -> None:
        """Write the first pending records as a frame."""
        lines = _first_lines(map(_line_of, self._pending), _BATCH)
        del self._pending[: len(lines)]
        if self._next is not None:
            self._since_snapshot += lines
        try:
            self._segment.write(lines)
        except OSError as error:
            self._stop_recording(error)

    def _stop_recording(self, error: OSError) -> None:
        # The scheduler must not fail because a disk is full.
        self._is_over = True
        self._pending.clear()
        self._since_snapshot.clear()
        log.error("Recording has ended", folder=str(self._folder), err=error.strerror)

    async def _begin_segment(self) -> None:
        """Write a snapshot to a new file, and continue there."""
        await self._flush()
        lines = self._snapshot_lines()
        try:
            self._next = following = SegmentWriter(self._folder, self._number + 1)
            while batch := _first_lines(lines, _SNAPSHOT_STEP):
                following.write(batch)
                await asyncio.sleep(0)
            await self._flush()
            # These records are in the previous segment as well.
            while batch := _first_lines(iter(self._since_snapshot), _BATCH):
                following.write(batch)
                del self._since_snapshot[: len(batch)]
                await asyncio.sleep(0)
                await self._flush()
            following.write([_encode(("r", self._clock.now_ns()))])
            following.publish()
            self._segment.close()
            self._segment, self._number = following, self._number + 1
            self._end_snapshot()
        except OSError as error:
            self._stop_recording(error)
        finally:
            if self._next is not None and self._next is not self._segment:
                self._next.close()  # the recorder stops, or writing failed
            self._next = None
            self._since_snapshot.clear()

    def _snapshot_lines(self) -> Iterator[bytes]:
        """Take references to all objects now, and return an iterator that encodes them."""
        at_ns, scheduler = self._clock.now_ns(), self._scheduler
        first = _encode(self._header_line())
        names = scheduler.cache.update_snapshot().order.tolist()
        infos = scheduler.cache.snapshot.infos
        nodes = [info.node for row in names if (info := infos[row]) is not None]
        kinds = {each.kind: each for each in scheduler.informers.components()}
        objects: list[Any] = [each for each in nodes if each is not None]
        objects += [
            each
            for kind, informer in kinds.items()
            if kind in RECORDED_KINDS and kind is not Node
            for each in informer.store.list()
        ]
        assumed = [
            (pod.metadata.namespace, pod.metadata.name, info.name)
            for info in scheduler.cache.nodes.values()
            for pod in (each.pod for each in info.pods)
            if scheduler.cache.is_assumed(pod)
        ]
        nominated = self._nominated()

        def lines() -> Iterator[bytes]:
            yield first
            for each in objects:
                yield added_line(at_ns, each)
            for each in assumed:
                yield _encode(("a", at_ns, *each))
            yield _encode(("n", at_ns, nominated))
            yield _encode(("e", at_ns))

        return lines()

    def _delete_oldest(self) -> None:
        """Make room for the rest of the newest segment, and for the next snapshot beside it."""
        found = segments_of(self._folder)
        total = sum(path.stat().st_size for path in found)
        growth = max(self._limit - self._segment.size, 0) + self._snapshot_size
        for path in found[:-1]:
            if total + growth <= self._size:
                return
            total -= path.stat().st_size
            path.unlink()


def _document_of(configuration: KubeSchedulerConfiguration) -> Any:
    """Return the parts of a configuration that affect decisions: no credentials, no addresses."""
    return read_configuration_of(versioned(as_written(configuration)))


def _first_lines(lines: Iterator[bytes], most: int) -> list[bytes]:
    """Return the first lines, for one frame. Further lines are not encoded."""
    found, size = [], 0
    for line in lines:
        found.append(line)
        size += len(line)
        if len(found) >= most or size >= _STEP_BYTES:
            break
    return found


def _last_number(folder: Path) -> int:
    found = [int(path.stem) for path in segments_of(folder) if path.stem.isdecimal()]
    return max(found, default=0)


def _line_of(record: tuple[Any, ...]) -> bytes:
    match record:
        case ["+", at_ns, new]:
            return added_line(at_ns, new)
        case ["~", at_ns, old, new]:
            return updated_line(at_ns, old, new)
        case ["-", at_ns, gone]:
            return removed_line(at_ns, gone)
        case [letter, at_ns, Pod() as pod, *rest]:
            metadata = pod.metadata
            return _encode((letter, at_ns, metadata.namespace, metadata.name, metadata.uid, *rest))
    return _encode(record)
