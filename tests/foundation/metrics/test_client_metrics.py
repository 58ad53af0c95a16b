"""The metrics of API clients and of leader election, against what the reference exposes."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics.client_metrics import ClientMetrics, LeaderElectionMetrics
from kubesched.foundation.metrics.exposition import render

PREFIXES = ("rest_client_", "leader_election_")


def families(text: str) -> dict[str, Metric]:
    return {
        family.name: family
        for family in text_string_to_metric_families(text)
        if family.name.startswith(PREFIXES)
    }


def labels_of(family: Metric) -> set[str]:
    return {name for sample in family.samples for name in sample.labels}


def level_of(family: Metric) -> str:
    return family.documentation.partition("]")[0]


def buckets_of(family: Metric) -> set[str]:
    return {sample.labels["le"] for sample in family.samples if "le" in sample.labels}


def ours() -> dict[str, Metric]:
    """Everything, after a request of each kind."""
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)
    host = "127.0.0.1:16443"
    metrics.requests_total.labels("200", "GET", host).inc()
    for family in (
        metrics.request_duration_seconds,
        metrics.rate_limiter_duration_seconds,
        metrics.request_size_bytes,
        metrics.response_size_bytes,
    ):
        family.labels("GET", host).observe(1)
    metrics.note_transport()
    LeaderElectionMetrics(registry).set_leading(True)
    return families(render(registry))


def test_every_metric_of_the_reference_is_there_as_it_is(goldens: Path) -> None:
    recorded = families((goldens / "api" / "metrics.txt").read_text())
    exposed = ours()
    assert len(recorded) >= 11
    for name, family in recorded.items():
        assert exposed[name].type == family.type, name
        # Of help texts, recordings have the level of stability only.
        assert level_of(exposed[name]) == level_of(family), name
        assert labels_of(exposed[name]) == labels_of(family), name
        assert buckets_of(exposed[name]) == buckets_of(family), name


def test_leadership_is_one_or_zero_and_the_slow_path_is_counted() -> None:
    registry = CollectorRegistry()
    metrics = LeaderElectionMetrics(registry)
    labels = {"name": "kube-scheduler"}
    assert registry.get_sample_value("leader_election_master_status", labels) is None
    metrics.set_leading(True)
    assert registry.get_sample_value("leader_election_master_status", labels) == 1
    metrics.set_leading(False)
    assert registry.get_sample_value("leader_election_master_status", labels) == 0
    metrics.count_slow_path()
    assert registry.get_sample_value("leader_election_slowpath_total", labels) == 1
