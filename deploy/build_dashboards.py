"""Write the Grafana dashboards of the chart: python deploy/build_dashboards.py.

A panel is one line here: its title, its unit and its queries with their legends. `JOB` selects the
scheduler by the dashboard's variable.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "chart" / "files" / "dashboards"
JOB = 'job=~"$job"'
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 8, 8  # three panels in a row of 24 columns


class Panel(NamedTuple):
    """A graph: each query is an expression and its legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str = ""


def rate(metric: str, by: str = "", labels: str = "") -> str:
    """Return the expression of a rate per second."""
    selector = f"{JOB},{labels}" if labels else JOB
    summed = f"sum by ({by})" if by else "sum"
    return f"{summed} (rate({metric}{{{selector}}}[$__rate_interval]))"


def quantile(metric: str, share: float, by: str = "", labels: str = "") -> str:
    """Return the expression of a quantile of a histogram."""
    groups = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', groups, labels)})"


def quantiles(metric: str, labels: str = "") -> tuple[tuple[str, str], ...]:
    return tuple(
        (quantile(metric, share, "", labels), f"p{share * 100:g}") for share in (0.5, 0.99)
    )


def gauge(metric: str, by: str, labels: str = "") -> str:
    selector = f"{JOB},{labels}" if labels else JOB
    return f"sum by ({by}) ({metric}{{{selector}}})"


