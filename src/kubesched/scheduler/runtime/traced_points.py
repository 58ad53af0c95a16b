"""Metrics of extension points that are also spans, for a scheduler that exports traces."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.spans import Tracer, current_span
from kubesched.framework import Code
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics

__all__ = ["TracedPointMetrics"]


class TracedPointMetrics(PointMetrics):
    """Makes a span of each extension point that is observed in a sampled attempt."""

    def __init__(
        self,
        metrics: SchedulerMetrics,
        profile: str,
        plugins: ProfilePlugins,
        now_ns: Callable[[], int],
        tracer: Tracer,
    ) -> None:
        super().__init__(metrics, profile, plugins, now_ns)
        self._tracer = tracer

    def observe(self, point: str, code: Code, started_ns: int) -> int:
        parent = current_span.get()
        if parent is not None:
            error = "" if code is not Code.ERROR else "a plugin failed"
            self._tracer.child(parent, point, started_ns, {"code": code.label}, error)
        return super().observe(point, code, started_ns)
