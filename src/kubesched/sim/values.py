"""Durations, rates and distributions of a scenario file.

    10m                                   a constant
    {uniform: [1m, 5m]}                   uniform between two values
    {exponential: {mean: 10m}}            as times between independent arrivals
    {normal: {mean: 10m, deviation: 2m}}  cut off at zero
    {lognormal: {median: 10m, sigma: 1}}  many short, few very long
    {pareto: {minimum: 1m, shape: 1.5}}   with an even longer tail
    {choice: [1m, 1h], weights: [9, 1]}   one of a table; equally likely without weights

Durations are `90s`, `1h30m`, `2d`, `1w`, or a number of seconds. A parsed value is an `int` in
nanoseconds, or in the unit of the parser that the caller passes in.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "Distribution",
    "ScenarioError",
    "constant",
    "format_duration",
    "parse_distribution",
    "parse_duration_ns",
    "parse_rate_ns",
]

_UNITS_NS: Final = {
    "ms": SECOND // 1000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 7 * 86_400 * SECOND,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST: Final = 100 * 365 * 86_400 * SECOND

Parse = Callable[[Any], int]


class ScenarioError(ConfigError):
    """A scenario is invalid; `path` is the place of the error, such as `a.b[0].c`."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path = path
        self.text = text


def parse_duration_ns(value: Any, path: str = "") -> int:
    """Parse a duration; return nanoseconds.

    Raises:
        ScenarioError: the value is not a duration.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = f"{value}s"
    if not isinstance(value, str):
        raise ScenarioError(path, f"{value!r} is not a duration such as 90s, 1h30m or 2d")
    parts = _PART.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ScenarioError(path, f"{value!r} is not a duration such as 90s, 1h30m or 2d")
    total = sum(round(float(number) * _UNITS_NS[unit]) for number, unit in parts)
    if total > _LONGEST:
        raise ScenarioError(path, f"{value!r} is more than a hundred years")
    return total


def parse_rate_ns(value: Any, path: str) -> float:
    """Parse a rate such as `30/h`; return the mean time between two arrivals in nanoseconds."""
    if isinstance(value, str) and value.count("/") == 1:
        number, _, unit = value.partition("/")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if unit in _UNITS_NS and rate > 0 and math.isfinite(rate):
            return _UNITS_NS[unit] / rate
    raise ScenarioError(path, f"{value!r} is not a rate such as 30/h or 0.5/d")


def format_duration(duration_ns: int) -> str:
    """Format a duration for display, with at most two units."""
    if duration_ns < SECOND:
        return f"{duration_ns / (SECOND // 1000):.3g}ms" if duration_ns else "0s"
    rest = duration_ns
    parts: list[tuple[int, str]] = []
    for unit in ("d", "h", "m", "s"):
        number, rest = divmod(rest, _UNITS_NS[unit])
        if number or parts:
            parts.append((number, unit))
    if len(parts) == 1 and rest:
        return f"{duration_ns / SECOND:.3g}s"
    return "".join(f"{number}{unit}" for number, unit in parts[:2] if number)


class Distribution(msgspec.Struct, frozen=True):
    """A distribution of values, from which a run draws."""

    kind: str
    values: tuple[int, ...]
    shape: float = 0.0
    weights: tuple[float, ...] = ()

    def draw(self, rng: random.Random) -> int:
        """Draw a value, never below zero. A constant uses no random number."""
        values = self.values
        match self.kind:
            case "constant":
                return values[0]
            case "uniform":
                return round(rng.uniform(values[0], values[1]))
            case "exponential":
                return round(rng.expovariate(1) * values[0])
            case "normal":
                return max(0, round(rng.normalvariate(values[0], values[1])))
            case "lognormal":
                return round(values[0] * math.exp(self.shape * rng.normalvariate(0, 1)))
            case "pareto":
                return round(values[0] * rng.paretovariate(self.shape))
        # The same draw as `rng.choices`, in half the time.
        sums = _sums(self.weights)
        return values[bisect(sums, rng.random() * sums[-1], 0, len(values) - 1)]

    @property
    def typical(self) -> int:
        """A central value, for estimates before the run."""
        match self.kind:
            case "uniform":
                return sum(self.values) // 2
            case "choice":
                return sorted(self.values)[len(self.values) // 2]
        return self.values[0]


@lru_cache(maxsize=256)
def _sums(weights: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(accumulate(weights))


def constant(value: int) -> Distribution:
    return Distribution("constant", (value,))


_PARAMETERS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    # kind: names of values, name of a plain number
    "exponential": (("mean",), ""),
    "normal": (("mean", "deviation"), ""),
    "lognormal": (("median",), "sigma"),
    "pareto": (("minimum",), "shape"),
}


def parse_distribution(value: Any, path: str, parse: Parse) -> Distribution:
    """Parse a constant or a distribution; `parse` reads the single values.

    Raises:
        ScenarioError: the value is neither.
    """
    if not isinstance(value, dict):
        return constant(_parsed(parse, value, path))
    kinds = [key for key in value if key != "weights"]
    if len(kinds) != 1:
        raise ScenarioError(path, "a distribution has one key, such as uniform or exponential")
    kind, given = kinds[0], value[kinds[0]]
    at = f"{path}.{kind}"
    if kind == "uniform":
        return _uniform(given, at, parse)
    if kind == "choice":
        return _choice(value, given, path, parse)
    if kind not in _PARAMETERS:
        known = ", ".join(sorted([*_PARAMETERS, "uniform", "choice"]))
        raise ScenarioError(path, f"no distribution {kind!r}; known are {known}")
    return _by_parameters(kind, given, at, parse)


def _uniform(given: Any, at: str, parse: Parse) -> Distribution:
    if not isinstance(given, list) or len(given) != 2:
        raise ScenarioError(at, "needs the least and the largest value: [1m, 5m]")
    low, high = (_parsed(parse, each, f"{at}[{n}]") for n, each in enumerate(given))
    if low > high:
        raise ScenarioError(at, "the first value must not be above the second")
    return Distribution("uniform", (low, high))


def _by_parameters(kind: str, given: Any, at: str, parse: Parse) -> Distribution:
    names, number = _PARAMETERS[kind]
    wanted = [*names, *([number] if number else [])]
    if not isinstance(given, dict) or sorted(given) != sorted(wanted):
        raise ScenarioError(at, f"needs {' and '.join(wanted)}")
    values = tuple(_parsed(parse, given[name], f"{at}.{name}") for name in names)
    shape = given[number] if number else 0.0
    if not isinstance(shape, int | float) or (number and shape <= 0):
        raise ScenarioError(f"{at}.{number}", "must be a number above zero")
    return Distribution(kind, values, float(shape))


def _choice(value: dict[str, Any], given: Any, path: str, parse: Parse) -> Distribution:
    if not isinstance(given, list) or not given:
        raise ScenarioError(f"{path}.choice", "needs a list of values")
    values = tuple(_parsed(parse, each, f"{path}.choice[{n}]") for n, each in enumerate(given))
    weights = value.get("weights", [1] * len(values))
    if (
        not isinstance(weights, list)
        or len(weights) != len(values)
        or not all(isinstance(each, int | float) and each >= 0 for each in weights)
        or not sum(weights)
    ):
        raise ScenarioError(f"{path}.weights", "needs a number for each value, not all zero")
    return Distribution("choice", values, 0.0, tuple(map(float, weights)))


def _parsed(parse: Parse, value: Any, path: str) -> int:
    try:
        return parse(value)
    except ScenarioError as error:
        raise ScenarioError(path, error.text) from error
    except ValueError as error:
        raise ScenarioError(path, str(error)) from error
