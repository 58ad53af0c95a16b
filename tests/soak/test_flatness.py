"""Tests of the checks whether memory levels off."""

from __future__ import annotations

import math

import pytest

from tests.soak.flatness import Sample, not_flat, rise
from tests.soak.processes import Usage


def life(rss: list[float], descriptors: int = 20, threads: int = 5) -> list[Sample]:
    return [
        Sample(5.0 * number, Usage(value, descriptors, threads)) for number, value in enumerate(rss)
    ]


FLAT = {
    "it stays": [100.0] * 100,
    "caches fill, and then it stays": [min(200.0, 100 + 6 * n) for n in range(100)],
    "caches fill ever more slowly": [200 - 100 * math.exp(-n / 20) for n in range(200)],
    "it goes up and down": [100.0 + 40 * (n % 7) for n in range(100)],
    "what is forgotten now and then comes back": [100 + (n % 37) / 2 for n in range(400)],
    "there is one peak at the end": [100.0] * 95 + [300.0] * 5,
    "it is too short to say": [10.0 * n for n in range(10)],
}
RISING = {
    "it goes up all the time": [100.0 + n for n in range(100)],
    "it goes up slowly": [140 + 0.03 * n for n in range(480)],
    "it goes up and down, and up": [100.0 + 40 * (n % 7) + n for n in range(100)],
    "it was flat for long": [100.0] * 120 + [100 + 0.2 * n for n in range(80)],
}


@pytest.mark.parametrize("rss", FLAT.values(), ids=FLAT)
def test_flat(rss: list[float]) -> None:
    assert not_flat(life(rss), most_mib=400) == []


@pytest.mark.parametrize("rss", RISING.values(), ids=RISING)
def test_rising(rss: list[float]) -> None:
    (problem,) = not_flat(life(rss), most_mib=400)
    assert problem.startswith("memory rose by")


def test_a_bound_that_is_passed() -> None:
    assert not_flat(life([201.0] * 50), most_mib=200) == ["memory is at 201 MiB, more than 200"]
    assert not_flat(life([300.0] * 20 + [199.0] * 80), most_mib=200) == []


def test_the_rise_is_that_of_the_line() -> None:
    assert rise([float(n) for n in range(120)]) == 110  # between the first and the last slice


def test_descriptors_and_threads() -> None:
    samples = [Sample(n, Usage(100.0, 20 + n, 5 + n // 10)) for n in range(100)]
    problems = not_flat(samples, most_mib=400)
    assert [each.split()[0] for each in problems] == ["descriptors", "threads"]
