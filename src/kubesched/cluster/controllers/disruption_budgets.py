"""PodDisruptionBudgets: how many of their pods may be evicted at present."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kubesched.api import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.labels import Selector
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    is_active,
    is_ready,
)
from kubesched.cluster.controllers.plans import ActionPlan, conditions_with, status_patch
from kubesched.cluster.controllers.triggers import OwnChange, SameNamespaceChange
from kubesched.foundation.util.clock import MINUTE

__all__ = ["DISRUPTION_CONTROLLER", "expected_and_desired", "plan_disruption_budget"]

Json = dict[str, Any]

# An eviction that was allowed must become a deletion within this time.
_DELETION_TIMEOUT_NS = 2 * MINUTE


def plan_disruption_budget(
    objects: ObjectIndex, owner: PodDisruptionBudget, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Count the healthy pods of a budget, and set how many disruptions it allows."""
    selector = Selector.from_label_selector(owner.spec.selector)
    pods = [
        pod for pod in objects.pods_matching(owner.metadata.namespace, selector) if is_active(pod)
    ]
    disrupted, again_ns = _disrupted(document, pods, now_ns)
    healthy = sum(is_ready(pod) and pod.metadata.name not in disrupted for pod in pods)
    expected, desired = expected_and_desired(objects, owner, pods)
    allowed = max(0, healthy - desired) if expected else 0
    enough = allowed > 0
    condition: Json = {
        "type": "DisruptionAllowed",
        "status": "True" if enough else "False",
        "reason": "SufficientPods" if enough else "InsufficientPods",
        "message": "",
        "observedGeneration": owner.metadata.generation,
    }
    stored = document.get("status", {}).get("conditions", ())
    conditions = [
        {key: value for key, value in each.items() if key != "lastUpdateTime"}
        for each in conditions_with(stored, [condition], format_time(now_ns))
    ]
    status = {
        "observedGeneration": owner.metadata.generation,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "conditions": conditions,
    }
    stored_pods = document.get("status", {}).get("disruptedPods", {})
    if disrupted != stored_pods:
        # A merge patch removes an entry only if its value is null.
        status["disruptedPods"] = {**dict.fromkeys(stored_pods), **disrupted}
    return ActionPlan(status_patch(owner, document, status), again_ns)


def _disrupted(
    document: Mapping[str, Any], pods: list[Pod], now_ns: int
) -> tuple[dict[str, str], int | None]:
    """Return pods with a pending eviction and their times, and when the first one expires."""
    present = {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}
    pending: dict[str, str] = {}
    again_ns: int | None = None
    for name, time in document.get("status", {}).get("disruptedPods", {}).items():
        expires_ns = parse_time(time) + _DELETION_TIMEOUT_NS
        if name in present and expires_ns > now_ns:
            pending[name] = time
            again_ns = expires_ns if again_ns is None else min(again_ns, expires_ns)
    return pending, again_ns


def expected_and_desired(
    objects: ObjectIndex, owner: PodDisruptionBudget, pods: list[Pod]
) -> tuple[int, int]:
    """Return how many pods there should be, and how many of them must stay healthy."""
    least, most_missing = owner.spec.min_available, owner.spec.max_unavailable
    if most_missing is not None:
        expected = _expected(objects, pods)
        return expected, max(0, expected - _share(most_missing, expected))
    if isinstance(least, str):
        expected = _expected(objects, pods)
        return expected, _share(least, expected)
    return len(pods), least or 0


def _expected(objects: ObjectIndex, pods: list[Pod]) -> int:
    """Sum the replicas of the controllers of these pods; pods without one do not count."""
    replicas = {}
    for pod in pods:
        controller = _top_controller(objects, pod)
        if controller is not None:
            replicas[controller.metadata.uid] = _replicas(controller)
    return sum(replicas.values())


def _top_controller(objects: ObjectIndex, pod: Pod) -> Any | None:
    """Return the controller of a pod; for a ReplicaSet, its own controller if it has one."""
    reference = controller_of(pod)
    controller = None if reference is None else objects.get(reference.uid)
    if isinstance(controller, ReplicaSet) and (parent := controller_of(controller)) is not None:
        return objects.get(parent.uid) or controller
    return controller


def _replicas(controller: Any) -> int:
    if isinstance(controller, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if controller.spec.replicas is None else controller.spec.replicas
    if isinstance(controller, DaemonSet):
        return controller.status.desired_number_scheduled
    return 1


def _share(value: str | int, whole: int) -> int:
    """Resolve a number or a percentage of `whole`, rounded up."""
    if isinstance(value, str):
        number = value.removesuffix("%")
        return math.ceil(whole * int(number) / 100) if number.isdecimal() else 0
    return value


# The plan reads the pods of a namespace and their controllers.
_READ_KINDS = (
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Deployment,
    Job,
)

DISRUPTION_CONTROLLER = Controller(
    "controllermanager",
    PodDisruptionBudget,
    plan_disruption_budget,
    triggers=(
        OwnChange(PodDisruptionBudget),
        *(SameNamespaceChange(kind, PodDisruptionBudget) for kind in _READ_KINDS),
    ),
)
