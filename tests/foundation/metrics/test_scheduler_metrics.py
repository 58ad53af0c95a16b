from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from kubesched.foundation.metrics import SchedulerMetrics, exponential_buckets, render

CHAPTER = Path(__file__).resolve().parents[3] / "docs" / "reference" / "02-server.md"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def all_on(registry: CollectorRegistry) -> SchedulerMetrics:
    return SchedulerMetrics(registry, async_api_calls=True, pod_groups=True)


class Row(NamedTuple):
    """A line of the table in docs/reference/02 §11.2."""

    name: str
    kind: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    level: str


def table() -> list[Row]:
    text = CHAPTER.read_text()
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found = re.match(r"`(scheduler_\w+)`", cells[0])
        if not found or len(cells) != 5:
            continue
        labels = tuple(
            label.strip() for label in re.sub(r"\(.*\)", "", cells[2]).split(",") if label.strip()
        )
        exp = re.fullmatch(r"exp\(([\d.]+),([\d.]+),(\d+)\)", cells[3])
        buckets = exponential_buckets(float(exp[1]), float(exp[2]), int(exp[3])) if exp else ()
        rows.append(Row(found[1], cells[1], labels, buckets, cells[4]))
    return rows


def test_every_metric_of_the_chapter_is_there_and_no_other(registry: CollectorRegistry) -> None:
    metrics = all_on(registry)
    rows = table()
    assert len(rows) == 37
    assert set(metrics.families) == {row.name for row in rows}
    for row in rows:
        family = metrics.families[row.name]
        assert family.kind == row.kind, row.name
        assert set(family.label_names) == set(row.labels), row.name
        assert family.help_text.startswith(f"[{row.level}] "), row.name
        child = family.labels(*("x" for _ in family.label_names))
        bounds = tuple(
            float(labels["le"]) for suffix, labels, _ in child.samples() if suffix == "_bucket"
        )
        assert bounds[:-1] == row.buckets, row.name


def test_types_labels_and_bounds_are_those_the_reference_served(
    goldens: Path, registry: CollectorRegistry
) -> None:
    metrics = all_on(registry)
    recorded = (goldens / "api" / "metrics.txt").read_text()
    seen = 0
    for family in text_string_to_metric_families(recorded):
        if not family.name.startswith("scheduler_"):
            continue
        seen += 1
        name = f"{family.name}_total" if family.type == "counter" else family.name
        ours = metrics.families[name]
        assert ours.kind == family.type, name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(ours.label_names), name
        if family.type == "histogram":
            first = {k: v for k, v in family.samples[0].labels.items() if k != "le"}
            recorded_bounds = [
                sample.labels["le"]
                for sample in family.samples
                if "le" in sample.labels and {**sample.labels, "le": ""} == {**first, "le": ""}
            ]
            child = ours.labels(*("x" for _ in ours.label_names))
            assert [
                labels["le"] for suffix, labels, _ in child.samples() if suffix == "_bucket"
            ] == recorded_bounds, name
        assert ours.help_text.split()[0] == family.documentation.split()[0], name
    assert seen == recorded.count("# TYPE scheduler_") > 20


def test_metrics_without_labels_are_served_from_the_start(
    goldens: Path, registry: CollectorRegistry
) -> None:
    SchedulerMetrics(registry)
    recorded = (goldens / "api" / "metrics.txt").read_text()
    without_labels = {
        line.split()[0]
        for line in recorded.splitlines()
        if line.startswith("scheduler_") and "{" not in line
    }
    served = {line.split()[0] for line in render(registry).splitlines() if "{" not in line}
    assert without_labels <= served


def test_pending_pods_start_with_all_four_queues(registry: CollectorRegistry) -> None:
    SchedulerMetrics(registry)
    lines = [line for line in render(registry).splitlines() if "pending_pods{" in line]
    assert lines == [
        'scheduler_pending_pods{queue="active"} 0',
        'scheduler_pending_pods{queue="backoff"} 0',
        'scheduler_pending_pods{queue="gated"} 0',
        'scheduler_pending_pods{queue="unschedulable"} 0',
    ]


def test_metrics_of_features_that_are_off_are_absent(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    assert metrics.pending_async_api_calls is None
    assert metrics.podgroup_schedule_attempts_total is None
    assert not any("async" in name or "podgroup" in name for name in metrics.families)


def test_an_attempt_is_counted_and_timed(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    metrics.observe_attempt("scheduled", "default-scheduler", 3_000_000)
    labels = {"result": "scheduled", "profile": "default-scheduler"}
    sample = registry.get_sample_value
    assert sample("scheduler_schedule_attempts_total", labels) == 1
    assert sample("scheduler_scheduling_attempt_duration_seconds_sum", labels) == 0.003


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_many_attempts_share_a_label(
    registry: CollectorRegistry, attempts: int, label: str
) -> None:
    metrics = SchedulerMetrics(registry)
    metrics.observe_bound(attempts, 2_000_000_000)
    sample = registry.get_sample_value
    name = "scheduler_pod_scheduling_sli_duration_seconds_sum"
    assert sample(name, {"attempts": label}) == 2
    assert sample("scheduler_pod_scheduling_attempts_sum") == attempts


def test_a_pod_that_was_never_admitted_has_no_waiting_time(registry: CollectorRegistry) -> None:
    SchedulerMetrics(registry).observe_bound(1, None)
    assert "sli_duration" not in render(registry)
    assert registry.get_sample_value("scheduler_pod_scheduling_attempts_count") == 1


def test_plugin_evaluations_can_be_shown_before_they_happen(registry: CollectorRegistry) -> None:
    SchedulerMetrics(registry).show_plugin_evaluations("p", {"Filter": ["A", "B"], "Score": ["A"]})
    lines = [line for line in render(registry).splitlines() if "evaluation_total{" in line]
    assert lines == [
        'scheduler_plugin_evaluation_total{extension_point="Filter",plugin="A",profile="p"} 0',
        'scheduler_plugin_evaluation_total{extension_point="Filter",plugin="B",profile="p"} 0',
        'scheduler_plugin_evaluation_total{extension_point="Score",plugin="A",profile="p"} 0',
    ]


def test_the_cache_size_has_three_series(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    metrics.set_cache_size(nodes=5000, pods=1, assumed_pods=0)
    sample = registry.get_sample_value
    assert sample("scheduler_cache_size", {"type": "nodes"}) == 5000
    assert sample("scheduler_cache_size", {"type": "pods"}) == 1
    assert sample("scheduler_cache_size", {"type": "assumed_pods"}) == 0


def test_preemptions_are_counted_with_their_victims(registry: CollectorRegistry) -> None:
    metrics = SchedulerMetrics(registry)
    for victims in (1, 3):
        metrics.count_preemption_attempt()
        metrics.observe_preemption_victims(victims)
    metrics.observe_background_preemption("success", 0)
    text = render(registry)
    assert "scheduler_preemption_attempts_total 2" in text
    assert 'scheduler_preemption_victims_bucket{le="2"} 1' in text
    assert 'scheduler_preemption_victims_bucket{le="4"} 2' in text
    assert 'scheduler_preemption_goroutines_execution_total{result="success"} 1' in text
