"""ReplicaSets and ReplicationControllers: as many pods as they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Pod
from kubesched.api.time import format_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
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
from kubesched.cluster.nodes.pod_behavior import PREFIX
from kubesched.foundation.util.clock import SECOND

__all__ = ["next_available_ns", "plan_replica_set", "pod_from_template"]

Json = dict[str, Any]

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def pod_from_template(owner: Any, template: Mapping[str, Any]) -> Json:
    """A pod as its owner's template has it; how it behaves its owner may say too."""
    inner = template.get("metadata", {})
    metadata: Json = {
        "generateName": f"{owner.metadata.name}-",
        "namespace": owner.metadata.namespace,
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations", "finalizers"):
        if inner.get(field):
            metadata[field] = inner[field]
    given = {k: v for k, v in owner.metadata.annotations.items() if k.startswith(PREFIX)}
    if given:
        metadata["annotations"] = {**given, **metadata.get("annotations", {})}
    return {"metadata": metadata, "spec": template.get("spec", {})}


def plan_replica_set(
    objects: ObjectIndex, owner: Any, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """For ReplicaSets, and for ReplicationControllers, which differ in their selectors only."""
    claim = claim_objects(objects, owner, Pod, selector_of(owner))
    pods: list[Pod] = claim[0]
    actions: list[Action] = claim[1]
    active = [pod for pod in pods if is_active(pod)]
    template = document["spec"].get("template") or {}
    wanted = 1 if owner.spec.replicas is None else owner.spec.replicas
    if owner.metadata.deletion_timestamp is None:
        if len(active) < wanted:
            made = pod_from_template(owner, template)
            count, told = limit_new_pods(owner, wanted - len(active), active)
            actions += [*[Create(Pod, made, reports=True)] * count, *told]
        elif len(active) > wanted:
            surplus = sorted(active, key=_keep)[: min(len(active) - wanted, MOST_AT_ONCE)]
            actions += [Delete(pod, reports=True) for pod in surplus]
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
    """When the next of these pods will have been ready for long enough."""
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
