"""Percentiles of many durations in little memory: buckets that grow by one percent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["Histogram"]

_GROWTH: Final = math.log(1.01)
_PERCENTILES: Final = (50, 90, 95, 99)


class Histogram:
    """Counts durations; a percentile is right to half a percent, however many there are."""

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
        """Add what another one counted."""
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count
        self.count += other.count
        self.total_ns += other.total_ns
        self.highest_ns = max(self.highest_ns, other.highest_ns)

    def percentile_ns(self, percent: float) -> int:
        """The duration that so many percent do not exceed; 0 if there are none."""
        wanted = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                if bucket < 0:
                    return 0
                return min(self.highest_ns, round(math.exp((bucket + 0.5) * _GROWTH)))
        return 0

    def summary(self) -> Mapping[str, Any]:
        """Seconds, for results."""
        if not self.count:
            return {"count": 0}
        seconds = {f"p{p}": self.percentile_ns(p) / 1e9 for p in _PERCENTILES}
        return {
            "count": self.count,
            "mean": self.total_ns / self.count / 1e9,
            **seconds,
            "max": self.highest_ns / 1e9,
        }
