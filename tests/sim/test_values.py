"""Durations, rates and distributions of a scenario."""

from __future__ import annotations

import random
import statistics
from typing import Any

import pytest

from kubesched.sim.arrivals import parse_arrivals
from kubesched.sim.histogram import Histogram
from kubesched.sim.pod_kinds import PodKinds
from kubesched.sim.values import (
    ScenarioError,
    format_duration,
    parse_distribution,
    parse_duration_ns,
    parse_rate_ns,
)

S = 10**9
HOUR = 3600 * S


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("90s", 90 * S),
        ("1h30m", 5400 * S),
        ("2d", 172_800 * S),
        ("1w", 604_800 * S),
        (5, 5 * S),
        (0.5, S // 2),
        ("250ms", S // 4),
        ("1.5h", 5400 * S),
    ],
)
def test_durations(text: Any, want: int) -> None:
    assert parse_duration_ns(text) == want


@pytest.mark.parametrize("text", ["", "h", "1 h", "-5s", "5x", None, [], "1h-", True, "1000000w"])
def test_invalid_durations_are_refused(text: Any) -> None:
    with pytest.raises(ScenarioError, match=r"is not a duration|more than a hundred years"):
        parse_duration_ns(text, "x")


@pytest.mark.parametrize(
    ("duration_ns", "want"),
    [
        (0, "0s"),
        (S // 10, "100ms"),
        (42_700_000_000, "42.7s"),
        (90 * S, "1m30s"),
        (3600 * S, "1h"),
        (90_061 * S, "1d1h"),
    ],
)
def test_durations_for_people(duration_ns: int, want: str) -> None:
    assert format_duration(duration_ns) == want


def test_a_rate_is_a_mean_time_between() -> None:
    assert parse_rate_ns("30/h", "x") == 120 * S
    for wrong in ("30", "x/h", "3/y", "0/h", 7, "-1/h"):
        with pytest.raises(ScenarioError, match="is not a rate"):
            parse_rate_ns(wrong, "x")


def draws(value: Any, count: int = 4000) -> list[int]:
    rng = random.Random(3)
    distribution = parse_distribution(value, "x", parse_duration_ns)
    return [distribution.draw(rng) for _ in range(count)]


def test_a_constant_draws_nothing() -> None:
    rng = random.Random(1)
    before = rng.getstate()
    assert parse_distribution("10m", "x", parse_duration_ns).draw(rng) == 600 * S
    assert rng.getstate() == before


@pytest.mark.parametrize(
    ("value", "mean_s"),
    [
        ({"uniform": ["1m", "3m"]}, 120),
        ({"exponential": {"mean": "10m"}}, 600),
        ({"normal": {"mean": "10m", "deviation": "1m"}}, 600),
        ({"choice": ["1m", "3m"], "weights": [3, 1]}, 90),
        ({"pareto": {"minimum": "1m", "shape": 3}}, 90),
    ],
)
def test_means(value: Any, mean_s: float) -> None:
    assert statistics.fmean(draws(value)) / S == pytest.approx(mean_s, rel=0.06)


def test_a_lognormal_has_its_median() -> None:
    found = draws({"lognormal": {"median": "10m", "sigma": 1}})
    assert statistics.median(found) / S == pytest.approx(600, rel=0.06)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"uniform": ["5m", "1m"]}, "x.uniform: the first value must not be above the second"),
        ({"uniform": ["5m"]}, "x.uniform: needs the least and the largest value"),
        ({"gauss": 1}, "x: no distribution 'gauss'; known are choice, exponential"),
        ({"normal": {"mean": "1m"}}, "x.normal: needs mean and deviation"),
        ({"choice": []}, "x.choice: needs a list of values"),
        ({"choice": ["1m"], "weights": [0]}, "x.weights: needs a number for each value"),
        ({"exponential": {"mean": "soon"}}, "x.exponential.mean: 'soon' is not a duration"),
        ({"uniform": [1, 2], "normal": 3}, "x: a distribution has one key"),
        ({"pareto": {"minimum": 1, "shape": 0}}, "x.pareto.shape: must be a number above zero"),
    ],
)
def test_invalid_distributions_are_refused(value: Any, want: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_distribution(value, "x", parse_duration_ns)
    assert str(caught.value).startswith(want)


def times(value: Any, until: str, start_of_day_ns: int = 0) -> list[int]:
    rule = parse_arrivals({**value, "until": until}, "x")
    return list(rule.times(random.Random(5), start_of_day_ns))


def test_arrivals_at_times_and_every_so_often() -> None:
    assert list(parse_arrivals({"at": ["6h", 0]}, "x").times(random.Random(1), 0)) == [0, 6 * HOUR]
    assert times({"every": "2h", "from": "1h"}, "6h") == [HOUR, 3 * HOUR, 5 * HOUR]


def test_arrivals_at_a_rate() -> None:
    found = times({"poisson": "100/h"}, "50h")
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert found == sorted(found)


def test_arrivals_that_follow_the_day() -> None:
    found = times({"diurnal": {"mean": "200/h", "peak": "14h", "swing": 0.9}}, "10d")
    assert len(found) == pytest.approx(48_000, rel=0.03)
    by_hour = [0] * 24
    for each in found:
        by_hour[each // HOUR % 24] += 1
    assert by_hour[13] + by_hour[14] > 10 * (by_hour[1] + by_hour[2])


def test_the_day_begins_when_the_run_begins() -> None:
    rule = {"diurnal": {"mean": "500/h", "peak": "12h", "swing": 1}}
    at_noon = len(times(rule, "1h", start_of_day_ns=12 * HOUR))
    assert at_noon > 5 * len(times(rule, "1h"))


def test_bursts() -> None:
    found = times({"bursts": {"every": "1h", "size": 20, "within": "1m"}}, "3h")
    assert len(found) == 60
    assert all(each % HOUR <= 60 * S for each in found)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({}, "x: needs one of at, every"),
        ({"sometimes": 1}, "x.sometimes: unknown"),
        ({"every": 0}, "x.every: must be above zero"),
        ({"bursts": {"every": "1h", "size": 0}}, "x.bursts.size: must be a whole number above"),
        ({"diurnal": {"mean": "1/h", "swing": 2}}, "x.diurnal.swing: must be from 0 to 1"),
        ({"diurnal": {"mean": "1/h", "top": 2}}, "x.diurnal.top: unknown"),
        ("soon", "x: needs one of"),
    ],
)
def test_invalid_arrival_processes_are_refused(value: Any, want: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_arrivals(value, "x")
    assert str(caught.value).startswith(want)


def test_percentiles_are_accurate_to_half_a_percent() -> None:
    rng = random.Random(2)
    values = sorted(round(rng.expovariate(1) * 60 * S) for _ in range(5000))
    counted = Histogram()
    for value in values:
        counted.add(value)
    for percent in (50, 90, 99):
        exact = values[len(values) * percent // 100 - 1]
        assert counted.percentile_ns(percent) == pytest.approx(exact, rel=0.006)
    assert counted.summary()["max"] == values[-1] / 1e9
    assert Histogram().percentile_ns(50) == 0


def test_kinds_of_pods_are_exact_while_they_are_few() -> None:
    kinds = PodKinds()
    for number in range(100):
        kinds.add({"memory": 1 + number % 3, "cpu": 7})
    assert kinds.ranked() == [
        ((("cpu", 7), ("memory", 1)), 34),
        ((("cpu", 7), ("memory", 2)), 33),
        ((("cpu", 7), ("memory", 3)), 33),
    ]


def test_similar_kinds_of_pods_count_as_one_when_they_are_many() -> None:
    kinds, rng = PodKinds(), random.Random(3)
    drawn = [{"cpu": rng.randint(100, 4000), "memory": rng.randint(1, 2**35)} for _ in range(5000)]
    for amounts in drawn:
        kinds.add(amounts)
    ranked = kinds.ranked()
    assert 16 <= len(ranked) == len(kinds) <= 64
    assert sum(count for _, count in ranked) >= 4900, "only rare ones are left out"
    mean = sum(dict(kind)["cpu"] * count for kind, count in ranked) / 5000
    assert mean == pytest.approx(sum(each["cpu"] for each in drawn) / 5000, rel=0.1)
