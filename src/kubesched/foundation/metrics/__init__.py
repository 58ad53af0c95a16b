"""Every metric, its labels and buckets, in one place (docs/reference/02 §11)."""

from __future__ import annotations

from kubesched.foundation.metrics.exposition import render
from kubesched.foundation.metrics.instruments import (
    Counter,
    Family,
    Gauge,
    Histogram,
    exponential_buckets,
)
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "SchedulerMetrics",
    "exponential_buckets",
    "render",
]
