"""Nodes and pods of a GPU cluster, from CSV files in the layout of the openb traces."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

__all__ = ["DEVICE_MILLI", "GpuNode", "GpuPod", "TraceError", "read_nodes", "read_pods"]

DEVICE_MILLI = 1000  # thousandths of one whole device

NODE_FILE = "openb_node_list_gpu_node.csv"
POD_FILE = "openb_pod_list_{}.csv"

Row = dict[str, str]
T = TypeVar("T")


class TraceError(Exception):
    """A trace that cannot be read; the text has the location and the error."""


class GpuNode(NamedTuple):
    """A machine with some devices of one model."""

    name: str
    cpu_milli: int
    memory_mib: int
    devices: int
    model: str


class GpuPod(NamedTuple):
    """A pod that requests `milli` of each of `count` devices; both are 0 for a pod without GPU."""

    name: str
    cpu_milli: int
    memory_mib: int
    count: int
    milli: int
    models: str  # allowed models as written in the file, separated by "|"; empty: any

    @property
    def need(self) -> int:
        """GPU in thousandths of a device."""
        return self.count * self.milli


def read_nodes(folder: Path) -> list[GpuNode]:
    """The nodes that have GPUs.

    Raises:
        TraceError: the file is missing or malformed.
    """
    return _parse(folder, NODE_FILE, _node)


def read_pods(folder: Path, workload: str) -> list[GpuPod]:
    """The pods of a workload, by name.

    Raises:
        TraceError: the file is missing or malformed.
    """
    pods = _parse(folder, POD_FILE.format(workload), _pod)
    return sorted(pods, key=lambda pod: pod.name)


def _node(row: Row) -> GpuNode:
    return GpuNode(
        row["sn"],
        int(row["cpu_milli"]),
        int(row["memory_mib"]),
        int(row["gpu"]),
        row["model"],
    )


def _pod(row: Row) -> GpuPod:
    count = int(row["num_gpu"])
    milli = min(int(row["gpu_milli"] or 0), DEVICE_MILLI) if count else 0
    models = (row.get("gpu_spec") or "") if count else ""
    return GpuPod(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), count, milli, models)


def _parse(folder: Path, name: str, parse: Callable[[Row], T]) -> list[T]:
    path, lines = _lines(folder, name)
    found: list[T] = []
    for row in csv.DictReader(lines):
        try:
            found.append(parse(row))
        except KeyError as exc:
            raise TraceError(f"{path}:1: no column {exc.args[0]!r}") from exc
        except (TypeError, ValueError) as exc:
            raise TraceError(f"{path}:{len(found) + 2}: {exc}") from exc
    return found


def _lines(folder: Path, name: str) -> tuple[Path, Iterator[str] | Sequence[str]]:
    for path, opens in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
        if path.exists():
            try:
                with opens(path, "rb") as file:
                    return path, io.StringIO(file.read().decode(), newline="")
            except (OSError, UnicodeDecodeError) as exc:
                raise TraceError(f"{path}: {exc}") from exc
    raise TraceError(
        f"{folder / name}: no such file, nor with .gz (README.md says where to get it)"
    )
