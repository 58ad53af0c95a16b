"""Measurements that all benchmarks share: time, processor time, memory, pauses.

On a shared machine wall-clock time means little. `cpu_s` is the processor time of this process,
and `pods_per_cpu_s` the rate that an otherwise idle core would reach.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from kubesched.framework import pod_index

__all__ = [
    "GcPauses",
    "Spent",
    "Stopwatch",
    "machine",
    "median_of",
    "peak_rss_mib",
    "percentile",
    "rates",
    "rss_mib",
    "say",
    "write_line",
]

T = TypeVar("T")
_STATUS = Path("/proc/self/status")


class Spent(NamedTuple):
    """Seconds by the wall clock and of processor time, user and system."""

    wall_s: float
    cpu_s: float


class Stopwatch:
    """A stopwatch that starts when it is created."""

    def __init__(self) -> None:
        self._wall_ns = time.perf_counter_ns()
        self._cpu_ns = time.process_time_ns()

    def spent(self) -> Spent:
        wall_ns = time.perf_counter_ns() - self._wall_ns
        cpu_ns = time.process_time_ns() - self._cpu_ns
        return Spent(wall_ns / 1e9, cpu_ns / 1e9)


class GcPauses:
    """The number and the length of the garbage collector's pauses while it is in use.

    Pauses are in wall-clock time, including the time of other processes. `longest_cpu_ms` is the
    longest in processor time.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest_ms = 0.0
        self.longest_cpu_ms = 0.0
        self.total_ms = 0.0
        self._started_ns = 0
        self._started_cpu_ns = 0

    def __enter__(self) -> GcPauses:
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *exc_info: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._started_ns = time.perf_counter_ns()
            self._started_cpu_ns = time.thread_time_ns()
            return
        pause_ms = (time.perf_counter_ns() - self._started_ns) / 1e6
        cpu_ms = (time.thread_time_ns() - self._started_cpu_ns) / 1e6
        self.longest_cpu_ms = max(self.longest_cpu_ms, cpu_ms)
        self.count += 1
        self.total_ms += pause_ms
        self.longest_ms = max(self.longest_ms, pause_ms)


def rates(pods: int, spent: Spent) -> dict[str, float]:
    """Return the fields of a result line for time and rate."""
    return {
        "seconds": round(spent.wall_s, 3),
        "cpu_seconds": round(spent.cpu_s, 3),
        "pods_per_s": round(pods / spent.wall_s, 1),
        "pods_per_cpu_s": round(pods / spent.cpu_s, 1) if spent.cpu_s else 0.0,
    }


def median_of(repeat: int, measure: Callable[[], T], key: Callable[[T], float]) -> T:
    """Return the median of several runs; of two middle ones, the lower."""
    runs = [measure() for _ in range(max(1, repeat))]
    middle = statistics.median_low([key(run) for run in runs])
    return next(run for run in runs if key(run) == middle)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that this percentage of values does not exceed; 0 if empty."""
    if not values:
        return 0.0
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(0, int(rank) - 1)]


def rss_mib() -> float:
    return _status_mib("VmRSS")


def peak_rss_mib() -> float:
    return _status_mib("VmHWM")


def _status_mib(field: str) -> float:
    for line in _STATUS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return round(int(value.split()[0]) / 1024, 1)
    raise LookupError(f"{_STATUS} has no {field}")


def machine() -> dict[str, Any]:
    """Describe the machine without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    is_compiled = not str(pod_index.__file__).endswith(".py")
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "python": platform.python_version() + (", modules compiled" if is_compiled else ""),
    }


def write_line(line: dict[str, Any]) -> None:
    click.echo(json.dumps(line))


def say(text: str) -> None:
    """Print progress to stderr."""
    click.echo(text, err=True)
