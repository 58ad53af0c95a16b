"""Metrics of the endpoints: authentication, authorization and health.

docs/reference/02 §11.4.
"""

from __future__ import annotations

from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.instruments import (
    CounterMetric,
    Family,
    FamilyGroup,
    GaugeMetric,
    HistogramMetric,
    exponential_buckets,
)

__all__ = ["HealthMetrics", "ServerMetrics"]

_LATENCY = exponential_buckets(0.001, 2, 15)
_DEFAULT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_DELEGATED = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_LIFETIMES = (
    0.0,
    30 * _MINUTE,
    _HOUR,
    2 * _HOUR,
    6 * _HOUR,
    12 * _HOUR,
    _DAY,
    2 * _DAY,
    4 * _DAY,
    7 * _DAY,
    30 * _DAY,
    90 * _DAY,
    180 * _DAY,
    360 * _DAY,
)

# Names that are not secret and limited in number; all addresses count as one more.
_SHOWN_USERS = frozenset({"admin", "client", "kube_proxy", "kubelet"})


class ServerMetrics(FamilyGroup):
    """Metrics of the authentication and authorization of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._define_authentication()
        self._define_token_cache()
        self._define_authorization()
        self._define_delegation()
        registry.register(self)

    def observe_authentication(self, result: str, duration_ns: int) -> None:
        self.authentication_attempts.labels(result).inc()
        self.authentication_duration_seconds.labels(result).observe_ns(duration_ns)

    def count_user(self, name: str) -> None:
        shown = "email_id" if "@" in name else name if name in _SHOWN_USERS else "other"
        self.authenticated_user_requests.labels(shown).inc()

    def observe_token_lookup(self, status: str, duration_ns: int) -> None:
        self.token_cache_request_total.labels(status).inc()
        self.token_cache_request_duration_seconds.labels(status).observe_ns(duration_ns)

    def observe_authorization(self, result: str, duration_ns: int) -> None:
        self.authorization_attempts_total.labels(result).inc()
        self.authorization_duration_seconds.labels(result).observe_ns(duration_ns)

    def _define_authentication(self) -> None:
        self.authentication_attempts: Family[CounterMetric] = self.counter(
            "authentication_attempts", "[ALPHA] Counter of authenticated attempts.", "result"
        )
        self.authentication_duration_seconds: Family[HistogramMetric] = self.histogram(
            "authentication_duration_seconds",
            "[ALPHA] Authentication duration in seconds broken out by result.",
            _LATENCY,
            "result",
        )
        self.authenticated_user_requests: Family[CounterMetric] = self.counter(
            "authenticated_user_requests",
            "[ALPHA] Counter of authenticated requests broken out by username.",
            "username",
        )
        self.client_certificate_expiration_seconds: HistogramMetric = self.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "[ALPHA] Distribution of the remaining lifetime on the certificate used to "
            "authenticate a request.",
            _LIFETIMES,
        ).labels()

    def _define_token_cache(self) -> None:
        # The reference has no help texts here.
        self.token_cache_request_total: Family[CounterMetric] = self.counter(
            "authentication_token_cache_request_total", "[ALPHA] ", "status"
        )
        self.token_cache_request_duration_seconds: Family[HistogramMetric] = self.histogram(
            "authentication_token_cache_request_duration_seconds", "[ALPHA] ", _DEFAULT, "status"
        )
        self.token_cache_fetch_total: Family[CounterMetric] = self.counter(
            "authentication_token_cache_fetch_total", "[ALPHA] ", "status"
        )
        self.token_cache_active_fetch_count: Family[GaugeMetric] = self.gauge(
            "authentication_token_cache_active_fetch_count", "[ALPHA] ", "status"
        )

    def _define_authorization(self) -> None:
        self.authorization_attempts_total: Family[CounterMetric] = self.counter(
            "authorization_attempts_total",
            "[ALPHA] Counter of authorization attempts broken down by result. It can be either "
            "'allowed', 'denied', 'no-opinion' or 'error'.",
            "result",
        )
        self.authorization_duration_seconds: Family[HistogramMetric] = self.histogram(
            "authorization_duration_seconds",
            "[ALPHA] Authorization duration in seconds broken out by result.",
            _LATENCY,
            "result",
        )

    def _define_delegation(self) -> None:
        count = "[ALPHA] Number of HTTP requests partitioned by status code."
        duration = "[ALPHA] Request latency in seconds. Broken down by status code."
        self.delegated_authn_request_total: Family[CounterMetric] = self.counter(
            "apiserver_delegated_authn_request_total", count, "code"
        )
        self.delegated_authn_request_duration_seconds: Family[HistogramMetric] = self.histogram(
            "apiserver_delegated_authn_request_duration_seconds", duration, _DELEGATED, "code"
        )
        self.delegated_authz_request_total: Family[CounterMetric] = self.counter(
            "apiserver_delegated_authz_request_total", count, "code"
        )
        self.delegated_authz_request_duration_seconds: Family[HistogramMetric] = self.histogram(
            "apiserver_delegated_authz_request_duration_seconds", duration, _DELEGATED, "code"
        )


class HealthMetrics(FamilyGroup):
    """Results of the health checks, for `/metrics/slis`; not part of `/metrics`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self.healthcheck: Family[GaugeMetric] = self.gauge(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
            "name",
            "type",
        )
        self.healthchecks_total: Family[CounterMetric] = self.counter(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
            "name",
            "type",
            "status",
        )
        registry.register(self)

    def observe(self, root: str, name: str, is_fine: bool) -> None:
        self.healthcheck.labels(name, root).set(1 if is_fine else 0)
        self.healthchecks_total.labels(name, root, "success" if is_fine else "error").inc()
