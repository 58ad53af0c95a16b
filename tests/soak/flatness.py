"""Whether what a process holds levels off: samples in, a verdict out.

Looked at is one life of a process. Two things must hold of its memory: it stays below a bound that
is stated beforehand, and over the second half of the life, when all tables are full, it does not
rise. Peaks do not count, they come and go; a leak lifts the ground. So the half is cut into
slices, the ground of each is a point, and the slope is the median of those between all pairs of
points: no single slice can bend it.
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
# How far the ground may rise from the middle of a life to its end: a share of what is there, and
# an amount for the little ones. The allocator gives or takes so much.
_RSS_SHARE, _RSS_MIB = 0.02, 2.0
_DESCRIPTORS = 6
_THREADS = 2


class Sample(NamedTuple):
    second: float
    usage: Usage


def not_flat(samples: Sequence[Sample], most_mib: float) -> list[str]:
    """What rises in a life, or is above its bound; nothing if the life is too short to say."""
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
    """How far the ground rises over all of these values, by its slope."""
    cuts = [len(values) * number // _SLICES for number in range(_SLICES + 1)]
    grounds = [_ground(values[a:b]) for a, b in pairwise(cuts) if a < b]
    slopes = [(later - sooner) / (b - a) for (a, sooner), (b, later) in _pairs(grounds)]
    return median(slopes) * (len(grounds) - 1) if slopes else 0.0


def _pairs(values: Sequence[float]) -> combinations[tuple[tuple[int, float], tuple[int, float]]]:
    return combinations(enumerate(values), 2)


def _ground(values: Sequence[float]) -> float:
    """A low value, though not the lowest: a tenth of the others are below.

    Memory is given back once a minute and rises in between, so higher values say little.
    """
    return sorted(values)[len(values) // 10]
