"""Taint eviction: a node's NoExecute taints evict pods that do not tolerate them.

A toleration may have a time limit. The pod is then evicted after this time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api import Node, Pod, Taint, Toleration
from kubesched.api.taints import NO_EXECUTE, tolerates
from kubesched.api.time import format_time
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Delete, Patch, RecordEvent
from kubesched.cluster.controllers.triggers import RelatedChange
from kubesched.foundation.util.clock import SECOND

__all__ = ["TaintEvictions", "disruption_patch", "pod_came_to_node", "toleration_ns"]

_MESSAGE = "Taint manager: deleting due to NoExecute taint"


def toleration_ns(pod: Pod, taints: list[Taint]) -> int | None:
    """Return how long a pod tolerates these taints: 0 if it does not, None without a limit."""
    shortest: int | None = None
    by_key = _by_key(pod.spec.tolerations)
    for taint in taints:
        # A toleration without a key can match any taint.
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
    """Group tolerations by key; of equal ones only the one with the shortest time is returned."""
    shortest: dict[tuple[str, ...], Toleration] = {}
    for each in tolerations:
        identity = (each.key, each.effect, each.operator, each.value)
        other = shortest.get(identity)
        if other is None or _seconds(each) < _seconds(other):
            shortest[identity] = each
    by_key: dict[str, list[Toleration]] = {}
    for each in shortest.values():
        by_key.setdefault(each.key, []).append(each)
    return by_key


def _seconds(toleration: Toleration) -> float:
    seconds = toleration.toleration_seconds
    return math.inf if seconds is None else seconds


def disruption_patch(pod: Pod, reason: str, message: str, now_ns: int) -> Patch:
    """Build the DisruptionTarget condition with the reason for the coming deletion."""
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
    """The evictions that NoExecute taints have scheduled."""

    def __init__(self) -> None:
        # The time when a pod was first observed on a node with a NoExecute taint, by the pod's uid.
        self._since: dict[str, int] = {}

    def controller(self) -> Controller:
        """Build the controller that plans with this state."""
        # The node controller declares which changes of a node trigger its plans.
        triggers = (RelatedChange(Pod, Node, _tainted_node_of_pod),)
        return Controller("taint-eviction-controller", Node, self.plan, triggers)

    def plan(
        self, objects: ObjectIndex, node: Node, _document: Mapping[str, Any], now_ns: int
    ) -> ActionPlan:
        """Evict the pods of a node whose time of toleration is over."""
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

    def remove_pod(self, uid: str) -> None:
        """Drop the state of a deleted pod."""
        self._since.pop(uid, None)


def pod_came_to_node(pod: Pod, before: Pod | None) -> bool:
    """Whether a pod is bound and its spec changed, or its deletion began."""
    if not pod.spec.node_name:
        return False
    if before is None or before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp:
        return True
    return before.spec is not pod.spec and before.spec != pod.spec


def _tainted_node_of_pod(
    objects: ObjectIndex, pod: Pod, before: Pod | None, _gone: bool
) -> tuple[str, ...]:
    """Find the node of a newly bound pod if the node has a NoExecute taint."""
    name = pod.spec.node_name
    node: Node | None = objects.find(Node, "", name) if name else None
    # Most nodes have no taints, so this check comes first.
    if node is None or not node.spec.taints or not pod_came_to_node(pod, before):
        return ()
    has_taint = any(each.effect == NO_EXECUTE for each in node.spec.taints)
    return (node.metadata.uid,) if has_taint else ()


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
