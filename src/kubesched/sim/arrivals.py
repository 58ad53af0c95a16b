"""Arrival processes: finite or endless sequences of times from the start of a run.

{at: [0s, 6h]}                                       at these times
{every: 10m, from: 1h, until: 9h}                    at a fixed period
{poisson: 30/h}                                      independent of each other, at a rate
{diurnal: {mean: 100/h, peak: 14h, swing: 0.8}}      at a rate that follows the time of day
{bursts: {every: 6h, size: 50, within: 1m}}          many at once, at a fixed period
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubesched.foundation.util.clock import SECOND
from kubesched.sim.values import ScenarioError, parse_duration_ns, parse_rate_ns

__all__ = ["Arrivals", "parse_arrivals"]

_DAY_NS: Final = 86_400 * SECOND
_KINDS: Final = ("at", "every", "poisson", "diurnal", "bursts")


class Arrivals(msgspec.Struct, frozen=True):
    """An arrival process; times are nanoseconds from the start of the run."""

    kind: str
    times_ns: tuple[int, ...] = ()
    gap_ns: float = 0.0  # mean time between two, or the period
    peak_ns: int = 0  # time of day
    swing: float = 0.0  # of the rate around its mean, 0 to 1
    size: int = 0
    within_ns: int = 0
    from_ns: int = 0
    until_ns: int | None = None

    def times(self, rng: random.Random, start_of_day_ns: int) -> Iterator[int]:
        """Yield the times in order. `start_of_day_ns` is the time of day when the run starts."""
        for time_ns in self._all_times(rng, start_of_day_ns):
            if self.until_ns is not None and time_ns >= self.until_ns:
                return
            yield time_ns

    def _all_times(self, rng: random.Random, start_of_day_ns: int) -> Iterator[int]:
        if self.kind == "at":
            yield from self.times_ns
            return
        now = float(self.from_ns)
        if self.kind == "every":
            while True:
                yield round(now)
                now += self.gap_ns
        elif self.kind == "bursts":
            while True:
                spread = sorted(rng.uniform(0, self.within_ns) for _ in range(self.size))
                yield from (round(now + each) for each in spread)
                now += self.gap_ns
        # Thinning: draw at the highest rate, and reject draws in proportion to the current rate.
        highest = (1 + self.swing) / self.gap_ns
        while True:
            now += rng.expovariate(highest)
            if not self.swing or rng.random() * highest <= self._rate(now + start_of_day_ns):
                yield round(now)

    def _rate(self, time_of_day_ns: float) -> float:
        angle = 2 * math.pi * ((time_of_day_ns - self.peak_ns) % _DAY_NS) / _DAY_NS
        return (1 + self.swing * math.cos(angle)) / self.gap_ns


def parse_arrivals(value: Any, path: str) -> Arrivals:
    """Parse an arrival process.

    Raises:
        ScenarioError: the value is not an arrival process.
    """
    if not isinstance(value, dict):
        raise ScenarioError(path, f"needs one of {', '.join(_KINDS)}")
    kinds = [key for key in value if key in _KINDS]
    unknown = [key for key in value if key not in (*_KINDS, "from", "until")]
    if unknown:
        raise ScenarioError(f"{path}.{unknown[0]}", f"unknown; known are {', '.join(_KINDS)}")
    if len(kinds) != 1:
        raise ScenarioError(path, f"needs one of {', '.join(_KINDS)}")
    kind, given = kinds[0], value[kinds[0]]
    at = f"{path}.{kind}"
    from_ns = parse_duration_ns(value.get("from", 0), f"{path}.from")
    until_ns = None
    if "until" in value:
        until_ns = parse_duration_ns(value["until"], f"{path}.until")
    limits: dict[str, Any] = {"from_ns": from_ns, "until_ns": until_ns}
    match kind:
        case "at":
            listed = given if isinstance(given, list) else [given]
            times = (parse_duration_ns(each, f"{at}[{n}]") for n, each in enumerate(listed))
            return Arrivals("at", times_ns=tuple(sorted(times)), until_ns=until_ns)
        case "every":
            return Arrivals("every", gap_ns=_period(given, at), **limits)
        case "poisson":
            return Arrivals("poisson", gap_ns=parse_rate_ns(given, at), **limits)
        case "diurnal":
            return _diurnal(given, at, limits)
    return _bursts(given, at, limits)


def _diurnal(given: Any, at: str, limits: dict[str, Any]) -> Arrivals:
    _only(given, at, "mean", "peak", "swing")
    swing = given.get("swing", 0.5)
    if not isinstance(swing, int | float) or not 0 <= swing <= 1:
        raise ScenarioError(f"{at}.swing", "must be from 0 to 1")
    return Arrivals(
        "diurnal",
        gap_ns=parse_rate_ns(given.get("mean"), f"{at}.mean"),
        peak_ns=parse_duration_ns(given.get("peak", "14h"), f"{at}.peak"),
        swing=float(swing),
        **limits,
    )


def _bursts(given: Any, at: str, limits: dict[str, Any]) -> Arrivals:
    _only(given, at, "every", "size", "within")
    size = given.get("size")
    if not isinstance(size, int) or size < 1:
        raise ScenarioError(f"{at}.size", "must be a whole number above zero")
    return Arrivals(
        "bursts",
        gap_ns=_period(given.get("every"), f"{at}.every"),
        size=size,
        within_ns=parse_duration_ns(given.get("within", 0), f"{at}.within"),
        **limits,
    )


def _period(value: Any, path: str) -> int:
    period_ns = parse_duration_ns(value, path)
    if period_ns <= 0:
        raise ScenarioError(path, "must be above zero")
    return period_ns


def _only(given: Any, path: str, *names: str) -> None:
    if not isinstance(given, dict):
        raise ScenarioError(path, f"needs {names[0]}, and may have {', '.join(names[1:])}")
    for name in given:
        if name not in names:
            raise ScenarioError(f"{path}.{name}", f"unknown; known are {', '.join(names)}")
