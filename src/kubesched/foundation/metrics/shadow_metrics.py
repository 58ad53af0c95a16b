"""The metrics of `kubesched run --shadow`. The reference has none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.instruments import CounterMetric, Family, FamilyGroup, GaugeMetric

__all__ = ["ShadowMetrics"]


class ShadowMetrics(FamilyGroup):
    """Counts of compared decisions, registered with the given registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        # Called before values are read.
        self.before_collect: list[Callable[[], None]] = []
        self.decisions_total: Family[CounterMetric] = self.counter(
            "kubesched_shadow_decisions_total",
            "[ALPHA] Decisions of the other scheduler, by how they compare with those of the "
            "shadow, and by the state in which they were compared.",
            "profile",
            "verdict",
            "state",
        )
        self.held_back: GaugeMetric = self.gauge(
            "kubesched_shadow_held_back_changes",
            "[ALPHA] Changes of the cluster that are held back to put them in order.",
        ).labels()
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        for refresh in self.before_collect:
            refresh()
        return super().collect()
