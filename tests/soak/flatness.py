"""Whether what a process holds levels off: samples in, a verdict out.

Looked at is one life of a process, without its first fifth, in which caches fill. What is left is
cut into four: the lowest values of the last quarter may be only a little above those of the
first. Peaks do not count, they come and go; a leak lifts the ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.soak.processes import Usage

__all__ = ["Sample", "growth", "not_flat"]

_WARM_UP = 0.2
_FEWEST = 20
# How far the ground may rise: a share of what was there, and an amount for the little ones.
_RSS_SHARE, _RSS_MIB = 0.06, 6.0
_DESCRIPTORS = 6
_THREADS = 2


class Sample(NamedTuple):
    second: float
    usage: Usage


def growth(values: Sequence[float]) -> tuple[float, float]:
    """The ground of the first and of the last quarter of a life."""
    settled = values[int(len(values) * _WARM_UP) :]
    quarter = max(1, len(settled) // 4)
    return _ground(settled[:quarter]), _ground(settled[-quarter:])


def _ground(values: Sequence[float]) -> float:
    """A low value, though not the lowest: a quarter of the others are below."""
    return sorted(values)[len(values) // 4]


def not_flat(samples: Sequence[Sample]) -> list[str]:
    """What rises in a life; nothing if all is flat, or the life too short to say."""
    if len(samples) < _FEWEST:
        return []
    problems = []
    before, after = growth([each.usage.rss_mib for each in samples])
    if after > before * (1 + _RSS_SHARE) + _RSS_MIB:
        problems.append(f"memory rose from {before:.0f} to {after:.0f} MiB")
    before, after = growth([each.usage.descriptors for each in samples])
    if after > before + _DESCRIPTORS:
        problems.append(f"descriptors rose from {before:.0f} to {after:.0f}")
    before, after = growth([each.usage.threads for each in samples])
    if after > before + _THREADS:
        problems.append(f"threads rose from {before:.0f} to {after:.0f}")
    return problems
