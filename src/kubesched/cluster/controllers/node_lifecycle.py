"""Nodes that are not heard of: their conditions, their taints, and the pods on them.

Every node is judged by its lease. One that has none is taken to be well, so that a cluster without
heartbeats works too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import Lease, Node, Pod, Taint
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.object_index import ObjectIndex, is_ready
from kubesched.cluster.controllers.plans import Action, ActionPlan, Patch, RecordEvent
from kubesched.cluster.nodes.node_agent import LEASE_NAMESPACE, SILENT_REASON
from kubesched.foundation.util.clock import SECOND

__all__ = ["GRACE_NS", "plan_node", "wanted_taints"]

Json = dict[str, Any]

GRACE_NS = 50 * SECOND
"""How long a node may be silent before it counts as unreachable."""

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# Conditions that keep pods away, by what they are to be for it.
_PRESSURES: Mapping[tuple[str, str], str] = {
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_KEPT_HERE = frozenset({_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
_JUDGED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_SILENT = (SILENT_REASON, "Kubelet stopped posting node status.")


def plan_node(
    objects: ObjectIndex, node: Node, _document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Call a silent node unknown, taint a node that is not well, and say so of its pods."""
    if node.metadata.deletion_timestamp is not None:
        return ActionPlan()
    silent_ns = _silent_ns(objects, node)
    actions: list[Action] = []
    if silent_ns is not None and silent_ns <= now_ns and _is_known(node):
        actions.append(_unknown(node, now_ns))
        actions.append(
            RecordEvent(
                node,
                "NodeNotReady",
                f"Node {node.metadata.name} status is now: NodeNotReady",
            )
        )
        # The next look, at what this makes of the node, taints it.
        return ActionPlan(actions)
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), None)
    taints = wanted_taints(node, format_time(now_ns))
    if taints != node.spec.taints:
        written: Json = {"taints": msgspec.to_builtins(taints) or None}
        actions.append(Patch(node, {"spec": written}))
    if ready is not None and ready != "True":
        actions += _unready_pods(objects, node, now_ns)
    return ActionPlan(actions, silent_ns if silent_ns is not None and silent_ns > now_ns else None)


def _silent_ns(objects: ObjectIndex, node: Node) -> int | None:
    """When the node will have been silent for too long; None if it does not report at all."""
    lease: Lease | None = objects.find(Lease, LEASE_NAMESPACE, node.metadata.name)
    if lease is None or lease.spec.renew_time is None:
        return None
    return parse_time(lease.spec.renew_time) + GRACE_NS


def _is_known(node: Node) -> bool:
    return any(each.type == "Ready" and each.status != "Unknown" for each in node.status.conditions)


def _unknown(node: Node, now_ns: int) -> Patch:
    reason, message = _SILENT
    held = {each.type: each for each in node.status.conditions}
    conditions = [
        {
            "type": kind,
            "status": "Unknown",
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(now_ns),
        }
        for kind in _JUDGED
        if kind not in held or held[kind].status != "Unknown"
    ]
    return Patch(node, {"status": {"conditions": conditions}}, "status", strategic=True)


def wanted_taints(node: Node, now: str) -> tuple[Taint, ...]:
    """The node's taints with those that its conditions call for, and without those they do not."""
    wanted: list[tuple[str, str]] = []
    status = {each.type: each.status for each in node.status.conditions}
    # A node whose kubelet never spoke is not judged: somebody made it by hand a moment ago.
    broken = {"False": _NOT_READY, "Unknown": _UNREACHABLE}.get(status.get("Ready", ""))
    if broken is not None:
        wanted += [(broken, NO_SCHEDULE), (broken, NO_EXECUTE)]
    wanted += [(key, NO_SCHEDULE) for pair, key in _PRESSURES.items() if pair in status.items()]
    if node.spec.unschedulable:
        wanted.append((_UNSCHEDULABLE, NO_SCHEDULE))
    kept = [
        taint
        for taint in node.spec.taints
        if taint.key not in _KEPT_HERE or (taint.key, taint.effect) in wanted
    ]
    there = {(taint.key, taint.effect) for taint in kept}
    added = [
        Taint(key=key, effect=effect, time_added=now)
        for key, effect in wanted
        if (key, effect) not in there
    ]
    return (*kept, *added)


def _unready_pods(objects: ObjectIndex, node: Node, now_ns: int) -> Sequence[Action]:
    actions: list[Action] = []
    for pod in objects.pods_on(node.metadata.name):
        if is_ready(pod):
            actions.append(_unready(pod, now_ns))
            actions.append(RecordEvent(pod, "NodeNotReady", "Node is not ready", warning=True))
    return actions


def _unready(pod: Pod, now_ns: int) -> Patch:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": format_time(now_ns)}
    return Patch(pod, {"status": {"conditions": [condition]}}, "status", strategic=True)
