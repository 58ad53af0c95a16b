"""The `rest_client_*` and `leader_election_*` metrics (docs/reference/02 §11.4).

All API clients of a process share one `ClientMetrics`. Every client has its own pool of
connections; the reference's metrics of its transport cache count these pools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.instruments import (
    CounterMetric,
    Family,
    FamilyGroup,
    GaugeMetric,
    HistogramMetric,
)

__all__ = ["ClientMetrics", "LeaderElectionMetrics"]

_LATENCY = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZE = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_ROTATION_AGE = (
    600,
    1800,
    3600,
    14400,
    86400,
    604800,
    2592000,
    7776000,
    15552000,
    31104000,
    124416000,
)


class ClientMetrics(FamilyGroup):
    """Metrics of the API clients of this process, registered with the given registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.requests_total: Family[CounterMetric] = self.counter(
            "rest_client_requests_total",
            "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.",
            "code",
            "method",
            "host",
        )
        self.request_retries_total: Family[CounterMetric] = self.counter(
            "rest_client_request_retries_total",
            "[ALPHA] Number of request retries, partitioned by status code, verb, and host.",
            "code",
            "verb",
            "host",
        )
        self.request_duration_seconds = self._by_verb(
            "request_duration_seconds", "Request latency in seconds. Broken down by verb, and host."
        )
        self.rate_limiter_duration_seconds = self._by_verb(
            "rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host.",
        )
        self.request_size_bytes = self._by_verb(
            "request_size_bytes", "Request size in bytes. Broken down by verb and host.", _SIZE
        )
        self.response_size_bytes = self._by_verb(
            "response_size_bytes", "Response size in bytes. Broken down by verb and host.", _SIZE
        )
        self.events_dropped_total: CounterMetric = self.counter(
            "kubesched_events_dropped_total",
            "[ALPHA] Events that were never sent because too many were waiting. An addition of "
            "kubesched.",
        ).labels()
        # Seconds until the certificates of exec plugins expire; computed when metrics are read.
        self.exec_certificate_ttls: list[Callable[[], float]] = []
        self._define_exec_plugin()
        self._define_transports()
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        shortest = min((ttl() for ttl in self.exec_certificate_ttls), default=math.inf)
        self.exec_plugin_ttl_seconds.set(shortest)
        return super().collect()

    def _by_verb(
        self, name: str, help_text: str, buckets: tuple[float, ...] = _LATENCY
    ) -> Family[HistogramMetric]:
        return self.histogram(
            f"rest_client_{name}", f"[ALPHA] {help_text}", buckets, "verb", "host"
        )

    def _define_exec_plugin(self) -> None:
        self.exec_plugin_ttl_seconds: GaugeMetric = self.gauge(
            "rest_client_exec_plugin_ttl_seconds",
            "[ALPHA] Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed "
            "by the auth exec plugin. The value is in seconds until certificate expiry (negative "
            "if already expired). If auth exec plugins are unused or manage no TLS certificates, "
            "the value will be +INF.",
        ).labels()
        self.exec_plugin_certificate_rotation_age: HistogramMetric = self.histogram(
            "rest_client_exec_plugin_certificate_rotation_age",
            "[ALPHA] Histogram of the number of seconds the last auth exec plugin client "
            "certificate lived before being rotated. If auth exec plugin client certificates are "
            "unused, histogram will contain no data.",
            _ROTATION_AGE,
        ).labels()
        self.exec_plugin_call_total: Family[CounterMetric] = self.counter(
            "rest_client_exec_plugin_call_total",
            "[ALPHA] Number of calls to an exec plugin, partitioned by the type of event "
            "encountered (no_error, plugin_execution_error, plugin_not_found_error, client_"
            "internal_error) and an optional exit code. The exit code will be set to 0 if and only "
            "if the plugin call was successful.",
            "code",
            "call_status",
        )

    def note_transport(self) -> None:
        """Count a new pool of connections."""
        self.transport_create_calls_total.labels("miss").inc()
        self.transport_cache_entries.inc()

    def count_ca_reload(self, result: str, reason: str) -> None:
        self.transport_ca_reload_total.labels(result, reason).inc()

    def _define_transports(self) -> None:
        self.transport_cache_entries: GaugeMetric = self.gauge(
            "rest_client_transport_cache_entries",
            "[ALPHA] Number of transport entries in the internal cache.",
        ).labels()
        self.transport_create_calls_total: Family[CounterMetric] = self.counter(
            "rest_client_transport_create_calls_total",
            "[ALPHA] Number of calls to get a new transport, partitioned by the result of the "
            "operation hit: obtained from the cache, miss: created and added to the cache, "
            "miss-gc: recreated and added back to the cache after being garbage collected, "
            "uncacheable: created and not cached",
            "result",
        )
        self.transport_ca_reload_total: Family[CounterMetric] = self.counter(
            "rest_client_transport_ca_reload_total",
            "[ALPHA] Number of times a CA reload is attempted, partitioned by the result and "
            "reason for the reload attempt",
            "result",
            "reason",
        )
        self.counter(
            "rest_client_transport_cert_rotation_gc_calls_total",
            "[ALPHA] Number of times a cert rotation goroutine cancel func is called via GC "
            "cleanup of the associated transport",
        )
        self.counter(
            "rest_client_transport_cache_gc_calls_total",
            "[ALPHA] Number of times a transport was dropped because it was unused, by the result.",
            "result",
        )


class LeaderElectionMetrics(FamilyGroup):
    """Whether this process leads; `name` is the name of the component, not of the lease."""

    def __init__(self, registry: CollectorRegistry, name: str = "kube-scheduler") -> None:
        super().__init__()
        self._statuses: Family[GaugeMetric] = self.gauge(
            "leader_election_master_status",
            "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates "
            "backup, 1 indicates master. 'name' is the string used to identify the lease. Please "
            "make sure to group by name.",
            "name",
        )
        self._slow_paths: Family[CounterMetric] = self.counter(
            "leader_election_slowpath_total",
            "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the "
            "string used to identify the lease. Please make sure to group by name.",
            "name",
        )
        self._failing: GaugeMetric = self.gauge(
            "kubesched_leader_election_failing",
            "[ALPHA] Whether the last request about the lease failed: 1 if the API server refused "
            "it or did not answer, otherwise 0. An addition of kubesched.",
        ).labels()
        self._name = name
        registry.register(self)

    def set_failing(self, failing: bool) -> None:
        self._failing.set(1 if failing else 0)

    def set_leading(self, leading: bool) -> None:
        self._statuses.labels(self._name).set(1 if leading else 0)

    def count_slow_path(self) -> None:
        self._slow_paths.labels(self._name).inc()
