"""Percentiles of many durations in constant memory: each bucket is 1 % wider than the last."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["Histogram"]

_GROWTH: Final = math.log(1.01)
_PERCENTILES: Final = (50, 90, 95, 99)


class Histogram:
    """Counts durations; a percentile is exact to 0.5 % for any number of them."""

    __slots__ = ("_buckets", "count", "highest_ns", "total_ns")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count = 0
        self.total_ns = 0
        self.highest_ns = 0

    def add(self, duration_ns: int) -> None:
        bucket = -1 if duration_ns <= 0 else int(math.log(duration_ns) / _GROWTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.total_ns += duration_ns
        self.highest_ns = max(self.highest_ns, duration_ns)

    def merge(self, other: Histogram) -> None:
        """Add the counts of another histogram."""
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.total_ns += other.total_ns
        self.highest_ns = max(self.highest_ns, other.highest_ns)

    def percentile_ns(self, percent: float) -> int:
        """Return the duration that `percent` of all do not exceed; 0 without any."""
        rank = math.ceil(self.count * percent / 100)
        counted = 0
        for bucket in sorted(self._buckets):
            counted += self._buckets[bucket]
            if counted >= rank:
                if bucket < 0:
                    return 0
                return min(self.highest_ns, round(math.exp((bucket + 0.5) * _GROWTH)))
        return 0

    def summary(self) -> Mapping[str, Any]:
        """Return count, mean, percentiles and maximum, in seconds."""
        if not self.count:
            return {"count": 0}
        seconds = {f"p{p}": self.percentile_ns(p) / 1e9 for p in _PERCENTILES}
        return {
            "count": self.count,
            "mean": self.total_ns / self.count / 1e9,
            **seconds,
            "max": self.highest_ns / 1e9,
        }
