"""Metrics of the process and the build carry the recorded names, types and levels of stability."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.registry import CollectorRegistry

from kubesched.foundation.metrics import SchedulerMetrics, render
from kubesched.foundation.metrics.process_metrics import BuildMetrics, ProcessMetrics
from kubesched.foundation.metrics.server_metrics import ServerMetrics

_BUILD = {
    "major": "1",
    "minor": "36",
    "git_version": "v1.36.4",
    "git_commit": "",
    "git_tree_state": "",
    "build_date": "",
    "go_version": "",
    "compiler": "",
    "platform": "",
}


def build(registry: CollectorRegistry) -> BuildMetrics:
    return BuildMetrics(
        registry,
        build=_BUILD,
        binary="1.36.4",
        emulation="1.36",
        min_compat="1.35",
        features=[("A", "ALPHA", False), ("B", "GA", True)],
    )


def heads(page: str, pattern: str) -> dict[str, str]:
    """Name to type and level of stability of the families that match."""
    found = re.findall(r"^# HELP (\S+) ?(\[\w+\])?.*\n# TYPE \S+ (\w+)$", page, re.MULTILINE)
    return {name: f"{kind} {level}" for name, level, kind in found if re.match(pattern, name)}


def label_names(page: str, family: str) -> set[str]:
    return {
        name
        for line in page.splitlines()
        if line.startswith(f"{family}{{")
        for name in re.findall(r'[{,]([a-z_]+)="', line)
    }


def test_process_metrics_equal_the_recorded_ones(goldens: Path) -> None:
    registry = CollectorRegistry()
    ProcessMetrics(registry)
    recorded = (goldens / "api/metrics.txt").read_text()
    assert heads(render(registry), "process_") == heads(recorded, "process_")


def test_other_systems_have_fewer_process_metrics(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    process = ProcessMetrics(registry, tmp_path)
    assert process.start_time_seconds is None
    assert "process_network" not in render(registry)


def test_build_metrics_equal_the_recorded_ones(goldens: Path) -> None:
    registry = CollectorRegistry()
    metrics = build(registry)
    metrics.count_registered([SchedulerMetrics(registry)], disabled=2)
    recorded = (goldens / "api/metrics.txt").read_text()
    pattern = "kubernetes_|version_info|registered_|hidden_|disabled_"
    page = render(registry)
    assert heads(page, pattern) == heads(recorded, pattern)
    for family in heads(page, pattern):
        assert label_names(page, family) == label_names(recorded, family), family
    assert 'kubernetes_feature_enabled{name="A",stage="ALPHA"} 0\n' in page
    assert 'kubernetes_feature_enabled{name="B",stage=""} 1\n' in page
    assert "disabled_metrics_total 2\n" in page
    # Of the scheduler's metrics, eight are stable by the chapter's table.
    assert re.search(r'registered_metrics_total\{.*stability_level="STABLE"\} 8\n', page)


def test_access_metrics_equal_the_recorded_ones(goldens: Path) -> None:
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry)
    metrics.observe_authentication("success", 1)
    metrics.count_user("admin")
    metrics.observe_token_lookup("hit", 1)
    metrics.token_cache_fetch_total.labels("ok").inc()
    metrics.token_cache_active_fetch_count.labels("blocked")
    metrics.observe_authorization("allowed", 1)
    for family in (metrics.delegated_authn_request_total, metrics.delegated_authz_request_total):
        family.labels("201").inc()
    metrics.delegated_authn_request_duration_seconds.labels("201").observe(0.1)
    metrics.delegated_authz_request_duration_seconds.labels("201").observe(0.1)
    recorded = (goldens / "api/metrics.txt").read_text()
    pattern = "authenti|authoriz|apiserver_delegated|apiserver_client"
    page = render(registry)
    assert heads(page, pattern) == heads(recorded, pattern)
    bounds = re.compile(r'^(?:authenti|authoriz|apiserver_(?:del|cli))\w+_bucket\{.*le="[^"]+"\}')
    ours = {match.group() for line in page.splitlines() if (match := bounds.match(line))}
    theirs = {match.group() for line in recorded.splitlines() if (match := bounds.match(line))}
    assert ours <= theirs


def test_users_are_counted_by_a_few_names_only() -> None:
    registry = CollectorRegistry()
    metrics = ServerMetrics(registry)
    for name in ("admin", "kubelet", "jane@example.com", "system:anonymous", "admin2"):
        metrics.count_user(name)
    page = render(registry)
    for name, count in {"admin": 1, "kubelet": 1, "email_id": 1, "other": 2}.items():
        assert f'authenticated_user_requests{{username="{name}"}} {count}\n' in page
