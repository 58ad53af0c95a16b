"""Every metric, its labels and buckets, in one place (docs/reference/02 §11)."""

from __future__ import annotations

from kubesched.foundation.metrics.exposition import render
from kubesched.foundation.metrics.instruments import (
    CounterMetric,
    Family,
    GaugeMetric,
    HistogramMetric,
    exponential_buckets,
)
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics

__all__ = [
    "CounterMetric",
    "Family",
    "GaugeMetric",
    "HistogramMetric",
    "SchedulerMetrics",
    "exponential_buckets",
    "render",
]
