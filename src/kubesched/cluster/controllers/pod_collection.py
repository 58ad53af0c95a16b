"""Pods that no kubelet will ever see to: those of nodes that are gone, and too many ended ones."""

from __future__ import annotations

from kubesched.api import Node, Pod
from kubesched.cluster.controllers.cluster_view import View
from kubesched.cluster.controllers.plans import Action, Delete, Patch, Plan
from kubesched.cluster.controllers.taint_eviction import disruption
from kubesched.foundation.util.clock import SECOND

__all__ = ["QUARANTINE_NS", "LostNodes", "out_of_service_pods"]

QUARANTINE_NS = 40 * SECOND
"""How long a node must have been missing before its pods are given up."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MESSAGE = "PodGC: node no longer exists"
_FINISHED = ("Succeeded", "Failed")


class LostNodes:
    """Since when nodes that pods are bound to have been missing."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def plan(self, view: View, node: str, now_ns: int) -> Plan:
        """Give up the pods of a node that does not exist."""
        pods = view.pods_on(node)
        if view.find(Node, "", node) is not None or not pods:
            self._since.pop(node, None)
            return Plan()
        due_ns = self._since.setdefault(node, now_ns) + QUARANTINE_NS
        if due_ns > now_ns:
            return Plan((), due_ns)
        actions: list[Action] = []
        for pod in pods:
            actions += given_up(pod, "DeletionByPodGC", _MESSAGE, now_ns)
        return Plan(actions)


def given_up(pod: Pod, reason: str, message: str, now_ns: int) -> list[Action]:
    """End a pod whose containers nobody can end, and remove it."""
    actions: list[Action] = []
    if pod.status.phase not in _FINISHED:
        marked = disruption(pod, reason, message, now_ns)
        status = {**marked.patch["status"], "phase": "Failed"}
        actions.append(Patch(pod, {"status": status}, "status", strategic=True))
    actions.append(Delete(pod, grace_period_seconds=0))
    return actions


def out_of_service_pods(view: View, node: Node, _document: object, now_ns: int) -> Plan:
    """Give up pods that wait to be ended by a node that somebody has declared dead."""
    if not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return Plan()
    if any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return Plan()
    actions: list[Action] = []
    for pod in view.pods_on(node.metadata.name):
        if pod.metadata.deletion_timestamp is not None:
            message = "PodGC: node is out of service"
            actions += given_up(pod, "DeletionByPodGC", message, now_ns)
    return Plan(actions)
