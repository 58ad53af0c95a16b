"""The status of a Deployment, summed over its ReplicaSets, and the deadline of its rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.api import Deployment, ReplicaSet
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import conditions_with
from kubesched.foundation.util.clock import SECOND

__all__ = ["deadline_ns", "deployment_status", "share"]

Json = dict[str, Any]

_NEW = "NewReplicaSetAvailable"
_DEADLINE = "ProgressDeadlineExceeded"
_PAUSED: Json = {
    "type": "Progressing",
    "status": "Unknown",
    "reason": "DeploymentPaused",
    "message": "Deployment is paused",
}
_RESUMED = {**_PAUSED, "reason": "DeploymentResumed", "message": "Deployment is resumed"}


def share(value: Any, whole: int, *, up: bool = True) -> int:
    """Resolve a number or a percentage of `whole`."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        part = whole * int(value[:-1]) / 100
        return math.ceil(part) if up else math.floor(part)
    return value if isinstance(value, int) else 0


def deadline_ns(document: Mapping[str, Any], now_ns: int) -> int | None:
    """Return when the progress deadline of a rollout ends, if that is ahead."""
    limit = document["spec"].get("progressDeadlineSeconds")
    if limit is None or document["spec"].get("paused"):
        return None
    for condition in document.get("status", {}).get("conditions", ()):
        if condition["type"] == "Progressing" and condition.get("reason") not in (_NEW, _DEADLINE):
            due_ns = parse_time(condition["lastUpdateTime"]) + limit * SECOND
            return due_ns if due_ns > now_ns else None
    return None


class _Counts(NamedTuple):
    """Replica counts of a Deployment, summed over its ReplicaSets."""

    wanted: int
    total: int
    updated: int
    ready: int
    available: int
    most_unavailable: int

    @classmethod
    def of(
        cls, document: Mapping[str, Any], sets: Sequence[ReplicaSet], current: ReplicaSet | None
    ) -> _Counts:
        wanted = document["spec"].get("replicas", 1)
        rolling = document["spec"].get("strategy", {}).get("rollingUpdate", {})
        return cls(
            wanted,
            total=sum(each.status.replicas for each in sets),
            updated=0 if current is None else current.status.replicas,
            ready=sum(each.status.ready_replicas for each in sets),
            available=sum(each.status.available_replicas for each in sets),
            most_unavailable=share(rolling.get("maxUnavailable", "25%"), wanted, up=False),
        )

    def is_complete(self) -> bool:
        return self.updated == self.wanted == self.total and self.available >= self.wanted

    def has_progressed(self, stored: Mapping[str, Any]) -> bool:
        """Whether there are more good pods, or fewer outdated ones, than in a stored status."""
        outdated = stored.get("replicas", 0) - stored.get("updatedReplicas", 0)
        return bool(
            stored.get("updatedReplicas", 0) < self.updated
            or stored.get("readyReplicas", 0) < self.ready
            or stored.get("availableReplicas", 0) < self.available
            or outdated > self.total - self.updated
        )


def deployment_status(
    objects: ObjectIndex,
    owner: Deployment,
    document: Mapping[str, Any],
    sets: Sequence[ReplicaSet],
    current: ReplicaSet | None,
    now_ns: int,
) -> Json:
    stored = document.get("status", {})
    counts = _Counts.of(document, sets, current)
    conditions = [_availability(counts)]
    if current is not None or owner.spec.paused:
        name = "" if current is None else current.metadata.name
        conditions.append(_progress(document, name, now_ns, counts))
    refusals = (objects.refused.get(each.metadata.uid, "") for each in sets)
    refused = next(filter(None, refusals), "")
    if refused:
        conditions.append(
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": refused,
            }
        )
    without = () if refused else ("ReplicaFailure",)
    return {
        "observedGeneration": owner.metadata.generation,
        "replicas": counts.total or None,
        "updatedReplicas": counts.updated or None,
        "readyReplicas": counts.ready or None,
        "availableReplicas": counts.available or None,
        "unavailableReplicas": max(0, counts.wanted - counts.available) or None,
        "conditions": conditions_with(
            stored.get("conditions", ()),
            conditions,
            format_time(now_ns),
            updated=True,
            without=without,
        ),
    }


def _availability(counts: _Counts) -> Json:
    if counts.available >= counts.wanted - counts.most_unavailable:
        return {
            "type": "Available",
            "status": "True",
            "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        }
    return {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }


def _progress(document: Mapping[str, Any], name: str, now_ns: int, counts: _Counts) -> Json:
    """Build the condition about the progress of the rollout to a ReplicaSet."""
    status = document.get("status", {})
    stored = next(
        (each for each in status.get("conditions", ()) if each.get("type") == "Progressing"), None
    )
    limit = document["spec"].get("progressDeadlineSeconds")
    reason = None if stored is None else stored.get("reason")
    if document["spec"].get("paused") and limit is not None and reason != _DEADLINE:
        return _PAUSED
    if counts.is_complete():
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return {"type": "Progressing", "status": "True", "reason": _NEW, "message": text}
    has_progressed = counts.has_progressed(status)
    if stored is not None and not has_progressed and _is_late(stored, limit, now_ns):
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return {"type": "Progressing", "status": "False", "reason": _DEADLINE, "message": text}
    if not has_progressed and reason in (_PAUSED["reason"], _RESUMED["reason"]):
        return _RESUMED
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" is progressing.',
    }
    if has_progressed:
        condition["lastUpdateTime"] = format_time(now_ns)
    return condition


def _is_late(stored: Json, limit: int | None, now_ns: int) -> bool:
    """Whether the rollout exceeds its deadline, by its stored condition."""
    reason = stored.get("reason")
    if limit is None or reason == _NEW:
        return False
    return reason == _DEADLINE or parse_time(stored["lastUpdateTime"]) + limit * SECOND <= now_ns
