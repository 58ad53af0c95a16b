"""`/metrics` and `/metrics/slis` of the embedded API server.

Requests are counted; everything else is read from the store on a scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubesched.cluster.apiserver.rules.rbac_rules import Attributes
from kubesched.cluster.apiserver.store.object_store import Store

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["CONTENT_TYPE", "RequestMetrics", "health_metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
_NOT_FOUND = 404


class _Request(NamedTuple):
    """The labels of a counted request."""

    verb: str
    group: str
    version: str
    resource: str
    subresource: str
    scope: str
    code: int


class RequestMetrics:
    """Counts the requests of a server and renders its metrics."""

    def __init__(self, store: Store, seats: Callable[[], Iterable[tuple[str, int]]]) -> None:
        """`seats` returns the priority levels, each with its share of the concurrency."""
        self._store, self._seats = store, seats
        self._requests: Counter[_Request] = Counter()
        # How often discovery has been aggregated for a client.
        self.aggregations = 0

    def count(self, attributes: Attributes, version: str, code: int) -> None:
        """Count a request for a resource. Names that no client may invent are its labels."""
        if not self._store.catalog.has_url(attributes.group, version, attributes.plural):
            return
        scope = "cluster"
        if attributes.name:
            scope = "resource"
        elif attributes.namespace:
            scope = "namespace"
        self._requests[
            _Request(
                attributes.verb.upper(),
                attributes.group,
                version,
                attributes.plural,
                attributes.subresource if code != _NOT_FOUND else "",
                scope,
                code,
            )
        ] += 1

    def text(self) -> str:
        """Return the metrics in the text format."""
        # Imported here: the import takes long, and the metrics of most clusters are never
        # requested.
        from kubesched.foundation.metrics.exposition import render_families

        return render_families(self._families())

    def _families(self) -> Iterator[Metric]:
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

        aggregations = CounterMetricFamily(
            "aggregator_discovery_aggregation_count",
            "[ALPHA] Counter of number of times discovery was aggregated",
            value=self.aggregations,
        )
        yield aggregations
        requests = CounterMetricFamily(
            "apiserver_request",
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, "
            "group, version, resource, scope, component, and HTTP response code.",
            labels=(*_Request._fields, "component"),
        )
        for request, count in self._requests.items():
            requests.add_metric([*map(str, request), "apiserver"], count)
        yield requests
        objects = GaugeMetricFamily(
            "apiserver_resource_objects",
            "[ALPHA] Number of stored objects at the time of last check split by kind.",
            labels=("group", "resource"),
        )
        counted: set[str] = set()
        for resource in self._store.catalog.all():
            if resource.group_resource not in counted:
                counted.add(resource.group_resource)
                number = len(self._store.collection(resource).objects)
                objects.add_metric([resource.group, resource.plural], number)
        yield objects
        seats = GaugeMetricFamily(
            "apiserver_flowcontrol_nominal_limit_seats",
            "[BETA] Nominal number of execution seats configured for each priority level",
            labels=("priority_level",),
        )
        for level, number in self._seats():
            seats.add_metric([level], number)
        yield seats


def health_metrics(checks: Sequence[tuple[str, str]]) -> str:
    """Return the results of the health checks, given as types and names, as metrics."""
    from prometheus_client.metrics_core import GaugeMetricFamily

    from kubesched.foundation.metrics.exposition import render_families

    results = GaugeMetricFamily(
        "kubernetes_healthcheck",
        "[STABLE] This metric records the result of a single healthcheck.",
        labels=("name", "type"),
    )
    for kind, name in checks:
        results.add_metric([name, kind], 1)
    return render_families([results])
