"""What the page shows of nodes and pods: plain state, fed with changes, read as rows.

Knows nothing of HTTP or viewers. Each change is told to listeners by the name of the node or pod
it is about, so that a viewer costs no more than the set of names it has not been sent yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.api.time import parse_time
from kubesched.dashboard.decision_log import DecisionLog

__all__ = ["ClusterView"]

_ZONE = "topology.kubernetes.io/zone"
_FINISHED = ("Succeeded", "Failed")
_MIB = 1 << 20

Listener = Callable[[str, str], None]  # ("node" or "pod", name)


class ClusterView:
    """Nodes with what is asked of them, pods by node, pods that wait."""

    def __init__(self, decisions: DecisionLog, now_ns: Callable[[], int]) -> None:
        self.decisions = decisions
        self.listeners: list[Listener] = []
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self._now_ns = now_ns
        self._requested: dict[str, Resources] = {}
        self._on_node: dict[str, dict[str, None]] = {}

    def put_node(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self._tell("node", node.metadata.name)

    def remove_node(self, node: Node) -> None:
        self.nodes.pop(node.metadata.name, None)
        self._tell("node", node.metadata.name)

    def put_pod(self, pod: Pod) -> None:
        key = _key(pod)
        old = self.pods.get(key)
        if old is not None:
            self._count(old, key, -1)
        if pod.status.phase in _FINISHED:
            self.pods.pop(key, None)
        else:
            self.pods[key] = pod
            self._count(pod, key, 1)
        self.decisions.note(old, pod, self._now_ns())
        self._tell("pod", key)

    def remove_pod(self, pod: Pod) -> None:
        key = _key(pod)
        old = self.pods.pop(key, None)
        if old is not None:
            self._count(old, key, -1)
            self.decisions.note_removed(old, self._now_ns())
            self._tell("pod", key)

    def _count(self, pod: Pod, key: str, step: int) -> None:
        name = pod.spec.node_name
        if not name:
            return
        total = self._requested.setdefault(name, Resources())
        if step > 0:
            total.add(pod_requested(pod))
            self._on_node.setdefault(name, {})[key] = None
        else:
            total.subtract(pod_requested(pod))
            self._on_node.get(name, {}).pop(key, None)
        self._tell("node", name)

    def _tell(self, kind: str, name: str) -> None:
        for listener in self.listeners:
            listener(kind, name)

    def node_row(self, name: str) -> dict[str, Any] | None:
        """A node in short, as the map of all nodes needs it; None: it is gone."""
        node = self.nodes.get(name)
        if node is None:
            return None
        allocatable = Resources.from_resource_list(node.status.allocatable)
        used = self._requested.get(name) or Resources()
        row: dict[str, Any] = {
            "name": name,
            "labels": node.metadata.labels,
            "cpu": [used.milli_cpu, allocatable.milli_cpu],
            "memory": [used.memory // _MIB, allocatable.memory // _MIB],
            "pods": [
                len(self._on_node.get(name, ())),
                Resources.allowed_pods(node.status.allocatable),
            ],
        }
        extended = {
            each: [used.scalar.get(each, 0), amount]
            for each, amount in allocatable.scalar.items()
            if amount
        }
        if extended:
            row["extended"] = extended
        if node.spec.unschedulable:
            row["cordoned"] = True
        if not _is_ready(node):
            row["notReady"] = True
        if node.spec.taints:
            row["taints"] = [
                f"{taint.key}={taint.value}:{taint.effect}" for taint in node.spec.taints
            ]
        return row

    def pods_on(self, name: str) -> list[Pod]:
        return [self.pods[key] for key in self._on_node.get(name, ())]

    def waiting(self) -> list[Pod]:
        """Pods without a node, the most important and then the oldest first."""
        found = [pod for pod in self.pods.values() if not pod.spec.node_name]
        return sorted(found, key=lambda pod: (-pod_priority(pod), _created(pod), _key(pod)))

    def counts(self) -> dict[str, int]:
        placed = sum(map(len, self._on_node.values()))
        return {
            "nodes": len(self.nodes),
            "pods": len(self.pods),
            "placed": placed,
            "waiting": len(self.pods) - placed,
        }


def pod_row(pod: Pod) -> dict[str, Any]:
    """A pod in short."""
    amounts = pod_requested(pod)
    row: dict[str, Any] = {
        "key": _key(pod),
        "node": pod.spec.node_name,
        "phase": pod.status.phase or "Pending",
        "cpu": amounts.milli_cpu,
        "memory": amounts.memory // _MIB,
        "priority": pod_priority(pod),
        "created": pod.metadata.creation_timestamp or "",
    }
    if amounts.scalar:
        row["extended"] = amounts.scalar
    if pod.metadata.deletion_timestamp is not None:
        row["leaving"] = True
    for owner in pod.metadata.owner_references:
        if owner.controller:
            row["owner"] = f"{owner.kind}/{owner.name}"
    reason = waiting_reason(pod)
    if reason:
        row["reason"] = reason
    return row


def waiting_reason(pod: Pod) -> str:
    """What the pod's condition says of why it is not scheduled."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return ""


def _is_ready(node: Node) -> bool:
    conditions = [each for each in node.status.conditions if each.type == "Ready"]
    return not conditions or conditions[0].status == "True"


def _created(pod: Pod) -> int:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["name"]))
