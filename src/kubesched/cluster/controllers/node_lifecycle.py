"""The node controller: conditions, taints and pods of nodes that stop renewing their lease.

A node without a lease counts as healthy, so that a cluster without heartbeats works too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import Lease, Node, Pod, Taint
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, is_ready
from kubesched.cluster.controllers.plans import Action, ActionPlan, Patch, RecordEvent
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange
from kubesched.cluster.nodes.node_agent import LEASE_NAMESPACE, SILENT_REASON
from kubesched.foundation.util.clock import SECOND

__all__ = ["GRACE_NS", "NODE_CONTROLLER", "plan_node", "required_taints"]

Json = dict[str, Any]

# A node is unreachable when it has not renewed its lease for so long.
GRACE_NS = 50 * SECOND

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# The taint for each condition and status that keeps pods away.
_PRESSURES: Mapping[tuple[str, str], str] = {
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_MANAGED_TAINTS = frozenset({_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_UNREPORTED = (SILENT_REASON, "Kubelet stopped posting node status.")


def plan_node(
    objects: ObjectIndex, node: Node, _document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Mark conditions of a silent node unknown, taint unhealthy nodes, mark their pods unready."""
    if node.metadata.deletion_timestamp is not None:
        return ActionPlan()
    deadline_ns = _deadline_ns(objects, node)
    actions: list[Action] = []
    if deadline_ns is not None and deadline_ns <= now_ns and _is_reported(node):
        actions.append(_mark_unknown(node, now_ns))
        actions.append(
            RecordEvent(
                node,
                "NodeNotReady",
                f"Node {node.metadata.name} status is now: NodeNotReady",
            )
        )
        # This change of the node triggers the next plan, which adds the taints.
        return ActionPlan(actions)
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), None)
    taints = required_taints(node, format_time(now_ns))
    if taints != node.spec.taints:
        written: Json = {"taints": msgspec.to_builtins(taints) or None}
        actions.append(Patch(node, {"spec": written}))
    if ready is not None and ready != "True":
        actions += _mark_pods_unready(objects, node, now_ns)
    is_ahead = deadline_ns is not None and deadline_ns > now_ns
    return ActionPlan(actions, deadline_ns if is_ahead else None)


def _deadline_ns(objects: ObjectIndex, node: Node) -> int | None:
    """Return when the grace period of a node ends; None if the node has no lease."""
    lease: Lease | None = objects.find(Lease, LEASE_NAMESPACE, node.metadata.name)
    if lease is None or lease.spec.renew_time is None:
        return None
    return parse_time(lease.spec.renew_time) + GRACE_NS


def _is_reported(node: Node) -> bool:
    return any(each.type == "Ready" and each.status != "Unknown" for each in node.status.conditions)


def _mark_unknown(node: Node, now_ns: int) -> Patch:
    reason, message = _UNREPORTED
    stored = {each.type: each for each in node.status.conditions}
    conditions = [
        {
            "type": kind,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(now_ns),
        }
        for kind in _CONDITIONS
        if kind not in stored or stored[kind].status != "Unknown"
    ]
    return Patch(node, {"status": {"conditions": conditions}}, "status", strategic=True)


def required_taints(node: Node, now: str) -> tuple[Taint, ...]:
    """Return the node's taints, with the managed ones as its conditions require."""
    wanted: list[tuple[str, str]] = []
    status = {each.type: each.status for each in node.status.conditions}
    # A node without a Ready condition has no kubelet yet, so it gets no taints.
    broken = {"False": _NOT_READY, "Unknown": _UNREACHABLE}.get(status.get("Ready", ""))
    if broken is not None:
        wanted += [(broken, NO_SCHEDULE), (broken, NO_EXECUTE)]
    wanted += [(key, NO_SCHEDULE) for pair, key in _PRESSURES.items() if pair in status.items()]
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, NO_SCHEDULE))
    kept = [
        taint
        for taint in node.spec.taints
        if taint.key not in _MANAGED_TAINTS or (taint.key, taint.effect) in wanted
    ]
    present = {(taint.key, taint.effect) for taint in kept}
    added = [
        Taint(key=key, effect=effect, time_added=now)
        for key, effect in wanted
        if (key, effect) not in present
    ]
    return (*kept, *added)


def _mark_pods_unready(objects: ObjectIndex, node: Node, now_ns: int) -> Sequence[Action]:
    actions: list[Action] = []
    for pod in objects.pods_on(node.metadata.name):
        if is_ready(pod):
            actions.append(_mark_unready(pod, now_ns))
            actions.append(RecordEvent(pod, "NodeNotReady", "Node is not ready", warning=True))
    return actions


def _mark_unready(pod: Pod, now_ns: int) -> Patch:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now_ns)}
    return Patch(pod, {"status": {"conditions": [condition]}}, "status", strategic=True)


def _has_relevant_change(node: Node, before: Node | None) -> bool:
    """Whether more of a node changed than the times of a heartbeat."""
    return (
        before is None
        or before.spec != node.spec
        or before.metadata.annotations != node.metadata.annotations
        or _condition_statuses(before) != _condition_statuses(node)
    )


def _condition_statuses(node: Node) -> list[tuple[str, str]]:
    return [(each.type, each.status) for each in node.status.conditions]


def _node_of_lease(
    objects: ObjectIndex, lease: Lease, before: Lease | None, gone: bool
) -> tuple[str, ...]:
    """Find the node of a lease that was created or deleted.

    Renewals trigger nothing: the plan is due when the lease would have expired.
    """
    if not (gone or before is None) or lease.metadata.namespace != LEASE_NAMESPACE:
        return ()
    node: Node | None = objects.find(Node, "", lease.metadata.name)
    return () if node is None else (node.metadata.uid,)


NODE_CONTROLLER = Controller(
    "node-controller",
    Node,
    plan_node,
    triggers=(OwnChange(Node, _has_relevant_change), RelatedChange(Lease, Node, _node_of_lease)),
)