DASHBOARDS: dict[str, tuple[str, tuple[Panel, ...]]] = {
    "overview": (
        "kubesched: overview",
        (
            Panel(
                "Pods per second, by result",
                "ops",
                ((rate("scheduler_schedule_attempts_total", "result"), "{{result}}"),),
                "`error` is a failure; `unschedulable` is a pod that does not fit now.",
            ),
            Panel(
                "Pending pods, by queue",
                "short",
                ((gauge("scheduler_pending_pods", "queue"), "{{queue}}"),),
                "Growth of `active` is overload, of `unschedulable` a full cluster.",
            ),
            Panel(
                "Time until a pod is placed",
                "s",
                quantiles("scheduler_pod_scheduling_sli_duration_seconds"),
                "What users wait, without the time of gates.",
            ),
            Panel(
                "Leaders",
                "short",
                ((gauge("leader_election_master_status", "pod"), "{{pod}}"),),
                "The sum over all replicas is 1.",
            ),
            Panel(
                "CPU",
                "none",
                ((rate("process_cpu_seconds_total", "pod"), "{{pod}}"),),
                "The event loop uses at most one core.",
            ),
            Panel("Memory", "bytes", ((gauge("process_resident_memory_bytes", "pod"), "{{pod}}"),)),
            Panel(
                "Objects in the cache",
                "short",
                ((f"max by (type) (scheduler_cache_size{{{JOB}}})", "{{type}}"),),
            ),
            Panel(
                "Preemption",
                "ops",
                (
                    (rate("scheduler_preemption_attempts_total"), "attempts"),
                    (rate("scheduler_preemption_victims_sum"), "victims"),
                ),
            ),
            Panel(
                "Version",
                "short",
                ((gauge("kubesched_build_info", "version, pod"), "{{version}} {{pod}}"),),
            ),
        ),
    ),
    "queue": (
        "kubesched: queue",
        (
            Panel(
                "Pending pods, by queue",
                "short",
                ((gauge("scheduler_pending_pods", "queue"), "{{queue}}"),),
            ),
            Panel(
                "Pods entering a queue, by queue",
                "ops",
                ((rate("scheduler_queue_incoming_pods_total", "queue"), "{{queue}}"),),
            ),
            Panel(
                "Pods entering a queue, by event",
                "ops",
                ((rate("scheduler_queue_incoming_pods_total", "event"), "{{event}}"),),
            ),
            Panel(
                "Pods waiting for a change, by plugin",
                "short",
                ((gauge("scheduler_unschedulable_pods", "plugin"), "{{plugin}}"),),
                "A pod counts for each plugin that rejected it.",
            ),
            Panel(
                "Attempts until a pod is placed",
                "short",
                quantiles("scheduler_pod_scheduling_attempts"),
            ),
            Panel(
                "Pods placed only after the periodic retry",
                "ops",
                ((rate("scheduler_pod_scheduled_after_flush_total"), "pods"),),
                "More than 0 means that a plugin missed an event.",
            ),
            Panel(
                "Events in flight",
                "short",
                ((gauge("scheduler_inflight_events", "event"), "{{event}}"),),
            ),
            Panel(
                "Time to handle an event",
                "s",
                (
                    (
                        quantile("scheduler_event_handling_duration_seconds", 0.99, "event"),
                        "{{event}}",
                    ),
                ),
            ),
        ),
    ),
    "latency": (
        "kubesched: latency",
        (
            Panel(
                "Time until a pod is placed, by attempts",
                "s",
                (
                    (
                        quantile("scheduler_pod_scheduling_sli_duration_seconds", 0.99, "attempts"),
                        "{{attempts}}",
                    ),
                ),
            ),
            Panel(
                "An attempt, with its binding",
                "s",
                (
                    (
                        quantile("scheduler_scheduling_attempt_duration_seconds", 0.99, "result"),
                        "{{result}}",
                    ),
                ),
            ),
            Panel(
                "The search for a node",
                "s",
                quantiles("scheduler_scheduling_algorithm_duration_seconds"),
            ),
            Panel(
                "Extension points (p99)",
                "s",
                (
                    (
                        quantile(
                            "scheduler_framework_extension_point_duration_seconds",
                            0.99,
                            "extension_point",
                        ),
                        "{{extension_point}}",
                    ),
                ),
            ),
        ),
    ),
    "plugins": (
        "kubesched: plugins",
        (
            Panel(
                "Execution time (p99), by plugin",
                "s",
                (
                    (
                        quantile(
                            "scheduler_plugin_execution_duration_seconds",
                            0.99,
                            "plugin, extension_point",
                        ),
                        "{{plugin}} {{extension_point}}",
                    ),
                ),
                "One attempt in ten is measured.",
            ),
            Panel(
                "Evaluations per second, by plugin",
                "ops",
                ((rate("scheduler_plugin_evaluation_total", "plugin"), "{{plugin}}"),),
            ),
            Panel(
                "Pods that a plugin rejected",
                "short",
                ((gauge("scheduler_unschedulable_pods", "plugin, profile"), "{{plugin}}"),),
            ),
            Panel(
                "Failures by status, per extension point",
                "ops",
                (
                    (
                        rate(
                            "scheduler_framework_extension_point_duration_seconds_count",
                            "extension_point, status",
                            'status!="Success"',
                        ),
                        "{{extension_point}} {{status}}",
                    ),
                ),
            ),
        ),
    ),
    "api": (
        "kubesched: API server",
        (
            Panel(
                "Requests, by code",
                "ops",
                ((rate("rest_client_requests_total", "code"), "{{code}}"),),
                "`<error>` is a request without a response.",
            ),
            Panel(
                "Requests, by method",
                "ops",
                ((rate("rest_client_requests_total", "method"), "{{method}}"),),
            ),
            Panel(
                "Request time (p99), by verb",
                "s",
                ((quantile("rest_client_request_duration_seconds", 0.99, "verb"), "{{verb}}"),),
            ),
            Panel(
                "Delay by the client's own rate limit (p99)",
                "s",
                (
                    (
                        quantile("rest_client_rate_limiter_duration_seconds", 0.99, "verb"),
                        "{{verb}}",
                    ),
                ),
                "If it grows, raise `clientConnection.qps` and `burst`.",
            ),
            Panel(
                "Dropped events",
                "ops",
                ((rate("kubesched_events_dropped_total"), "dropped"),),
                "Events are dropped while 100,000 are queued. Placement is not affected.",
            ),
            Panel(
                "Requests to the scheduler's own endpoints, by result",
                "ops",
                ((rate("authentication_attempts", "result"), "{{result}}"),),
            ),
        ),
    ),
}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard in Grafana's JSON model."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"kubesched-{name}",
        "title": title,
        "tags": ["kubesched", "kubernetes"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_source_variable(), _job_variable()]},
        "panels": [_panel(number, each) for number, each in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, 24 // WIDTH)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": row * HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(65 + i), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for i, (query, legend) in enumerate(panel.queries)
        ],
    }


def _source_variable() -> dict[str, Any]:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _job_variable() -> dict[str, Any]:
    query = "label_values(kubesched_build_info, job)"
    return {
        "name": "job",
        "label": "Job",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "job"},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".+",
        "current": {"selected": True, "text": "All", "value": "$__all"},
    }


def rendered(name: str) -> str:
    return json.dumps(dashboard(name), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in DASHBOARDS:
        (FOLDER / f"{each}.json").write_text(rendered(each))
