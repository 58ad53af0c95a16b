"""A scenario from a flight recording: its cluster at the beginning, and its pods over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from kubesched.api import Node, PersistentVolume, Pod, VolumeAttachment
from kubesched.api.time import format_time
from kubesched.explain.clusters.capture import Capture, write_capture
from kubesched.explain.recordings.past_clusters import recorded_changes
from kubesched.explain.recordings.recording_player import PlayedChange, read_recording
from kubesched.explain.recordings.segment_files import RecordingError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.whole_file import write_whole
from kubesched.scheduler.config.yaml_output import dump_yaml
from kubesched.sim.recording import Recording

__all__ = ["write_recorded_scenario"]

_FOLDER: Final = "simulation"


def write_recorded_scenario(folder: Path, configurations: tuple[Path, ...]) -> Path:
    """Write the scenario and its files into the recording's folder; return the scenario's path.

    Raises:
        RecordingError: the recording cannot be read, or has no nodes.
    """
    changes = list(recorded_changes(folder))
    nodes = [each.at_ns for each in changes if isinstance(each.after, Node)]
    if not nodes:
        raise RecordingError(f"{folder}: the recording has no nodes")
    # The scheduler's first lists are delivered before it decides.
    start_ns = changes[0].at_ns
    synced_ns = next(
        (record[1] for record in read_recording(folder).records if record[0] == "e"), start_ns
    )
    target = folder / _FOLDER
    target.mkdir(exist_ok=True)
    present = _with_later_ones(_present(changes, synced_ns), changes)
    header = read_recording(folder).header
    capture = Capture(tuple(present), format_time(synced_ns), (), header["configuration"])
    write_capture(capture, target / "cluster.capture")
    lines, count = _trace(changes, synced_ns)
    write_whole(target / "pods.jsonl", lines, mode=0o600)
    duration_s = max(60, (changes[-1].at_ns - synced_ns) // SECOND + 1)
    document: dict[str, Any] = {
        "duration": f"{duration_s}s",
        "cluster": {"capture": "cluster.capture"},
        "traces": [{"file": "pods.jsonl"}],
    }
    if configurations:
        recorded = target / "recorded.yaml"
        write_whole(recorded, dump_yaml(header["configuration"]).encode())
        files = (recorded, *(path.resolve() for path in configurations))
        document["configurations"] = [
            {"name": path.stem, "file": str(path.resolve())} for path in files
        ]
    scenario = target / "scenario.yaml"
    write_whole(scenario, dump_yaml(document).encode())
    click.echo(f"wrote {scenario}: {len(present)} objects, then {count} pods", err=True)
    return scenario


def _present(changes: list[PlayedChange], until_ns: int) -> list[Any]:
    found: dict[Any, Any] = {}
    for change in changes:
        if change.at_ns > until_ns:
            break
        if change.after is None:
            found.pop(_key(change.before), None)
        else:
            found[_key(change.after)] = change.after
    return list(found.values())


def _with_later_ones(present: list[Any], changes: list[PlayedChange]) -> list[Any]:
    """Add objects that were created later and that pods refer to, in their first version.

    Volumes are provisioned by the simulation. Nodes are added only if there are none yet.
    """
    left_out: set[type[Any]] = {Pod, PersistentVolume, VolumeAttachment}
    if any(isinstance(each, Node) for each in present):
        left_out.add(Node)
    known = {_key(each) for each in present}
    found = list(present)
    for change in changes:
        each = change.after
        if each is None or type(each) in left_out or _key(each) in known:
            continue
        known.add(_key(each))
        found.append(each)
    return found


def _key(each: Any) -> tuple[type[Any], str, str]:
    return type(each), each.metadata.namespace, each.metadata.name


def _trace(changes: list[PlayedChange], from_ns: int) -> tuple[bytes, int]:
    """Return the lines of a trace with the pods that were created later."""
    recording = Recording(from_ns)
    lines = [recording.head()]
    present = {each.metadata.uid for each in _present(changes, from_ns) if isinstance(each, Pod)}
    for change in changes:
        pod = change.after or change.before
        if change.at_ns <= from_ns or not isinstance(pod, Pod) or pod.metadata.uid in present:
            continue
        kind = "DELETED" if change.after is None else "MODIFIED"
        lines += recording.record(kind, pod, change.at_ns)
    return b"".join(lines), recording.added
