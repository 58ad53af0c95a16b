"""What the page shows of nodes and pods: plain state, fed with changes, read as rows.

Knows nothing of HTTP or viewers. Changes of pods are put aside and worked off when somebody reads,
so that a pod that is created, bound and started in between is counted once. The row of a node is
encoded once for all who read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_key, pod_priority
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.api.time import parse_time
from kubesched.cluster.nodes.pod_behavior import STOPPED

__all__ = ["ChangedNodes", "ClusterView", "pod_row", "waiting_reason"]

_HOSTNAME = "kubernetes.io/hostname"
_FINISHED = ("Succeeded", "Failed")
_MIB = 1 << 20

_MOST_PUT_ASIDE = 2_000

PodListener = Callable[[Pod | None, Pod | None], None]  # before, after


class ChangedNodes(NamedTuple):
    """Names of nodes that are another, and of those on which only pods came and went."""

    nodes: set[str]
    usage: set[str]


class ClusterView:
    """Nodes with what is asked of them, pods by node, pods that wait."""

    def __init__(self) -> None:
        self.pod_listeners: list[PodListener] = []
        self.nodes: dict[str, Node] = {}
        self.on_change: Callable[[], None] | None = None
        # Nodes that changed, and those on which only pods did, for whoever empties it; None:
        # nobody does.
        self.changed: ChangedNodes | None = None
        self._pods: dict[str, Pod] = {}
        self._put_aside: dict[str, Pod | None] = {}  # changes to come; None: it is gone
        self._requested: dict[str, Resources] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._waiting: dict[str, None] = {}
        self._allocatable: dict[str, Resources] = {}
        self._rows: dict[str, msgspec.Raw] = {}

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        self.nodes[name] = node
        self._allocatable[name] = Resources.from_resource_list(node.status.allocatable)
        self._node_changed(name)

    def remove_node(self, node: Node) -> None:
        name = node.metadata.name
        self.nodes.pop(name, None)
        self._allocatable.pop(name, None)
        self._node_changed(name)

    def put_pod(self, pod: Pod) -> None:
        """Take in a pod, or a change of it; one that has finished takes no room any more."""
        key = pod_key(pod)
        old = self._latest(key)
        is_over = pod.status.phase in _FINISHED
        if is_over and old is None:
            return
        self._put(key, None if is_over else pod)
        for listener in self.pod_listeners:
            listener(old, pod)

    def remove_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        old = self._latest(key)
        if old is not None:
            self._put(key, None)
            for listener in self.pod_listeners:
                listener(old, None)

    @property
    def pods(self) -> Mapping[str, Pod]:
        """The pods that have not finished, by namespace and name."""
        self._work_off()
        return self._pods

    def _latest(self, key: str) -> Pod | None:
        return self._put_aside[key] if key in self._put_aside else self._pods.get(key)

    def _put(self, key: str, pod: Pod | None) -> None:
        self._put_aside[key] = pod
        if len(self._put_aside) >= _MOST_PUT_ASIDE:
            self._work_off()
        if self.on_change is not None:
            self.on_change()

    def _work_off(self) -> None:
        """Count the pods that were put aside."""
        if not self._put_aside:
            return
        changes, self._put_aside = self._put_aside, {}
        for key, pod in changes.items():
            old = self._pods.pop(key, None)
            if old is not None and pod is not None and _asks_the_same(old, pod):
                self._pods[key] = pod
                continue
            if old is not None:
                self._count(old, key, -1)
            if pod is not None:
                self._pods[key] = pod
                self._count(pod, key, 1)

    def _count(self, pod: Pod, key: str, step: int) -> None:
        name = pod.spec.node_name
        if not name:
            if step > 0:
                self._waiting[key] = None
            else:
                self._waiting.pop(key, None)
            return
        total = self._requested.setdefault(name, Resources())
        if step > 0:
            total.add(pod_requested(pod))
            self._on_node.setdefault(name, {})[key] = None
        else:
            total.subtract(pod_requested(pod))
            self._on_node.get(name, {}).pop(key, None)
        self._rows.pop(name, None)
        if self.changed is not None:
            self.changed.usage.add(name)

    def _node_changed(self, name: str) -> None:
        self._rows.pop(name, None)
        if self.changed is not None:
            self.changed.nodes.add(name)
        if self.on_change is not None:
            self.on_change()

    def encoded_row(self, name: str) -> msgspec.Raw | None:
        """The row of a node as JSON, or None if it is gone."""
        self._work_off()
        row = self._rows.get(name)
        if row is None and (found := self.node_row(name)) is not None:
            row = self._rows[name] = msgspec.Raw(msgspec.json.encode(found))
        return row

    def usage(self, name: str) -> list[Any] | None:
        """What is asked of a node, in the shortest form: name, cpu, memory, pods, others."""
        if name not in self.nodes:
            return None
        used = self._requested.get(name)
        if used is None:
            return [name, 0, 0, 0]
        row = [name, used.milli_cpu, used.memory // _MIB, len(self._on_node.get(name, ()))]
        if used.scalar:
            return [*row, used.scalar]
        return row

    def node_row(self, name: str) -> dict[str, Any] | None:
        """A node in short: labels, amounts as (requested, allocatable), and what is wrong."""
        self._work_off()
        node = self.nodes.get(name)
        if node is None:
            return None
        used = self._requested.get(name) or Resources()
        allocatable = self._allocatable[name]
        labels = node.metadata.labels
        row: dict[str, Any] = {
            "name": name,
            # The name once is enough: with many nodes it is half of what is sent.
            "labels": {
                key: value
                for key, value in labels.items()
                if not (key == _HOSTNAME and value == name)
            },
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
        if STOPPED in node.metadata.annotations:
            row["stopped"] = True
        if node.spec.taints:
            row["taints"] = [
                f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
                for taint in node.spec.taints
            ]
        return row

    def pods_on(self, name: str) -> list[Pod]:
        pods = self.pods
        return [pods[key] for key in self._on_node.get(name, ())]

    def waiting(self) -> list[Pod]:
        """Pods without a node, the most important and then the oldest first."""
        pods = self.pods
        found = [pods[key] for key in self._waiting]
        return sorted(found, key=lambda pod: (-pod_priority(pod), _created(pod), pod_key(pod)))

    def counts(self) -> dict[str, int]:
        pods, waiting = len(self.pods), len(self._waiting)
        return {
            "nodes": len(self.nodes),
            "pods": pods,
            "placed": pods - waiting,
            "waiting": waiting,
        }


def pod_row(pod: Pod) -> dict[str, Any]:
    """A pod in short."""
    amounts = pod_requested(pod)
    row: dict[str, Any] = {
        "key": pod_key(pod),
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


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether a pod is where it was, with the same demands: then only its status is another."""
    return old.spec is new.spec or (
        old.spec.node_name == new.spec.node_name and old.spec.containers == new.spec.containers
    )


def _is_ready(node: Node) -> bool:
    conditions = [each for each in node.status.conditions if each.type == "Ready"]
    return not conditions or conditions[0].status == "True"


def _created(pod: Pod) -> int:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0
