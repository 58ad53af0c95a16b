"""A file with every change of every node and pod of a run, for the dashboard's time slider.

The format is JSON lines in gzip. The first line names the format. A line with `run` begins a run;
the following lines are its changes in order of time. Later changes of a pod contain only the fields
that differ.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api import Node, Pod, PodCondition
from kubesched.api.base import ApiObject
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.bounded_file import bounded_lines
from kubesched.foundation.util.whole_file import replaced_whole
from kubesched.scheduler.config.write import versioned
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Scenario
from kubesched.sim.simulation import simulate

__all__ = ["MOST_CHANGES", "HistoryRecorder", "RecordedRun", "read_history", "write_history"]

FORMAT: Final = "kubesched-history/1"
_GZIP_LEVEL: Final = 5
# Each takes about a kilobyte in memory.
MOST_CHANGES: Final = 3_000_000
_MILLISECOND: Final = 1_000_000
_SCHEDULED: Final = "PodScheduled"
_DISRUPTED: Final = "DisruptionTarget"


class _Line(msgspec.Struct, omit_defaults=True):
    """One line of the file; the members that are present determine its kind."""

    format: str = ""
    scenario: str = ""
    run: RunResult | None = None
    start: int = 0
    configuration: Any = None  # in the form of a configuration file
    t: int = 0  # milliseconds from the start
    node: Node | None = None
    pod: Pod | None = None
    gone: str = ""  # "node NAME" or "pod NAMESPACE/NAME"
    update: str = ""  # NAMESPACE/NAME of a pod that an earlier line has
    on: str = ""
    phase: str = ""
    reason: str = ""
    nominated: str = ""
    disrupted: str = ""


class RecordedRun(msgspec.Struct, frozen=True):
    """A run read from a file. A change has milliseconds, the object before, the object after."""

    result: RunResult
    start_ms: int
    configuration: Any
    changes: list[tuple[int, ApiObject | None, ApiObject | None]]


class HistoryRecorder:
    """Writes a line for every change of a node or pod."""

    def __init__(self, start_ns: int, write: Callable[[bytes], object]) -> None:
        self._start_ns, self._write = start_ns, write
        self._known: dict[str, tuple[str, ...]] = {}

    def record(self, kind: str, changed: Node | Pod, now_ns: int) -> None:
        """Write the change of a watch event of type `kind`, unless nothing relevant differs."""
        time = (now_ns - self._start_ns) // _MILLISECOND
        if isinstance(changed, Node):
            name = changed.metadata.name
            line = _Line(t=time, gone=f"node {name}") if kind == "DELETED" else None
            self._put(line or _Line(t=time, node=changed))
            return
        key = f"{changed.metadata.namespace}/{changed.metadata.name}"
        if kind == "DELETED":
            if self._known.pop(key, None) is not None:
                self._put(_Line(t=time, gone=f"pod {key}"))
            return
        facts = _facts(changed)
        known = self._known.get(key)
        if known == facts:
            return
        self._known[key] = facts
        if known is None:
            self._put(_Line(t=time, pod=changed))
        else:
            on, phase, reason, nominated, disrupted = facts
            self._put(
                _Line(
                    t=time,
                    update=key,
                    on=on,
                    phase=phase,
                    reason=reason,
                    nominated=nominated,
                    disrupted=disrupted,
                )
            )

    def _put(self, line: _Line) -> None:
        self._write(msgspec.json.encode(line) + b"\n")


def write_history(scenario: Scenario, results: Sequence[RunResult], path: Path) -> None:
    """Repeat the first seed's run of every configuration, and write its changes to a file.

    Raises:
        KubeschedError: the file cannot be written.
    """
    seed = scenario.seeds[0]
    try:
        with (
            replaced_whole(path) as partial,
            gzip.GzipFile(partial, "wb", _GZIP_LEVEL, mtime=0) as file,
        ):
            file.write(msgspec.json.encode(_Line(format=FORMAT, scenario=scenario.name)) + b"\n")
            for result in results:
                if result.seed != seed:
                    continue
                start = scenario.start_ns // _MILLISECOND
                configuration = scenario.configuration(result.configuration)
                chosen = configuration.configuration
                document = None if chosen is None else versioned(chosen)
                line = _Line(run=result, start=start, configuration=document)
                file.write(msgspec.json.encode(line) + b"\n")
                recorder = HistoryRecorder(scenario.start_ns, file.write)
                simulate(scenario, configuration, seed, history=recorder.record)
    except OSError as error:
        raise KubeschedError(f"{path}: cannot be written: {error.strerror}") from error


def read_history(path: Path) -> list[RecordedRun]:
    """Read the runs of a file.

    Raises:
        ConfigError: the file is not a history.
    """
    decoder = msgspec.json.Decoder(_Line)
    runs: list[RecordedRun] = []
    objects: dict[str, Any] = {}
    number = changes = 0
    try:
        with gzip.open(path, "rb") as file:
            for number, raw in enumerate(bounded_lines(file), start=1):
                line = decoder.decode(raw)
                if number == 1:
                    _check_format(path, line)
                elif line.run is not None:
                    objects = {}
                    runs.append(RecordedRun(line.run, line.start, line.configuration, []))
                elif runs:
                    changes += 1
                    if changes > MOST_CHANGES:
                        raise ConfigError(f"{path}: more than {MOST_CHANGES:,} changes")
                    for before, after in _changes(line, objects):
                        runs[-1].changes.append((runs[-1].start_ms + line.t, before, after))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{path}: not a history of a simulation: {error}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}:{number}: {error}") from error
    if not runs:
        raise ConfigError(f"{path}: contains no run")
    return runs


def _check_format(path: Path, line: _Line) -> None:
    if line.format != FORMAT:
        raise ConfigError(f"{path}: format {line.format!r} is not supported, only {FORMAT!r}")


def _changes(line: _Line, objects: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the changes of a line, and apply them to `objects`."""
    if line.gone:
        before = objects.pop(line.gone, None)
        if before is not None:
            yield before, None
        return
    after: Any
    if line.node is not None:
        key, after = f"node {line.node.metadata.name}", line.node
    elif line.pod is not None:
        metadata = line.pod.metadata
        key, after = f"pod {metadata.namespace}/{metadata.name}", line.pod
    else:
        key = f"pod {line.update}"
        if key not in objects:
            return
        after = _updated(objects[key], line)
    before, objects[key] = objects.get(key), after
    yield before, after


def _updated(pod: Pod, line: _Line) -> Pod:
    conditions: list[PodCondition] = []
    if line.reason:
        conditions.append(PodCondition(type=_SCHEDULED, status="False", message=line.reason))
    if line.disrupted:
        conditions.append(PodCondition(type=_DISRUPTED, status="True", reason=line.disrupted))
    status = replace(
        pod.status,
        phase=line.phase,
        nominated_node_name=line.nominated,
        conditions=tuple(conditions),
    )
    return replace(pod, spec=replace(pod.spec, node_name=line.on), status=status)


def _facts(pod: Pod) -> tuple[str, ...]:
    """Return what a history stores of a pod: node, phase, reason, nomination, disruption."""
    reason = disrupted = ""
    for condition in pod.status.conditions:
        if condition.type == _SCHEDULED and condition.status == "False":
            reason = condition.message
        elif condition.type == _DISRUPTED and condition.status == "True":
            disrupted = condition.reason
    status = pod.status
    return pod.spec.node_name, status.phase, reason, status.nominated_node_name, disrupted
