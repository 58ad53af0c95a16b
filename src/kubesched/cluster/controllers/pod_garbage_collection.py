"""Pods that no kubelet will ever see to: those of nodes that are gone, and too many ended ones."""

from __future__ import annotations

from kubesched.api import Node, Pod
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Delete, Patch
from kubesched.cluster.controllers.taint_eviction import disruption_patch
from kubesched.foundation.util.clock import SECOND

__all__ = ["QUARANTINE_NS", "LostNodes", "plan_out_of_service_node"]

QUARANTINE_NS = 40 * SECOND
"""How long a node must have been missing before its pods are given up."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MESSAGE = "PodGC: node no longer exists"
_FINISHED = ("Succeeded", "Failed")


class LostNodes:
    """Since when nodes that pods are bound to have been missing."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def plan(self, objects: ObjectIndex, node: str, now_ns: int) -> ActionPlan:
        """Give up the pods of a node that does not exist."""
        pods = objects.pods_on(node)
        if objects.find(Node, "", node) is not None or not pods:
            self._since.pop(node, None)
            return ActionPlan()
        due_ns = self._since.setdefault(node, now_ns) + QUARANTINE_NS
        if due_ns > now_ns:
            return ActionPlan((), due_ns)
        actions: list[Action] = []
        for pod in pods:
            actions += give_up_pod(pod, "DeletionByPodGC", _MESSAGE, now_ns)
        return ActionPlan(actions)


def give_up_pod(pod: Pod, reason: str, message: str, now_ns: int) -> list[Action]:
    """End a pod whose containers nobody can end, and remove it."""
    actions: list[Action] = []
    if pod.status.phase not in _FINISHED:
        marked = disruption_patch(pod, reason, message, now_ns)
        status = {**marked.patch["status"], "phase": "Failed"}
        actions.append(Patch(pod, {"status": status}, "status", strategic=True))
    actions.append(Delete(pod, grace_period_seconds=0))
    return actions


def plan_out_of_service_node(
    objects: ObjectIndex, node: Node, _document: object, now_ns: int
) -> ActionPlan:
    """Give up pods that wait to be ended by a node that somebody has declared dead."""
    if not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return ActionPlan()
    if any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return ActionPlan()
    actions: list[Action] = []
    for pod in objects.pods_on(node.metadata.name):
        if pod.metadata.deletion_timestamp is not None:
            message = "PodGC: node is out of service"
            actions += give_up_pod(pod, "DeletionByPodGC", message, now_ns)
    return ActionPlan(actions)
