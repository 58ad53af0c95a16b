"""Disabled metrics, and label values outside the allow-list (docs/reference/02 §11.1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.errors import ConfigError
from kubesched.foundation.metrics import SchedulerMetrics, render
from kubesched.scheduler.server.serving.secure_server import ServingMetrics
from tests.scheduler.server.serving_harness import options


def page(*flags: str) -> tuple[ServingMetrics, str]:
    registry = CollectorRegistry()
    scheduler = SchedulerMetrics(registry)
    metrics = ServingMetrics(registry, [scheduler], options(*flags).metrics)
    for event in ("NodeAdd", "PodAdd", "Other"):
        scheduler.queue_incoming_pods_total.labels("active", event).inc()
    return metrics, render(registry)


def test_a_disabled_metric_is_counted_but_not_shown() -> None:
    metrics, text = page("--disabled-metrics=scheduler_queue_incoming_pods_total,no_such_metric")
    assert "scheduler_queue_incoming_pods_total" not in text
    assert "scheduler_pending_pods" in text
    assert metrics.disabled == 1


def test_values_beyond_the_allowed_are_one_series() -> None:
    _, text = page("--allow-metric-labels=scheduler_queue_incoming_pods_total,event=NodeAdd")
    lines = [line for line in text.splitlines() if line.startswith("scheduler_queue_incoming")]
    assert lines == [
        'scheduler_queue_incoming_pods_total{event="NodeAdd",queue="active"} 1',
        'scheduler_queue_incoming_pods_total{event="unexpected",queue="active"} 2',
    ]


def test_the_same_from_a_file(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"scheduler_queue_incoming_pods_total,event": "PodAdd,Other"\n')
    _, text = page(f"--allow-metric-labels-manifest={manifest}")
    assert '{event="unexpected",queue="active"} 1\n' in text
    assert '{event="Other",queue="active"} 1\n' in text


def test_series_that_exist_from_the_start_are_limited_too() -> None:
    _, text = page("--allow-metric-labels=scheduler_pending_pods,queue=active")
    lines = [line for line in text.splitlines() if line.startswith("scheduler_pending_pods")]
    assert lines == ['scheduler_pending_pods{queue="active"} 0']


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("- a list\n")
    for path in (broken, tmp_path / "absent"):
        with pytest.raises(ConfigError, match="allow-metric-labels-manifest"):
            page(f"--allow-metric-labels-manifest={path}")
