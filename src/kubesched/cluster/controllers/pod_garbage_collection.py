"""Pod garbage collection: pods of nodes that do not exist or are out of service.

No kubelet will ever report these pods as ended, so this controller fails and deletes them.
`terminated_pods.py` deletes terminated pods beyond a threshold.
"""

from __future__ import annotations

from kubesched.api import Node, Pod
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Delete, Patch
from kubesched.cluster.controllers.taint_eviction import disruption_patch, pod_came_to_node
from kubesched.cluster.controllers.triggers import RelatedChange
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "LOST_NODE",
    "POD_GARBAGE_COLLECTOR",
    "QUARANTINE_NS",
    "LostNodes",
    "plan_out_of_service_node",
]

# A node must have been missing for so long before its pods are deleted.
QUARANTINE_NS = 40 * SECOND
# The prefix of the plan key of a node that does not exist and yet has pods.
LOST_NODE = "lost-node/"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MESSAGE = "PodGC: node no longer exists"
_FINISHED = ("Succeeded", "Failed")


class LostNodes:
    """Nodes that do not exist although pods are bound to them."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}  # when each was first found missing, by name

    def plan(self, objects: ObjectIndex, node: str, now_ns: int) -> ActionPlan:
        """Delete the pods of a node that has been missing for the quarantine time."""
        pods = objects.pods_on(node)
        if objects.find(Node, "", node) is not None or not pods:
            self._since.pop(node, None)
            return ActionPlan()
        due_ns = self._since.setdefault(node, now_ns) + QUARANTINE_NS
        if due_ns > now_ns:
            return ActionPlan((), due_ns)
        actions: list[Action] = []
        for pod in pods:
            actions += fail_and_delete(pod, "DeletionByPodGC", _MESSAGE, now_ns)
        return ActionPlan(actions)


def fail_and_delete(pod: Pod, reason: str, message: str, now_ns: int) -> list[Action]:
    """Mark a pod as failed, if it has not finished, and delete it without a grace period."""
    actions: list[Action] = []
    if pod.status.phase not in _FINISHED:
        disruption = disruption_patch(pod, reason, message, now_ns)
        status = {**disruption.patch["status"], "phase": "Failed"}
        actions.append(Patch(pod, {"status": status}, "status", strategic=True))
    actions.append(Delete(pod, grace_period_seconds=0))
    return actions


def plan_out_of_service_node(
    objects: ObjectIndex, node: Node, _document: object, now_ns: int
) -> ActionPlan:
    """Delete the terminating pods of a node that has the out-of-service taint and is not ready."""
    if not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return ActionPlan()
    if any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return ActionPlan()
    actions: list[Action] = []
    for pod in objects.pods_on(node.metadata.name):
        if pod.metadata.deletion_timestamp is not None:
            message = "PodGC: node is out of service"
            actions += fail_and_delete(pod, "DeletionByPodGC", message, now_ns)
    return ActionPlan(actions)


def _lost_node_of_pod(
    objects: ObjectIndex, pod: Pod, before: Pod | None, _gone: bool
) -> tuple[str, ...]:
    """Find the node of a newly bound pod if it does not exist."""
    name = pod.spec.node_name
    if not name or objects.find(Node, "", name) is not None:
        return ()
    return (LOST_NODE + name,) if pod_came_to_node(pod, before) else ()


def _created_or_deleted_node(
    _objects: ObjectIndex, node: Node, before: Node | None, gone: bool
) -> tuple[str, ...]:
    return (LOST_NODE + node.metadata.name,) if gone or before is None else ()


# The node controller declares which other changes of a node trigger its plans.
POD_GARBAGE_COLLECTOR = Controller(
    "pod-garbage-collector",
    Node,
    plan_out_of_service_node,
    triggers=(
        # The plan for a lost node deletes pods.
        RelatedChange(Pod, Pod, _lost_node_of_pod),
        RelatedChange(Node, Pod, _created_or_deleted_node),
    ),
)
