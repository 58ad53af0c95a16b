"""The goals for speed, and the measurement that each is compared with."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.results_file import ResultFile

__all__ = ["GOALS", "Goal", "goal_table"]

_ENGINE = "python -m benchmarks.engine --nodes 5000 --pods 5000 --kind "
_DRAIN = "python -m benchmarks.drain --nodes 5000 --pods 3000 --kind "
_DASH = "\N{EN DASH}"
_AT_LEAST, _AT_MOST = "\N{GREATER-THAN OR EQUAL TO}", "\N{LESS-THAN OR EQUAL TO}"


class Goal(NamedTuple):
    """A figure to reach, and the field of a result that is compared with it."""

    what: str
    unit: str
    is_reached: Callable[[float, float], bool]
    """Compares a measurement with the value: `ge` for rates, `le` for costs."""
    value: float
    command: str
    file: str
    """The result file, without `.json`."""
    field: str
    lines: Mapping[str, Any] = {}
    """Fields of the lines of the file that count."""

    def measured(self, results: Mapping[str, ResultFile]) -> list[float]:
        """Return the runs of the measurement; empty if it was not measured."""
        result = results.get(self.file)
        return [] if result is None else result.values(self.field, self.lines)

    def row(self, results: Mapping[str, ResultFile]) -> list[str]:
        values = self.measured(results)
        sign = _AT_LEAST if self.is_reached is operator.ge else _AT_MOST
        return [
            self.what,
            f"{sign} {self.value:,} {self.unit}",
            results[self.file].cell(self.field, **self.lines) if values else _DASH,
            self._verdict(values),
            results[self.file].load.partition(",")[0] if values else _DASH,
            f"`{self.command}`",
        ]

    def _verdict(self, values: Sequence[float]) -> str:
        if not values:
            return "not measured"
        reached = sum(self.is_reached(value, self.value) for value in values)
        if reached == len(values):
            return "yes"
        return f"in {reached} of {len(values)} runs" if reached else "no"


def _engine(what: str, kind: str, value: int) -> Goal:
    unit = "pods per CPU second"
    command, lines = _ENGINE + kind, {"kind": kind}
    return Goal(what, unit, operator.ge, value, command, "10-engine", "pods_per_cpu_s", lines)


def _http(what: str, kind: str, value: float) -> Goal:
    unit = "CPU seconds per 1,000 pods"
    command, lines = _DRAIN + kind, {"kind": kind}
    return Goal(what, unit, operator.le, value, command, "32-http", "cpu_s_per_1000", lines)


GOALS: Sequence[Goal] = (
    _engine("engine, preferred anti-affinity", "affinity", 12_000),
    _engine("engine, 500 shapes", "hetero", 12_000),
    _engine("engine, mixed", "mixed", 9_000),
    _engine("engine, local volumes", "local-pv", 8_000),
    _engine("engine, devices", "dra", 6_000),
    Goal(
        "whole loop in one process",
        "pods per CPU second",
        operator.ge,
        9_000,
        "python -m benchmarks.loop --nodes 5000 --pods 5000 --kind basic",
        "30-loop",
        "pods_per_cpu_s",
        {"kind": "basic"},
    ),
    Goal(
        "preemption",
        "pods per CPU second",
        operator.ge,
        700,
        "python -m benchmarks.preemption --nodes 5000 --pods 1000",
        "31-preemption",
        "pods_per_cpu_s",
    ),
    Goal(
        "preemption, p99 of an attempt",
        "ms",
        operator.le,
        4,
        "python -m benchmarks.preemption --nodes 5000 --pods 1000",
        "31-preemption",
        "preemption_ms.p99",
    ),
    _http("HTTP, plain pods", "basic", 0.25),
    _http("HTTP, zone spread", "spread", 0.35),
    _http("HTTP, preferred anti-affinity", "affinity", 0.35),
    _http("HTTP, 500 shapes", "hetero", 0.35),
    _http("HTTP, mixed", "mixed", 0.35),
    Goal(
        "a million pods on a million nodes",
        "s",
        operator.le,
        60,
        "python -m benchmarks.million",
        "33-million",
        "total_s",
    ),
    Goal(
        "process ready, 5,000 nodes and 50,000 pods",
        "CPU seconds",
        operator.le,
        1.5,
        "python -m benchmarks.start_up --nodes 5000 --running-pods 50000",
        "34-start-up",
        "cpu_seconds",
    ),
)


def goal_table(results: Mapping[str, ResultFile]) -> list[list[str]]:
    """Return the headings and a row for each goal."""
    heading = ["what", "goal", "measured", "reached", "machine", "command"]
    return [heading, *(goal.row(results) for goal in GOALS)]
