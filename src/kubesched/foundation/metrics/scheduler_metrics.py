"""Every `scheduler_*` metric (docs/reference/02 §11.2, 03 §14, 04 §19).

Attributes have the metric's name without its prefix. A metric with labels is a `Family`:
`metrics.goroutines.labels("binding").inc()`. Cache a child that is used often. A metric
without labels is its instrument: `metrics.preemption_attempts_total.inc()`.

Metrics of features that are off are absent (None), as in the reference. Help texts of stable
metrics are the reference's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.instruments import (
    CounterMetric,
    Family,
    FamilyGroup,
    GaugeMetric,
    HistogramMetric,
    KeptChildren,
    exponential_buckets,
)

__all__ = ["AttemptResult", "SchedulerMetrics"]

AttemptResult = Literal["scheduled", "unschedulable", "error"]

_LATENCY = exponential_buckets(0.001, 2, 15)
_PER_POINT = exponential_buckets(0.0001, 2, 12)
_PER_PLUGIN = exponential_buckets(0.00001, 1.5, 20)
_BATCHING = exponential_buckets(0.00001, 2, 12)
_LONG = exponential_buckets(0.01, 2, 20)
_DEVICES = exponential_buckets(0.1, 2, 14)

# Attempts beyond the fourteenth share one label value.
_MANY_ATTEMPTS = 15


class SchedulerMetrics(FamilyGroup):
    """The scheduler's metrics, registered with the given registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        async_api_calls: bool = False,
        pod_groups: bool = False,
    ) -> None:
        super().__init__()
        # Called before values are read: values that are only set then cost less than constant
        # updates.
        self.before_collect: list[Callable[[], None]] = []
        self._define_attempts()
        self._attempts: KeptChildren[tuple[str, str], tuple[CounterMetric, HistogramMetric]] = (
            KeptChildren(self._attempt_children)
        )
        self._waits: KeptChildren[int, HistogramMetric] = KeptChildren(self._wait_children)
        self._define_queue()
        self._define_framework()
        self._define_batching()
        self._define_preemption()
        self._define_resources()
        self._define_async_api_calls(async_api_calls)
        self._define_pod_groups(pod_groups)
        for queue in ("active", "backoff", "unschedulable", "gated"):
            self.pending_pods.labels(queue)
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        self._refresh()
        return super().collect()

    def reset(self) -> None:
        self._refresh()
        super().reset()

    def _refresh(self) -> None:
        for refresh in self.before_collect:
            refresh()

    def observe_attempt(self, result: AttemptResult, profile: str, duration_ns: int) -> None:
        """Count an attempt and its duration, from the start of its cycle to its result."""
        attempts, durations = self._attempts[result, profile]
        attempts.value += 1
        durations.observe_ns(duration_ns)

    def observe_bound(self, attempts: int, since_first_queued_ns: int | None) -> None:
        """Record the latency of a bound pod; None if it was never admitted to the queue."""
        self.pod_scheduling_attempts.observe(attempts)
        if since_first_queued_ns is not None:
            self._waits[min(attempts, _MANY_ATTEMPTS)].observe_ns(since_first_queued_ns)

    def _attempt_children(self, labels: tuple[str, str]) -> tuple[CounterMetric, HistogramMetric]:
        return (
            self.schedule_attempts_total.labels(*labels),
            self.scheduling_attempt_duration_seconds.labels(*labels),
        )

    def _wait_children(self, attempts: int) -> HistogramMetric:
        label = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
        return self.pod_scheduling_sli_duration_seconds.labels(label)

    def count_preemption_attempt(self) -> None:
        self.preemption_attempts_total.inc()

    def observe_preemption_victims(self, count: int) -> None:
        self.preemption_victims.observe(count)

    def count_volume_error(self, operation: str) -> None:
        self.volume_scheduling_stage_error_total.labels(operation).inc()

    def observe_background_preemption(self, result: str, duration_ns: int) -> None:
        self.preemption_goroutines_execution_total.labels(result).inc()
        self.preemption_goroutines_duration_seconds.labels(result).observe_ns(duration_ns)

    def count_created_claim(self, status: str) -> None:
        self.resourceclaim_creates_total.labels(status).inc()

    def count_binding_conditions(self, profile: str, driver: str, status: str) -> None:
        self.dra_bindingconditions_allocations_total.labels(profile, driver, status).inc()

    def observe_binding_conditions(
        self, profile: str, driver: str, status: str, duration_ns: int
    ) -> None:
        waits = self.dra_bindingconditions_wait_duration_seconds
        waits.labels(profile, driver, status).observe_ns(duration_ns)

    def show_plugin_evaluations(self, profile: str, points: Mapping[str, Iterable[str]]) -> None:
        """Create the series of a profile's plugins before the first evaluation.

        `points` maps PreFilter, Filter, PreScore and Score to the plugins enabled there.
        """
        for point, plugins in points.items():
            for plugin in plugins:
                self.plugin_evaluation_total.labels(plugin, point, profile)

    def set_cache_size(self, *, nodes: int, pods: int, assumed_pods: int) -> None:
        self.cache_size.labels("nodes").set(nodes)
        self.cache_size.labels("pods").set(pods)
        self.cache_size.labels("assumed_pods").set(assumed_pods)

    def _define_attempts(self) -> None:
        self.schedule_attempts_total: Family[CounterMetric] = self.counter(
            "scheduler_schedule_attempts_total",
            "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means "
            "a pod could not be scheduled, while 'error' means an internal scheduler problem.",
            "result",
            "profile",
        )
        self.scheduling_attempt_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            _LATENCY,
            "result",
            "profile",
        )
        self.scheduling_algorithm_duration_seconds: HistogramMetric = self.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Seconds spent on choosing a node, including PostFilter when none fits",
            _LATENCY,
        ).labels()
        self.pod_scheduling_attempts: HistogramMetric = self.histogram(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Number of attempts to successfully schedule a pod.",
            exponential_buckets(1, 2, 5),
        ).labels()
        self.pod_scheduling_sli_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] Seconds from a pod's first admission to the queue until it was bound, over "
            "all its attempts.",
            _LONG,
            "attempts",
        )
        self.pod_scheduled_after_flush_total: CounterMetric = self.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Pods that were placed only because they had waited so long that they were "
            "tried again without cause. Growth points at a queueing hint that misses an event.",
        ).labels()

    def _define_queue(self) -> None:
        self.pending_pods: Family[GaugeMetric] = self.gauge(
            "scheduler_pending_pods",
            "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods "
            "in activeQ; 'backoff' means number of pods in backoffQ; 'unschedulable' means "
            "number of pods in unschedulablePods that the scheduler attempted to schedule and "
            "failed; 'gated' is the number of unschedulable pods that the scheduler never "
            "attempted to schedule because they are gated.",
            "queue",
        )
        self.queue_incoming_pods_total: Family[CounterMetric] = self.counter(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Number of pods added to scheduling queues by event and queue type.",
            "queue",
            "event",
        )
        self.unschedulable_pods: Family[GaugeMetric] = self.gauge(
            "scheduler_unschedulable_pods",
            "[BETA] Pods that wait because of this plugin. A pod counts once for each plugin "
            "that rejected it, so sums over plugins mean nothing.",
            "plugin",
            "profile",
        )
        self.queueing_hint_execution_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Seconds that a plugin's queueing hint took to judge an event.",
            _PER_PLUGIN,
            "plugin",
            "event",
            "hint",
        )
        self.inflight_events: Family[GaugeMetric] = self.gauge(
            "scheduler_inflight_events",
            "[ALPHA] Events held for pods whose attempt is under way.",
            "event",
        )
        self.event_handling_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Seconds spent on handling a change that was watched.",
            _PER_POINT,
            "event",
        )
        self.cache_size: Family[GaugeMetric] = self.gauge(
            "scheduler_cache_size",
            "[ALPHA] Nodes, pods and assumed pods in the scheduler's cache.",
            "type",
        )

    def _define_framework(self) -> None:
        self.framework_extension_point_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Latency for running all plugins of a specific extension point.",
            _PER_POINT,
            "extension_point",
            "status",
            "profile",
        )
        self.plugin_execution_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Seconds that one plugin took at one extension point, in sampled cycles.",
            _PER_PLUGIN,
            "plugin",
            "extension_point",
            "status",
        )
        self.plugin_evaluation_total: Family[CounterMetric] = self.counter(
            "scheduler_plugin_evaluation_total",
            "[BETA] How often a plugin was evaluated at PreFilter, Filter, PreScore or Score.",
            "plugin",
            "extension_point",
            "profile",
        )
        self.permit_wait_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Seconds that pods waited on Permit.",
            _LATENCY,
            "result",
        )
        self.goroutines: Family[GaugeMetric] = self.gauge(
            "scheduler_goroutines",
            "[BETA] Concurrent pieces of work, by what they do, such as binding.",
            "operation",
        )

    def _define_batching(self) -> None:
        self.batch_attempts_total: Family[CounterMetric] = self.counter(
            "scheduler_batch_attempts_total",
            "[ALPHA] Attempts by what became of the hint from an earlier, equal pod.",
            "profile",
            "result",
        )
        self.batch_cache_flushed_total: Family[CounterMetric] = self.counter(
            "scheduler_batch_cache_flushed_total",
            "[ALPHA] How often the hints for equal pods were thrown away, by reason.",
            "profile",
            "reason",
        )
        self.get_node_hint_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_get_node_hint_duration_seconds",
            "[ALPHA] Seconds spent on looking for a hint from an earlier, equal pod.",
            _BATCHING,
            "hinted",
            "profile",
        )
        self.store_schedule_results_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_store_schedule_results_duration_seconds",
            "[ALPHA] Seconds spent on keeping an attempt's results for equal pods.",
            _BATCHING,
            "profile",
        )

    def _define_preemption(self) -> None:
        self.preemption_victims: HistogramMetric = self.histogram(
            "scheduler_preemption_victims",
            "[STABLE] Number of selected preemption victims",
            exponential_buckets(1, 2, 7),
        ).labels()
        self.preemption_attempts_total: CounterMetric = self.counter(
            "scheduler_preemption_attempts_total",
            "[STABLE] Total preemption attempts in the cluster till now",
        ).labels()
        self.preemption_goroutines_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Seconds that background preemptions took.",
            _LONG,
            "result",
        )
        self.preemption_goroutines_execution_total: Family[CounterMetric] = self.counter(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Background preemptions, by result.",
            "result",
        )

    def _define_resources(self) -> None:
        self.resourceclaim_creates_total: Family[CounterMetric] = self.counter(
            "scheduler_resourceclaim_creates_total",
            "[ALPHA] Claims that the scheduler created for extended resources, by result.",
            "status",
        )
        self.dra_bindingconditions_allocations_total: Family[CounterMetric] = self.counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "[ALPHA] Allocations of devices that had binding conditions to wait for.",
            "profile",
            "driver",
            "status",
        )
        self.dra_bindingconditions_wait_duration_seconds: Family[HistogramMetric] = self.histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "[ALPHA] Seconds spent on waiting for the binding conditions of devices.",
            _DEVICES,
            "profile",
            "driver",
            "status",
        )
        self.volume_scheduling_stage_error_total: Family[CounterMetric] = self.counter(
            "scheduler_volume_scheduling_stage_error_total",
            "[ALPHA] Errors in the handling of volumes, by stage.",
            "operation",
        )
        self.volume_binder_cache_requests_total: Family[CounterMetric] = self.counter(
            "scheduler_volume_binder_cache_requests_total",
            "[ALPHA] Requests to the volume binding cache.",
            "operation",
        )

    def _define_async_api_calls(self, enabled: bool) -> None:
        self.async_api_call_execution_total: Family[CounterMetric] | None = None
        self.async_api_call_execution_duration_seconds: Family[HistogramMetric] | None = None
        self.pending_async_api_calls: Family[GaugeMetric] | None = None
        if not enabled:
            return
        self.async_api_call_execution_total = self.counter(
            "scheduler_async_api_call_execution_total",
            "[ALPHA] API calls made in the background, by type and result.",
            "call_type",
            "result",
        )
        self.async_api_call_execution_duration_seconds = self.histogram(
            "scheduler_async_api_call_execution_duration_seconds",
            "[ALPHA] Seconds that API calls made in the background took.",
            _LATENCY,
            "call_type",
            "result",
        )
        self.pending_async_api_calls = self.gauge(
            "scheduler_pending_async_api_calls",
            "[ALPHA] API calls that wait to be made in the background.",
            "call_type",
        )

    def _define_pod_groups(self, enabled: bool) -> None:
        self.podgroup_schedule_attempts_total: Family[CounterMetric] | None = None
        self.podgroup_scheduling_attempt_duration_seconds: Family[HistogramMetric] | None = None
        self.podgroup_scheduling_algorithm_duration_seconds: HistogramMetric | None = None
        if not enabled:
            return
        self.podgroup_schedule_attempts_total = self.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "[ALPHA] Attempts to schedule pod groups, by result.",
            "result",
            "profile",
        )
        self.podgroup_scheduling_attempt_duration_seconds = self.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "[ALPHA] Seconds that attempts to schedule pod groups took.",
            _LATENCY,
            "result",
            "profile",
        )
        self.podgroup_scheduling_algorithm_duration_seconds = self.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "[ALPHA] Seconds spent on choosing nodes for pod groups.",
            _LATENCY,
        ).labels()
