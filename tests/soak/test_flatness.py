"""What counts as levelling off."""

from __future__ import annotations

import pytest

from tests.soak.flatness import Sample, not_flat
from tests.soak.processes import Usage


def life(rss: list[float], descriptors: int = 20, threads: int = 5) -> list[Sample]:
    return [
        Sample(5.0 * number, Usage(value, descriptors, threads)) for number, value in enumerate(rss)
    ]


FLAT = {
    "it stays": [100.0] * 100,
    "caches fill, and then it stays": [min(200.0, 100 + 6 * n) for n in range(100)],
    "it goes up and down": [100.0 + 40 * (n % 7) for n in range(100)],
    "it is too short to say": [10.0 * n for n in range(10)],
}
RISING = {
    "it goes up all the time": [100.0 + n for n in range(100)],
    "it goes up and down, and up": [100.0 + 40 * (n % 7) + n for n in range(100)],
}


@pytest.mark.parametrize("rss", FLAT.values(), ids=FLAT)
def test_flat(rss: list[float]) -> None:
    assert not_flat(life(rss)) == []


@pytest.mark.parametrize("rss", RISING.values(), ids=RISING)
def test_rising(rss: list[float]) -> None:
    (problem,) = not_flat(life(rss))
    assert problem.startswith("memory rose")


def test_descriptors_and_threads() -> None:
    samples = [Sample(n, Usage(100.0, 20 + n, 5 + n // 10)) for n in range(100)]
    assert [each.split()[0] for each in not_flat(samples)] == ["descriptors", "threads"]
