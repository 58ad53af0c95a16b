"""The history of a recorded cluster: a capture at a given time, and all changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubesched.api.time import format_time
from kubesched.explain.clusters.capture import Capture
from kubesched.explain.recordings.recorded_objects import RecordedObjects
from kubesched.explain.recordings.recording_player import PlayedChange, read_recording
from kubesched.explain.recordings.segment_files import RecordingError
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["capture_at", "recorded_changes"]


def recorded_changes(folder: Path) -> Iterator[PlayedChange]:
    """Yield every change of an object, in order; the objects at the beginning are additions.

    Raises:
        RecordingError: the recording cannot be read.
    """
    table = ObjectTable()
    for at_ns, is_snapshot_end, found in _objects(folder):
        if is_snapshot_end is not None:
            # Objects that are missing in the snapshot were deleted while nothing was recorded.
            for each in [each for each in table if _key(each) not in is_snapshot_end]:
                metadata = each.metadata
                table.remove(type(each), metadata.name, metadata.namespace)
                yield PlayedChange(at_ns, each, None)
            continue
        kind, namespace, name, after = found
        before = table.get(kind, name, namespace)
        if after is None:
            table.remove(kind, name, namespace)
        else:
            table.put(after)
        if before != after:
            yield PlayedChange(at_ns, before, after)


def _key(each: Any) -> tuple[Any, str, str]:
    return type(each), each.metadata.namespace, each.metadata.name


def _objects(folder: Path) -> Iterator[tuple[int, set[Any] | None, Any]]:
    """Yield changes, and after each snapshot the keys of its objects."""
    objects = RecordedObjects()
    present: set[Any] | None = None  # while a snapshot is read
    for record in read_recording(folder).records:
        letter, at_ns = record[0], record[1]
        if letter == "h":
            objects, present = RecordedObjects(), set()
        elif letter in ("+", "~", "-"):
            found = objects.read(record)
            if present is not None:
                present.add(found[:3])
            yield at_ns, None, found
        elif letter == "e" and present is not None:
            yield at_ns, present, None
            present = None


def capture_at(folder: Path, at_ns: int | None) -> Capture:
    """Return the cluster at a moment (None: the end of the recording).

    Raises:
        RecordingError: the recording cannot be read, or begins later.
    """
    files = read_recording(folder)
    table = ObjectTable()
    begins_ns = latest_ns = 0
    for change in recorded_changes(folder):
        begins_ns = begins_ns or change.at_ns
        if at_ns is not None and change.at_ns > at_ns:
            break
        latest_ns = change.at_ns
        if change.after is not None:
            table.put(change.after)
        else:
            metadata = change.before.metadata
            table.remove(type(change.before), metadata.name, metadata.namespace)
    if not latest_ns:
        raise RecordingError(f"{folder}: the recording begins at {format_time(begins_ns)}")
    return Capture(
        objects=tuple(table),
        taken=format_time(latest_ns if at_ns is None else at_ns),
        configuration=files.header["configuration"],
    )
