"""Tables of workload controllers, and the text form of selectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.http.tables.table import (
    AGE,
    NAME,
    NONE,
    Column,
    Layout,
    age,
    human_duration,
    wide,
)
from kubesched.foundation.util.clock import SECOND

__all__ = ["WORKLOADS", "selector_text"]

Json = Mapping[str, Any]

_WIDE = (wide("Containers"), wide("Images"), wide("Selector"))
_OPERATORS = {"In": "in", "NotIn": "notin"}


def selector_text(selector: Json | None) -> str:
    """Format a label selector as in a query."""
    if not selector:
        return NONE
    terms = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for requirement in selector.get("matchExpressions", ()):
        key, operator = requirement.get("key", ""), requirement.get("operator", "")
        if operator in _OPERATORS:
            values = ",".join(sorted(requirement.get("values", ())))
            terms.append(f"{key} {_OPERATORS[operator]} ({values})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms) or NONE


def labels_text(labels: Json | None) -> str:
    if not labels:
        return NONE
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _containers(data: Json) -> tuple[str, str]:
    containers = data["spec"].get("template", {}).get("spec", {}).get("containers", ())
    names = ",".join(container.get("name", "") for container in containers)
    return names, ",".join(container.get("image", "") for container in containers)


def _counts(data: Json, *fields: str) -> list[int]:
    status = data.get("status", {})
    return [status.get(field, 0) for field in fields]


def _deployment(data: Json, now_ns: int) -> Sequence[Any]:
    desired = data["spec"].get("replicas", 0)
    ready, updated, available = _counts(
        data, "readyReplicas", "updatedReplicas", "availableReplicas"
    )
    return (
        data["metadata"]["name"],
        f"{ready}/{desired}",
        updated,
        available,
        age(data, now_ns),
        *_containers(data),
        selector_text(data["spec"].get("selector")),
    )


def _replicas(selector: Callable[[Any], str]) -> Callable[[Json, int], Sequence[Any]]:
    def cells(data: Json, now_ns: int) -> Sequence[Any]:
        return (
            data["metadata"]["name"],
            data["spec"].get("replicas", 0),
            *_counts(data, "replicas", "readyReplicas"),
            age(data, now_ns),
            *_containers(data),
            selector(data["spec"].get("selector")),
        )

    return cells


def _stateful_set(data: Json, now_ns: int) -> Sequence[Any]:
    desired = data["spec"].get("replicas", 0)
    (ready,) = _counts(data, "readyReplicas")
    return (
        data["metadata"]["name"],
        f"{ready}/{desired}",
        age(data, now_ns),
        *_containers(data),
    )


def _daemon_set(data: Json, now_ns: int) -> Sequence[Any]:
    return (
        data["metadata"]["name"],
        *_counts(
            data,
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ),
        labels_text(data["spec"].get("template", {}).get("spec", {}).get("nodeSelector")),
        age(data, now_ns),
        *_containers(data),
        selector_text(data["spec"].get("selector")),
    )


def _job(data: Json, now_ns: int) -> Sequence[Any]:
    spec, status = data["spec"], data.get("status", {})
    (succeeded,) = _counts(data, "succeeded")
    if (desired := spec.get("completions")) is not None:
        completions = f"{succeeded}/{desired}"
    else:
        parallelism = spec.get("parallelism", 0)
        completions = f"{succeeded}/1" + (f" of {parallelism}" if parallelism > 1 else "")
    began, ended = status.get("startTime"), status.get("completionTime")
    duration = ""
    if began:
        end_ns = parse_time(ended) if ended else now_ns
        duration = human_duration((end_ns - parse_time(began)) // SECOND)
    return (
        data["metadata"]["name"],
        _job_state(data),
        completions,
        duration,
        age(data, now_ns),
        *_containers(data),
        selector_text(spec.get("selector")),
    )


def _job_state(data: Json) -> str:
    conditions = data.get("status", {}).get("conditions", ())
    held = {each.get("type") for each in conditions if each.get("status") == "True"}
    for outcome in ("Complete", "Failed"):
        if outcome in held:
            return outcome
    if data["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if "Suspended" in held:
        return "Suspended"
    for condition in ("FailureTarget", "SuccessCriteriaMet"):
        if condition in held:
            return condition
    return "Running"


def _number(name: str) -> Column:
    return Column(name, type="integer")


_REPLICAS = (NAME, _number("Desired"), _number("Current"), _number("Ready"), AGE, *_WIDE)
WORKLOADS: dict[str, Layout] = {
    "Deployment": Layout(
        (NAME, Column("Ready"), _number("Up-to-date"), _number("Available"), AGE, *_WIDE),
        _deployment,
    ),
    "ReplicaSet": Layout(_REPLICAS, _replicas(selector_text)),
    "ReplicationController": Layout(_REPLICAS, _replicas(labels_text)),
    "StatefulSet": Layout((NAME, Column("Ready"), AGE, *_WIDE[:2]), _stateful_set),
    "DaemonSet": Layout(
        (
            NAME,
            _number("Desired"),
            _number("Current"),
            _number("Ready"),
            _number("Up-to-date"),
            _number("Available"),
            Column("Node Selector"),
            AGE,
            *_WIDE,
        ),
        _daemon_set,
    ),
    "Job": Layout(
        (NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE, *_WIDE), _job
    ),
}
