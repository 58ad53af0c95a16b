"""The timeline of a flight recording: every change that the scheduler received."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kubesched.dashboard.timeline import Timeline, TimelineChange, Timelines
from kubesched.explain.recordings.past_clusters import recorded_changes
from kubesched.explain.recordings.recording_player import read_recording
from kubesched.scheduler.config.load import configuration_from_builtins

__all__ = ["timeline_of_recording"]

_MILLISECOND: Final = 1_000_000


def timeline_of_recording(folder: Path) -> Timelines:
    """Build the timeline of a recording.

    Raises:
        RecordingError: the recording cannot be read.
    """
    changes = [
        TimelineChange(change.at_ns // _MILLISECOND, change.before, change.after)
        for change in recorded_changes(folder)
    ]
    configuration = configuration_from_builtins(read_recording(folder).header["configuration"])
    return Timelines([Timeline("recording", changes, configuration=configuration)])
