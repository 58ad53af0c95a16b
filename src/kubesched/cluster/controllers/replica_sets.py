"""ReplicaSets: as many pods as they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod, ReplicaSet
from kubesched.cluster.controllers.cluster_view import (
    View,
    controller_reference,
    is_active,
    is_available,
    is_ready,
    ready_since_ns,
)
from kubesched.cluster.controllers.plans import Action, Create, Delete, Plan, status_patch
from kubesched.util.clock import SECOND

__all__ = ["plan_replica_set", "pod_from_template"]

Json = dict[str, Any]

_BURST = 500
"""Pods made or deleted in one plan; the rest follows when these have been seen."""
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pod_from_template(owner: Any, template: Mapping[str, Any]) -> Json:
    """A pod as its owner's template has it."""
    inner = template.get("metadata", {})
    metadata: Json = {
        "generateName": f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if inner.get(field):
            metadata[field] = inner[field]
    return {"metadata": metadata, "spec": template.get("spec", {})}


def plan_replica_set(
    view: View, owner: ReplicaSet, document: Mapping[str, Any], now_ns: int
) -> Plan:
    pods: list[Pod] = view.controlled(owner.metadata.uid, Pod)
    active = [pod for pod in pods if is_active(pod)]
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    actions: list[Action] = []
    if owner.metadata.deletion_timestamp is None:
        if len(active) < wanted:
            made = pod_from_template(owner, document["spec"].get("template", {}))
            actions += [Create(Pod, made)] * min(wanted - len(active), _BURST)
        elif len(active) > wanted:
            surplus = sorted(active, key=_keep)[: min(len(active) - wanted, _BURST)]
            actions += [Delete(pod) for pod in surplus]
    minimum = owner.spec.min_ready_seconds
    ready = [pod for pod in active if is_ready(pod)]
    available = [pod for pod in ready if is_available(pod, minimum, now_ns)]
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(active) or None,
        "readyReplicas": len(ready) or None,
        "availableReplicas": len(available) or None,
        "observedGeneration": owner.metadata.generation,
    }
    actions += status_patch(owner, document, status)
    return Plan(actions, _next_available_ns(ready, minimum, now_ns))


def _next_available_ns(ready: list[Pod], minimum: int, now_ns: int) -> int | None:
    times = [
        since + minimum * SECOND for pod in ready if (since := ready_since_ns(pod)) is not None
    ]
    return min((time for time in times if time > now_ns), default=None)


def _keep(pod: Pod) -> tuple[Any, ...]:
    """Sorts first what is missed least: pods without a node, not running, not ready, young."""
    cost = pod.metadata.annotations.get(_DELETION_COST, "0")
    since = ready_since_ns(pod)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        since is not None,
        int(cost) if cost.removeprefix("-").isdecimal() else 0,
        # The younger goes first: later times sort earlier.
        -(since or 0),
        _reversed_time(pod.metadata.creation_timestamp or ""),
        pod.metadata.name,
    )


def _reversed_time(time: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in time)
