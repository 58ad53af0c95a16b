"""PodDisruptionBudgets: how many of their pods may be taken away just now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kubesched.api import (
    DaemonSet,
    Deployment,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.labels import Selector
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    is_active,
    is_ready,
)
from kubesched.cluster.controllers.plans import ActionPlan, conditions_with, status_patch
from kubesched.foundation.util.clock import MINUTE

__all__ = ["plan_disruption_budget"]

Json = dict[str, Any]

_DELETION_TIMEOUT_NS = 2 * MINUTE
"""How long an eviction that was allowed may take to become a deletion."""


def plan_disruption_budget(
    objects: ObjectIndex, owner: PodDisruptionBudget, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    selector = Selector.from_label_selector(owner.spec.selector)
    pods = [
        pod
        for pod in objects.within(Pod, owner.metadata.namespace)
        if is_active(pod) and selector.matches(pod.metadata.labels)
    ]
    disrupted, again_ns = _disrupted(document, pods, now_ns)
    healthy = sum(is_ready(pod) and pod.metadata.name not in disrupted for pod in pods)
    expected, desired = _expectation(objects, owner, pods)
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
    held = document.get("status", {}).get("disruptedPods", {})
    if disrupted != held:
        # Null takes away what a merge would keep.
        status["disruptedPods"] = {**dict.fromkeys(held), **disrupted}
    return ActionPlan(status_patch(owner, document, status), again_ns)


def _disrupted(
    document: Mapping[str, Any], pods: list[Pod], now_ns: int
) -> tuple[dict[str, str], int | None]:
    """Pods that an eviction was allowed for and that are still there, and when to give up on it."""
    there = {pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None}
    kept: dict[str, str] = {}
    again_ns: int | None = None
    for name, time in document.get("status", {}).get("disruptedPods", {}).items():
        expires_ns = parse_time(time) + _DELETION_TIMEOUT_NS
        if name in there and expires_ns > now_ns:
            kept[name] = time
            again_ns = expires_ns if again_ns is None else min(again_ns, expires_ns)
    return kept, again_ns


def _expectation(
    objects: ObjectIndex, owner: PodDisruptionBudget, pods: list[Pod]
) -> tuple[int, int]:
    """How many pods there should be, and how many of them must stay healthy."""
    least, most_missing = owner.spec.min_available, owner.spec.max_unavailable
    if most_missing is not None:
        expected = _expected(objects, pods)
        return expected, max(0, expected - _share(most_missing, expected))
    if isinstance(least, str):
        expected = _expected(objects, pods)
        return expected, _share(least, expected)
    return len(pods), least or 0


def _expected(objects: ObjectIndex, pods: list[Pod]) -> int:
    """The sum of what the makers of these pods want; pods without a maker do not count."""
    makers = {}
    for pod in pods:
        maker = _maker(objects, pod)
        if maker is not None:
            makers[maker.metadata.uid] = _wanted(maker)
    return sum(makers.values())


def _maker(objects: ObjectIndex, pod: Pod) -> Any | None:
    """What decides how many such pods there are: a ReplicaSet's own maker, if it has one."""
    reference = controller_of(pod)
    maker = None if reference is None else objects.get(reference.uid)
    if isinstance(maker, ReplicaSet) and (above := controller_of(maker)) is not None:
        return objects.get(above.uid) or maker
    return maker


def _wanted(maker: Any) -> int:
    if isinstance(maker, Deployment | ReplicaSet | ReplicationController | StatefulSet):
        return 1 if maker.spec.replicas is None else maker.spec.replicas
    if isinstance(maker, DaemonSet):
        return maker.status.desired_number_scheduled
    return 1


def _share(value: str | int, whole: int) -> int:
    """A number, or a percentage, rounded up."""
    if isinstance(value, str):
        number = value.removesuffix("%")
        return math.ceil(whole * int(number) / 100) if number.isdecimal() else 0
    return value
