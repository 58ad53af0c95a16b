"""Dashboards and rules of the chart: against the metrics of a real run, and with promtool."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.deployed_cluster import DEPLOY, deployed
from tests.integration.test_deployed_metrics import families, work

FILES = DEPLOY / "chart" / "files"
RULES = FILES / "rules.yaml"
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
ADDED_BY_PROMETHEUS = {"job", "instance", "pod", "le"}
# One attempt in ten is timed plugin by plugin; a short run may have none.
BY_CHANCE = {"scheduler_plugin_execution_duration_seconds": {"plugin", "extension_point", "status"}}
NEEDS_PROMTOOL = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed (Debian: apt-get install prometheus)",
)


def rule_expressions() -> list[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def panel_expressions() -> list[str]:
    return [
        target["expr"]
        for path in DASHBOARDS
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
    ]


def selected(expression: str) -> dict[str, set[str]]:
    """Return the metrics of an expression, each with the labels that its selector names."""
    found: dict[str, set[str]] = {}
    components = "scheduler|rest|process|leader|authentication|kubesched"
    pattern = rf"(?<![\w:])((?:{components})_\w+)(?:\{{([^}}]*)\}})?"
    for name, inner in re.findall(pattern, expression):
        found.setdefault(name, set()).update(re.findall(r"(\w+)\s*[=!]", inner))
    return found


def grouped(expression: str) -> set[str]:
    """Return the labels in the `by` clauses of an expression."""
    return {
        label.strip()
        for part in re.findall(r"by \(([^)]*)\)", expression)
        for label in part.split(",")
    }


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> str:
    async def main() -> str:
        async with deployed(tmp_path_factory.mktemp("run")) as cluster:
            return await work(cluster)

    return asyncio.run(main())


def test_every_metric_and_label_is_one_of_a_real_run(scraped: str) -> None:
    known = {
        name: {label for labels in family.labels for label in labels}
        for name, family in families(scraped).items()
    } | BY_CHANCE
    for expression in [*rule_expressions(), *panel_expressions()]:
        used = set(ADDED_BY_PROMETHEUS)
        metrics = selected(expression)
        assert metrics or "job:" in expression, expression
        for name, labels in metrics.items():
            base = name if name in known else re.sub("_(bucket|sum|count)$", "", name)
            assert base in known, expression
            assert labels <= known[base] | ADDED_BY_PROMETHEUS, expression
            used |= known[base]
        assert grouped(expression) <= used, expression


def test_the_dashboards_are_up_to_date() -> None:
    built = runpy.run_path(str(DEPLOY / "build_dashboards.py"))
    assert [path.stem for path in DASHBOARDS] == sorted(built["DASHBOARDS"])
    for path in DASHBOARDS:
        assert path.read_text() == built["rendered"](path.stem)


def promtool(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], input=given, capture_output=True, text=True, check=False
    )


@NEEDS_PROMTOOL
def test_promtool_accepts_the_rules_and_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stderr
    queries = [each.replace("$__rate_interval", "1m") for each in panel_expressions()]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(queries)]
    (tmp_path / "panels.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "p", "rules": rules}]})
    )
    done = promtool("check", "rules", str(tmp_path / "panels.yaml"))
    assert done.returncode == 0, done.stderr


@NEEDS_PROMTOOL
def test_promtool_accepts_the_metrics(scraped: str, goldens: Path) -> None:
    """promtool objects to some names and types of the reference; these cannot change."""
    recorded = set(families((goldens / "api" / "metrics.txt").read_text()))
    done = promtool("check", "metrics", given=scraped)
    assert "error while linting" not in done.stderr
    objections = [line for line in done.stderr.splitlines() if line.split(" ")[0] not in recorded]
    assert objections == []


def series(metric: str, values: str, **labels: str) -> dict[str, str]:
    inner = ",".join(
        f'{name}="{value}"' for name, value in {"job": "k", "instance": "i", **labels}.items()
    )
    return {"series": f"{metric}{{{inner}}}", "values": values}


BUILD = series("kubesched_build_info", "1x60", version="1")
HEALTHY = [
    BUILD,
    series("leader_election_master_status", "1x60", name="kube-scheduler"),
    series("scheduler_schedule_attempts_total", "0+6000x60", result="scheduled", profile="p"),
    series("scheduler_schedule_attempts_total", "0+60x60", result="unschedulable", profile="p"),
    series("scheduler_pending_pods", "3x60", queue="active"),
    series("scheduler_pending_pods", "9000x60", queue="unschedulable"),
    series(
        "scheduler_pod_scheduling_sli_duration_seconds_bucket", "0+6000x60", le="1", attempts="1"
    ),
    series(
        "scheduler_pod_scheduling_sli_duration_seconds_bucket", "0+6000x60", le="+Inf", attempts="1"
    ),
    series(
        "rest_client_rate_limiter_duration_seconds_bucket", "0+6000x60", le="0.005", verb="POST"
    ),
    series("rest_client_rate_limiter_duration_seconds_bucket", "0+6000x60", le="+Inf", verb="POST"),
    series("rest_client_requests_total", "0+6000x60", code="201"),
    series("rest_client_requests_total", "0+6x60", code="500"),
    series("kubesched_leader_election_failing", "0x60"),
    series("kubesched_events_dropped_total", "0x60"),
    series("kubesched_config_last_reload_successful", "1x60"),
    series("scheduler_pod_scheduled_after_flush_total", "0x60"),
    # kube-scheduler of the same cluster: none of the rules reads its metrics.
    series(
        "scheduler_schedule_attempts_total", "0+6000x60", job="go", instance="g", result="error"
    ),
    series("leader_election_master_status", "0x60", job="go", instance="g"),
]
TROUBLE = {
    "KubeschedHasNoLeader": [series("leader_election_master_status", "0x60")],
    "KubeschedIsRefusedItsLease": [series("kubesched_leader_election_failing", "1x60")],
    "KubeschedAttemptsFail": [
        series("scheduler_schedule_attempts_total", "0+60x60", result="error")
    ],
    "KubeschedFallsBehind": [series("scheduler_pending_pods", "2000x60", queue="active")],
    "KubeschedPodsWaitLong": [
        series("scheduler_pod_scheduling_sli_duration_seconds_bucket", "0x60", le="128"),
        series("scheduler_pod_scheduling_sli_duration_seconds_bucket", "0+60x60", le="256"),
        series("scheduler_pod_scheduling_sli_duration_seconds_bucket", "0+60x60", le="+Inf"),
    ],
    "KubeschedMissesEvents": [series("scheduler_pod_scheduled_after_flush_total", "0+1x60")],
    "KubeschedIsThrottled": [
        series("rest_client_rate_limiter_duration_seconds_bucket", "0x60", le="1"),
        series("rest_client_rate_limiter_duration_seconds_bucket", "0+60x60", le="8"),
        series("rest_client_rate_limiter_duration_seconds_bucket", "0+60x60", le="+Inf"),
    ],
    "KubeschedRefusesItsConfiguration": [series("kubesched_config_last_reload_successful", "0x60")],
    "KubeschedDropsEvents": [series("kubesched_events_dropped_total", "0+10x60")],
    "KubeschedRequestsFail": [
        series("rest_client_requests_total", "0+60x60", code="200"),
        series("rest_client_requests_total", "0+60x60", code="<error>"),
    ],
}


def run_rules(folder: Path, given: list[dict[str, str]], firing: set[str]) -> str:
    """Check with promtool which alerts fire after 55 minutes; return its output."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}
    checks = []
    for name, rule in alerts.items():
        labels = {**rule["labels"], **({"job": "k"} if name != "KubeschedIsDown" else {})}
        alert = {"exp_labels": labels, "exp_annotations": rule["annotations"]}
        expected = [alert] if name in firing else []
        checks.append({"eval_time": "55m", "alertname": name, "exp_alerts": expected})
    test: dict[str, Any] = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": given, "alert_rule_test": checks}],
    }
    (folder / "test.yaml").write_text(yaml.safe_dump(test))
    done = promtool("test", "rules", str(folder / "test.yaml"))
    return "" if done.returncode == 0 else done.stdout + done.stderr


@NEEDS_PROMTOOL
def test_no_alert_fires_for_a_healthy_scheduler(tmp_path: Path) -> None:
    assert run_rules(tmp_path, HEALTHY, set()) == ""


@NEEDS_PROMTOOL
@pytest.mark.parametrize("name", TROUBLE)
def test_an_alert_fires_for_its_trouble_only(tmp_path: Path, name: str) -> None:
    assert run_rules(tmp_path, [BUILD, *TROUBLE[name]], {name}) == ""


@NEEDS_PROMTOOL
def test_an_alert_fires_if_nothing_is_scraped(tmp_path: Path) -> None:
    assert run_rules(tmp_path, HEALTHY[2:3], {"KubeschedIsDown"}) == ""
