"""The arithmetic of the benchmarks, tested without timing."""

from __future__ import annotations

import gc

import pytest

from benchmarks.measuring import (
    GcPauses,
    Spent,
    median_of,
    peak_rss_mib,
    percentile,
    rates,
    rss_mib,
)


def test_rates_divide_by_wall_and_by_processor_time() -> None:
    assert rates(1000, Spent(wall_s=2.0, cpu_s=0.5)) == {
        "seconds": 2.0,
        "cpu_seconds": 0.5,
        "pods_per_s": 500.0,
        "pods_per_cpu_s": 2000.0,
    }


@pytest.mark.parametrize(
    ("runs", "want"),
    [([3.0], 3.0), ([5.0, 1.0, 3.0], 3.0), ([4.0, 1.0], 1.0)],
    ids=["of one", "the middle", "the lower of two"],
)
def test_median_is_one_of_the_runs(runs: list[float], want: float) -> None:
    left = iter(runs)
    assert median_of(len(runs), lambda: next(left), lambda run: run) == want


@pytest.mark.parametrize(
    ("percent", "want"),
    [(50, 5), (90, 9), (99, 10), (100, 10), (1, 1)],
)
def test_percentile_is_the_nearest_rank(percent: float, want: float) -> None:
    values = [float(value) for value in range(10, 0, -1)]
    assert percentile(values, percent) == want


def test_the_percentile_of_no_values_is_zero() -> None:
    assert percentile([], 99) == 0


def test_collections_are_counted_only_inside_the_block() -> None:
    with GcPauses() as pauses:
        gc.collect()
    counted = pauses.count
    gc.collect()
    assert counted >= 1
    assert pauses.count == counted
    assert 0 < pauses.longest_ms <= pauses.total_ms


def test_peak_memory_is_not_below_current_memory() -> None:
    assert 0 < rss_mib() <= peak_rss_mib()
