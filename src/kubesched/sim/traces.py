"""Traces: the pods of a real cluster, read from a file.

The own format is JSON lines, which `kubesched record` writes: a header, then events in order.
Times are seconds since the start.

    {"format": "kubesched-trace/1", "start": "2026-01-05T00:00:00Z"}
    {"time": 3.2, "object": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", ...}}
    {"time": 3.2, "add": {"metadata": {"namespace": "default", "name": "a"}, "spec": {...}}}
    {"time": 63.5, "end": "default/a", "ran": 58.0}

A pod without an `end` runs until the end of the simulation. An `object` is created before the
next pod, unless the cluster has it. `openb` is the CSV format of the
Alibaba GPU traces. Its pods request CPU, memory, and `alibabacloud.com/gpu-milli` for GPU shares.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.api.kinds import by_api_version_kind
from kubesched.errors import ConfigError
from kubesched.foundation.util.bounded_file import read_bounded, unzipped
from kubesched.foundation.util.clock import SECOND
from kubesched.sim.scenario import WORKLOAD_LABEL, TracePod

__all__ = ["FORMAT", "GPU_MILLI", "openb_nodes", "read_trace"]

T = TypeVar("T")

FORMAT: Final = "kubesched-trace/1"
GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
_AMOUNTS: Final = ("cpu_milli", "memory_mib")
_NODE_COLUMNS: Final = ("sn", *_AMOUNTS, "gpu")
_POD_COLUMNS: Final = (
    "name",
    *_AMOUNTS,
    "num_gpu",
    "gpu_milli",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
_IMAGE = "registry.k8s.io/pause:3.10"


class _Line(msgspec.Struct):
    """One line of the own format; the members that are present determine its kind."""

    time: float = 0.0
    format: str = ""
    object: dict[str, Any] | None = None
    add: Pod | None = None
    end: str = ""
    ran: float | None = None


def read_trace(path: Path, form: str = "") -> list[TracePod]:
    """Read the pods of a trace in order of time; without `form` the suffix selects the format.

    Raises:
        ConfigError: with file, line and the error.
    """
    name = path.name.removesuffix(".gz")
    form = form or ("openb" if name.endswith(".csv") else "jsonl")
    if form not in ("openb", "jsonl"):
        raise ConfigError(f"{path}: no form of traces {form!r}; known are jsonl and openb")
    text = _text(path)
    pods = _openb(path, text) if form == "openb" else _json_lines(path, text)
    return sorted(pods, key=lambda pod: pod.time_ns)


def _text(path: Path) -> str:
    try:
        content = read_bounded(path)
        return (unzipped(content) if content[:2] == b"\x1f\x8b" else content).decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error


def _json_lines(path: Path, text: str) -> list[TracePod]:
    found: list[TracePod] = []
    last: dict[str, int] = {}  # the place of the pod that has a name, or had it last
    needed: list[ApiObject] = []
    decoder = msgspec.json.Decoder(_Line)
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            event = decoder.decode(line)
            if event.object is not None:
                needed.append(_decoded(event.object))
        except (msgspec.MsgspecError, ConfigError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from error
        if number == 1 and event.format != FORMAT:
            raise ConfigError(f"{path}:1: the first line must have the format {FORMAT!r}")
        if event.add is not None:
            metadata = event.add.metadata
            last[f"{metadata.namespace or 'default'}/{metadata.name}"] = len(found)
            time_ns = round(event.time * SECOND)
            found.append(TracePod(time_ns=time_ns, pod=event.add, objects=tuple(needed)))
            needed.clear()
        elif event.end in last and event.ran is not None:
            place = last[event.end]
            duration_ns = round(event.ran * SECOND)
            found[place] = msgspec.structs.replace(found[place], duration_ns=duration_ns)
    return found


def _decoded(document: dict[str, Any]) -> ApiObject:
    kind = by_api_version_kind(str(document.get("apiVersion", "")), str(document.get("kind", "")))
    if kind is None:
        raise ConfigError("object: its apiVersion and kind are not known")
    return from_builtins(document, kind.type)


def _openb(path: Path, text: str) -> list[TracePod]:
    pods = list(_rows(path, text, _POD_COLUMNS, _openb_pod))
    first = min((pod.time_ns for pod in pods), default=0)
    return [msgspec.structs.replace(pod, time_ns=pod.time_ns - first) for pod in pods]


def _openb_pod(row: dict[str, str]) -> TracePod:
    count, milli = int(row["num_gpu"] or 0), int(row["gpu_milli"] or 0)
    requests = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    if count:
        requests[GPU_MILLI] = str(count * min(milli, 1000))
    document: dict[str, Any] = {
        "metadata": {
            "name": row["name"],
            "namespace": "default",
            "labels": {WORKLOAD_LABEL: row.get("qos") or "openb"},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": _IMAGE,
                    "resources": {"requests": requests, "limits": requests},
                }
            ]
        },
    }
    began = float(row["scheduled_time"] or row["creation_time"])
    return TracePod(
        time_ns=round(float(row["creation_time"]) * SECOND),
        pod=msgspec.convert(document, Pod),
        duration_ns=max(SECOND, round((float(row["deletion_time"]) - began) * SECOND)),
    )


def openb_nodes(path: Path) -> Iterator[dict[str, Any]]:
    """Read the nodes of an openb list, as JSON objects."""
    return _rows(path, _text(path), _NODE_COLUMNS, _openb_node)


def _openb_node(row: dict[str, str]) -> dict[str, Any]:
    gpus = int(row["gpu"] or 0)
    amounts = {
        "cpu": f"{row['cpu_milli']}m",
        "memory": f"{row['memory_mib']}Mi",
        "pods": "1001",
        **({GPU_MILLI: str(1000 * gpus)} if gpus else {}),
    }
    labels = {"alibabacloud.com/gpu-card-model": row["model"]} if row.get("model") else {}
    return {
        "metadata": {"name": row["sn"], "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _rows(
    path: Path, text: str, columns: tuple[str, ...], made: Callable[[dict[str, str]], T]
) -> Iterator[T]:
    """Convert every row of a CSV file.

    Raises:
        ConfigError: with file, line and the error.
    """
    rows = csv.DictReader(io.StringIO(text))
    missing = [name for name in columns if name not in (rows.fieldnames or ())]
    if missing:
        raise ConfigError(f"{path}:1: no column {', '.join(missing)}, which openb lists have")
    for number, row in enumerate(rows, start=2):
        try:
            yield made(_checked(row))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{path}:{number}: {error}") from error


def _checked(row: dict[str, str]) -> dict[str, str]:
    for name in _AMOUNTS:
        if not (row[name] or "").isdecimal():
            raise ValueError(f"{name} is {row[name]!r}, which is no whole number")
    return row
