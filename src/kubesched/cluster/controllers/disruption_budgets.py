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
    StatefulSet,
)
from kubesched.api.labels import Selector
from kubesched.api.time import format_time
from kubesched.cluster.controllers.cluster_view import View, controller_of, is_active, is_ready
from kubesched.cluster.controllers.plans import Plan, conditions_with, status_patch

__all__ = ["plan_disruption_budget"]

Json = dict[str, Any]


def plan_disruption_budget(
    view: View, owner: PodDisruptionBudget, document: Mapping[str, Any], now_ns: int
) -> Plan:
    selector = Selector.from_label_selector(owner.spec.selector)
    pods = [
        pod
        for pod in view.all(Pod)
        if pod.metadata.namespace == owner.metadata.namespace
        and is_active(pod)
        and selector.matches(pod.metadata.labels)
    ]
    healthy = sum(is_ready(pod) for pod in pods)
    expected, desired = _expectation(view, owner, pods)
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
    return Plan(status_patch(owner, document, status))


def _expectation(view: View, owner: PodDisruptionBudget, pods: list[Pod]) -> tuple[int, int]:
    """How many pods there should be, and how many of them must stay healthy."""
    least, most_missing = owner.spec.min_available, owner.spec.max_unavailable
    if most_missing is not None:
        expected = _expected(view, pods)
        return expected, max(0, expected - _share(most_missing, expected))
    if isinstance(least, str):
        expected = _expected(view, pods)
        return expected, _share(least, expected)
    return len(pods), least or 0


def _expected(view: View, pods: list[Pod]) -> int:
    """The sum of what the makers of these pods want; a pod without a maker is one."""
    makers: dict[str, int] = {}
    alone = 0
    for pod in pods:
        maker = _maker(view, pod)
        if maker is None:
            alone += 1
        else:
            makers[maker.metadata.uid] = _wanted(maker)
    return alone + sum(makers.values())


def _maker(view: View, pod: Pod) -> Any | None:
    """What decides how many such pods there are: a ReplicaSet's own maker, if it has one."""
    reference = controller_of(pod)
    maker = None if reference is None else view.get(reference.uid)
    if isinstance(maker, ReplicaSet) and (above := controller_of(maker)) is not None:
        return view.get(above.uid) or maker
    return maker


def _wanted(maker: Any) -> int:
    if isinstance(maker, Deployment | ReplicaSet | StatefulSet):
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
