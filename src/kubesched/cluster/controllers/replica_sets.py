"""ReplicaSets and ReplicationControllers: create and delete pods up to a desired number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod, ReplicaSet, ReplicationController
from kubesched.api.time import format_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_reference,
    is_active,
    is_available,
    is_ready,
    ready_since_ns,
)
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    conditions_with,
    status_patch,
)
from kubesched.cluster.controllers.pod_creation_limit import MOST_AT_ONCE, limit_new_pods
from kubesched.cluster.controllers.triggers import AdoptableObject, OwnChange, controlled
from kubesched.cluster.nodes.pod_behavior import PREFIX
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "REPLICATION_CONTROLLER",
    "REPLICA_SET_CONTROLLER",
    "next_available_ns",
    "plan_replica_set",
    "pod_from_template",
]

Json = dict[str, Any]

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pod_from_template(owner: Any, template: Mapping[str, Any]) -> Json:
    """Build a pod from its owner's template, with the owner's behavior annotations as defaults."""
    inner = template.get("metadata", {})
    metadata: Json = {
        "generateName": f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if inner.get(field):
            metadata[field] = inner[field]
    inherited = {k: v for k, v in owner.metadata.annotations.items() if k.startswith(PREFIX)}
    if inherited:
        metadata["annotations"] = {**inherited, **metadata.get("annotations", {})}
    return {"metadata": metadata, "spec": template.get("spec", {})}


def plan_replica_set(
    objects: ObjectIndex, owner: Any, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Create or delete pods of a ReplicaSet or ReplicationController, and set its status.

    Both kinds have the same rules. Only their selectors differ.
    """
    claim = claim_objects(objects, owner, Pod, selector_of(owner))
    pods: list[Pod] = claim[0]
    actions: list[Action] = claim[1]
    active = [pod for pod in pods if is_active(pod)]
    template = document["spec"].get("template") or {}
    if owner.metadata.deletion_timestamp is None:
        actions += _scale(owner, template, active)
    minimum = owner.spec.min_ready_seconds
    ready = [pod for pod in active if is_ready(pod)]
    available = [pod for pod in ready if is_available(pod, minimum, now_ns)]
    labels = template.get("metadata", {}).get("labels", {})
    labeled = [pod for pod in active if labels.items() <= pod.metadata.labels.items()]
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": len(labeled) or None,
        "readyReplicas": len(ready) or None,
        "availableReplicas": len(available) or None,
        "observedGeneration": owner.metadata.generation,
        "conditions": _conditions(objects, owner, document, now_ns),
    }
    actions += status_patch(owner, document, status)
    return ActionPlan(actions, next_available_ns(ready, minimum, now_ns))


def _scale(owner: Any, template: Mapping[str, Any], active: list[Pod]) -> list[Action]:
    """Create missing pods, or delete the surplus."""
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    if len(active) < wanted:
        pod = pod_from_template(owner, template)
        count, events = limit_new_pods(owner, wanted - len(active), active)
        return [*[Create(Pod, pod, reports=True)] * count, *events]
    if len(active) == wanted:
        return []
    surplus = sorted(active, key=_deletion_order)[: min(len(active) - wanted, MOST_AT_ONCE)]
    return [Delete(pod, reports=True) for pod in surplus]


def _conditions(
    objects: ObjectIndex, owner: Any, document: Mapping[str, Any], now_ns: int
) -> list[Json] | None:
    stored = document.get("status", {}).get("conditions", ())
    refused = objects.refused.get(owner.metadata.uid)
    wanted: list[Json] = []
    if refused:
        wanted = [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": refused,
            }
        ]
    without = () if refused else ("ReplicaFailure",)
    return conditions_with(stored, wanted, format_time(now_ns), without=without) or None


def next_available_ns(ready: list[Pod], minimum: int, now_ns: int) -> int | None:
    """Return when the next of these ready pods becomes available; `minimum` is in seconds."""
    times = [
        since + minimum * SECOND for pod in ready if (since := ready_since_ns(pod)) is not None
    ]
    return min((time for time in times if time > now_ns), default=None)


def _deletion_order(pod: Pod) -> tuple[Any, ...]:
    """Sort pods for deletion: first those without a node, not running, not ready, young."""
    cost = pod.metadata.annotations.get(_DELETION_COST, "0")
    since = ready_since_ns(pod)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 0),
        since is not None,
        int(cost) if cost.removeprefix("-").isdecimal() else 0,
        # Younger pods first: later times sort earlier.
        -(since or 0),
        _reversed_time(pod.metadata.creation_timestamp or ""),
        pod.metadata.name,
    )


def _reversed_time(time: str) -> tuple[int, ...]:
    return tuple(-ord(character) for character in time)


REPLICA_SET_CONTROLLER = Controller(
    "replicaset-controller",
    ReplicaSet,
    plan_replica_set,
    triggers=(
        OwnChange(ReplicaSet),
        controlled(Pod, by=ReplicaSet),
        AdoptableObject(Pod, ReplicaSet),
    ),
)

REPLICATION_CONTROLLER = Controller(
    "replication-controller",
    ReplicationController,
    plan_replica_set,
    triggers=(
        OwnChange(ReplicationController),
        controlled(Pod, by=ReplicationController),
        AdoptableObject(Pod, ReplicationController),
    ),
)
