"""Checks whether the memory, descriptors and threads of a process level off, from samples.

The samples are of one process from its start to its end. Its memory must stay below a bound, and
must not rise over the second half, when all tables are full. Peaks do not count. A leak raises the
minimum. So the half is cut into slices, the minimum of each is a point, and the slope is the median
of the slopes between all pairs of points. No single slice can change it much.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import NamedTuple

from tests.soak.processes import Usage

__all__ = ["Sample", "not_flat", "rise"]

_FEWEST = 24
_SLICES = 12
# How far the minimum may rise over the second half: a share, and an amount for small processes.
# The allocator alone makes memory vary by as much.
_RSS_SHARE, _RSS_MIB = 0.02, 2.0
_DESCRIPTORS = 6
_THREADS = 2


class Sample(NamedTuple):
    second: float
    usage: Usage


def not_flat(samples: Sequence[Sample], most_mib: float) -> list[str]:
    """Return what rises or exceeds its bound; nothing if there are too few samples."""
    if len(samples) < _FEWEST:
        return []
    half = samples[len(samples) // 2 :]
    minutes = (half[-1].second - half[0].second) / 60
    problems = []
    rss = [each.usage.rss_mib for each in half]
    if (risen := rise(rss)) > _RSS_SHARE * median(rss) + _RSS_MIB:
        problems.append(f"memory rose by {risen:.1f} MiB in its last {minutes:.0f} minutes")
    if (ground := _ground([each.usage.rss_mib for each in samples[-len(half) // 2 :]])) > most_mib:
        problems.append(f"memory is at {ground:.0f} MiB, more than {most_mib:.0f}")
    if (risen := rise([each.usage.descriptors for each in half])) > _DESCRIPTORS:
        problems.append(f"descriptors rose by {risen:.0f} in its last {minutes:.0f} minutes")
    if (risen := rise([each.usage.threads for each in half])) > _THREADS:
        problems.append(f"threads rose by {risen:.0f} in its last {minutes:.0f} minutes")
    return problems


def rise(values: Sequence[float]) -> float:
    """Return how far the minimum rises over all of these values, by its slope."""
    cuts = [len(values) * number // _SLICES for number in range(_SLICES + 1)]
    grounds = [_ground(values[a:b]) for a, b in pairwise(cuts) if a < b]
    slopes = [(later - sooner) / (b - a) for (a, sooner), (b, later) in _pairs(grounds)]
    return median(slopes) * (len(grounds) - 1) if slopes else 0.0


def _pairs(values: Sequence[float]) -> combinations[tuple[tuple[int, float], tuple[int, float]]]:
    return combinations(enumerate(values), 2)


def _ground(values: Sequence[float]) -> float:
    """Return a low value: a tenth of the others are below it.

    The process returns memory every ten seconds and grows in between, so higher values mean little.
    """
    return sorted(values)[len(values) // 10]
