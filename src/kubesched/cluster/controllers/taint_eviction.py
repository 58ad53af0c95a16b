"""NoExecute taints: pods that do not tolerate them go, others after the time they allow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api import Node, Pod, Taint, Toleration
from kubesched.api.taints import NO_EXECUTE, tolerates
from kubesched.api.time import format_time
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Delete, Patch, RecordEvent
from kubesched.foundation.util.clock import SECOND

__all__ = ["TaintEvictions", "disruption_patch", "toleration_ns"]

_MESSAGE = "Taint manager: deleting due to NoExecute taint"


def toleration_ns(pod: Pod, taints: list[Taint]) -> int | None:
    """How long a pod may stay with these taints: 0 if it does not tolerate one, None for ever."""
    shortest: int | None = None
    by_key = _by_key(pod.spec.tolerations)
    for taint in taints:
        # Those without a key may be for any taint.
        candidates = [*by_key.get("", ()), *(by_key.get(taint.key, ()) if taint.key else ())]
        matching = [each for each in candidates if tolerates(each, taint)]
        if not matching:
            return 0
        for toleration in matching:
            seconds = toleration.toleration_seconds
            if seconds is not None:
                allowed_ns = max(0, seconds) * SECOND
                shortest = allowed_ns if shortest is None else min(shortest, allowed_ns)
    return shortest


def _by_key(tolerations: Iterable[Toleration]) -> dict[str, list[Toleration]]:
    """Of those that differ in nothing but their time only the shortest."""
    kept: dict[tuple[str, ...], Toleration] = {}
    for each in tolerations:
        same = (each.key, each.effect, each.operator, each.value)
        known = kept.get(same)
        if known is None or _seconds(each) < _seconds(known):
            kept[same] = each
    by_key: dict[str, list[Toleration]] = {}
    for each in kept.values():
        by_key.setdefault(each.key, []).append(each)
    return by_key


def _seconds(toleration: Toleration) -> float:
    seconds = toleration.toleration_seconds
    return math.inf if seconds is None else seconds


def disruption_patch(pod: Pod, reason: str, message: str, now_ns: int) -> Patch:
    """The condition that tells why a pod is going to be deleted."""
    condition: dict[str, Any] = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now_ns),
    }
    if pod.metadata.generation:
        condition["observedGeneration"] = pod.metadata.generation
    status: dict[str, Any] = {"conditions": [condition]}
    return Patch(pod, {"status": status}, "status", strategic=True)


class TaintEvictions:
    """Who is to leave which node, and when."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        """When a pod and a NoExecute taint of its node were first seen together, by its uid."""

    def plan(
        self, objects: ObjectIndex, node: Node, _document: Mapping[str, Any], now_ns: int
    ) -> ActionPlan:
        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        actions: list[Action] = []
        again_ns: int | None = None
        for pod in objects.pods_on(node.metadata.name):
            uid = pod.metadata.uid
            allowed_ns = toleration_ns(pod, taints) if taints else None
            if allowed_ns is None or pod.metadata.deletion_timestamp is not None:
                if self._since.pop(uid, None) is not None and not taints:
                    text = f"Cancelling deletion of Pod {_key(pod)}"
                    actions.append(RecordEvent(pod, "TaintManagerEviction", text))
                continue
            due_ns = self._since.setdefault(uid, now_ns) + allowed_ns
            if due_ns > now_ns:
                again_ns = due_ns if again_ns is None else min(again_ns, due_ns)
                continue
            del self._since[uid]
            actions.append(
                RecordEvent(pod, "TaintManagerEviction", f"Marking for deletion Pod {_key(pod)}")
            )
            actions.append(disruption_patch(pod, "DeletionByTaintManager", _MESSAGE, now_ns))
            actions.append(Delete(pod))
        return ActionPlan(actions, again_ns)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        self._since.pop(uid, None)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
