"""Every metric, its labels and buckets, in one place (docs/reference/02 §11)."""

from __future__ import annotations

from kubesched.metrics.exposition import render
from kubesched.metrics.instruments import Counter, Family, Gauge, Histogram, exponential_buckets
from kubesched.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "SchedulerMetrics",
    "exponential_buckets",
    "render",
]
