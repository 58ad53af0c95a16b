"""Comparison of two configurations: differences over seeds, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kubesched.foundation.util.duration_words import duration_words
from kubesched.sim.results import RunResult

__all__ = ["TIMES", "Comparison", "Difference", "compare", "is_time", "measures_of"]

# 97.5 % quantiles of Student's t by degrees of freedom. Beyond them the normal quantile applies.
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL: Final = 1.960
# Measures that a run does not have if no pod was bound or started.
TIMES: Final = ("mean time to bind", "p99 time to bind", "mean time to run")
_GROUP_TIMES: Final = ("mean time to place a group", "p99 time to place a group")
# The sentence about a measure, with the value of the second configuration.
_WORDS: Final[Mapping[str, str]] = {
    "mean time to bind": "pods wait {} on average",
    "mean time to run": "pods start after {} on average",
    "p99 time to bind": "pods wait {} at the 99th percentile",
    "mean time to place a group": "groups wait {} on average",
    "p99 time to place a group": "groups wait {} at the 99th percentile",
    "groups placed": "places {} groups",
    "mean pending": "{} pods wait on average",
    "preempted": "preempts {} pods",
    "evicted": "evicts {} pods",
    "cost": "costs {}",
    "mean nodes": "needs {} nodes on average",
}


class Difference(msgspec.Struct, frozen=True):
    """The difference of one measure, over the seeds that both configurations have."""

    measure: str
    first: float
    second: float
    difference: float  # mean of second minus first, seed by seed
    low: float  # lower end of the 95 % interval; equal to the difference if there is one seed
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the 95 % interval does not contain zero."""
        return self.difference != 0 and (self.low > 0 or self.high < 0)

    @property
    def percent(self) -> float | None:
        return None if not self.first else 100 * self.difference / abs(self.first)

    def sentence(self) -> str:
        """Return a phrase with both values and their unit; empty if the difference is not clear."""
        percent = self.percent
        if not self.is_clear:
            return ""
        more = "more" if self.difference > 0 else "less"
        words = _WORDS.get(self.measure)
        if words is not None:
            first, second = (self._shown(each) for each in (self.first, self.second))
            change = "" if percent is None else f" ({_percentage(abs(percent))} {more})"
            return f"{words.format(second)} instead of {first}{change}"
        amount = f"{abs(self.difference):.3g}"
        if percent is not None:
            amount = _percentage(abs(percent))
        name, _, what = self.measure.rpartition(" ")
        if what == "stranded":
            return f"strands {amount} {more} {name}"
        return ""

    def _shown(self, value: float) -> str:
        return duration_words(value) if is_time(self.measure) else f"{value:.3g}"


def is_time(measure: str) -> bool:
    """Whether a measure is in seconds, and missing if nothing was bound, started or placed."""
    return measure in TIMES or measure in _GROUP_TIMES


def _percentage(percent: float) -> str:
    if percent < 100:
        return f"{percent:.2g} %"
    return f"{percent:.0f} %" if percent < 1000 else f"{percent / 100:.0f} times"


class Comparison(msgspec.Struct, frozen=True):
    """The differences of a second configuration from a first one."""

    first: str
    second: str
    seeds: int
    differences: list[Difference]

    def sentence(self) -> str:
        said = [each.sentence() for each in self.differences if each.sentence()]
        if not said:
            return f"{self.second} and {self.first} do not differ clearly"
        return f"{self.second}: {', '.join(said)} (against {self.first}, {self.seeds} seeds)"


def measures_of(result: RunResult) -> dict[str, float]:
    """Return the measures of a run. Times are missing if no pod was bound or started."""
    bind, run = result.time_to_bind.get("all", {}), result.time_to_run.get("all", {})
    times = {
        "mean time to bind": bind.get("mean"),
        "p99 time to bind": bind.get("p99"),
        "mean time to run": run.get("mean"),
    }
    found = {name: value for name, value in times.items() if value is not None} | {
        "mean pending": result.averages.get("pending", 0.0),
        "pending at the end": float(sum(result.pending.values())),
        "bound": float(result.counts.get("bound", 0)),
        "preempted": float(result.counts.get("preempted", 0)),
        "evicted": float(result.counts.get("evicted", 0)),
        "failed": float(result.counts.get("failed", 0)),
        "mean nodes": result.averages.get("nodes", 0.0),
    }
    if groups := result.time_to_place:
        found["groups placed"] = float(groups["count"])
        found["groups waiting at the end"] = float(groups["waiting"])
        for measure, name in zip(_GROUP_TIMES, ("mean", "p99"), strict=True):
            if name in groups:
                found[measure] = groups[name]
    if "cost" in result.averages:
        found["cost"] = result.averages["cost"]
    shares = ("allocated", "used", "stranded", "fragmented", "imbalance")
    return found | {
        name: value
        for name, value in result.averages.items()
        if ": " not in name and name.endswith(shares)
    }


def compare(
    results: Sequence[RunResult],
    first: str,
    second: str,
    measures: Callable[[RunResult], dict[str, float]] = measures_of,
) -> Comparison:
    """Compare the second configuration with the first, seed by seed."""
    by_seed = {(each.configuration, each.seed): measures(each) for each in results}
    seeds = sorted(seed for name, seed in by_seed if name == first and (second, seed) in by_seed)
    pairs = [(by_seed[first, seed], by_seed[second, seed]) for seed in seeds]
    names = sorted({name for pair in pairs for each in pair for name in each}, key=_order)
    differences = [_difference(name, pairs) for name in names]
    return Comparison(first, second, len(seeds), [each for each in differences if each is not None])


def _order(name: str) -> tuple[int, str]:
    known = list(_WORDS)
    return (known.index(name) if name in known else len(known), name)


def _difference(
    name: str, pairs: Sequence[tuple[dict[str, float], dict[str, float]]]
) -> Difference | None:
    """Return the difference; None for a time that no seed has in both configurations."""
    if is_time(name):
        pairs = [pair for pair in pairs if name in pair[0] and name in pair[1]]
    if not pairs:
        return None
    firsts = [pair[0].get(name, 0.0) for pair in pairs]
    seconds = [pair[1].get(name, 0.0) for pair in pairs]
    gaps = [second - first for first, second in zip(firsts, seconds, strict=True)]
    count = len(gaps)
    mean = sum(gaps) / count
    half = 0.0
    if count > 1:
        variance = sum((gap - mean) ** 2 for gap in gaps) / (count - 1)
        quantile = _T[count - 2] if count - 2 < len(_T) else _NORMAL
        half = quantile * math.sqrt(variance / count)
    return Difference(
        name, sum(firsts) / count, sum(seconds) / count, mean, mean - half, mean + half
    )
