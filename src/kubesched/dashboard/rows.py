"""Compact rows of nodes and pods for the page.

Nodes of a pool mainly differ in name and usage. Their common part is a shape. The row of a node has
the index of its shape, so that fifty thousand nodes take two megabytes instead of twenty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_key, pod_priority
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.api.time import parse_time
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.dashboard.pod_group_rows import group_key_of

__all__ = [
    "NodeFacts",
    "NodeShapeCache",
    "RowSource",
    "by_importance",
    "node_row",
    "node_rows",
    "pod_row",
    "usage_row",
    "waiting_reason",
]

_HOSTNAME: Final = "kubernetes.io/hostname"
_MIB: Final = 1 << 20

_encode = msgspec.json.Encoder().encode


class NodeFacts(NamedTuple):
    """A node with its allocatable and requested resources, and its number of pods."""

    node: Node
    allocatable: Resources
    requested: Resources
    pods: int


class RowSource(Protocol):
    """The facts of nodes and their cached shapes, from which rows of the page are built."""

    def facts(self, name: str) -> NodeFacts | None:
        """Return the facts of a node; None if it does not exist."""
        ...

    @property
    def shapes(self) -> NodeShapeCache: ...


class NodeShapeCache:
    """A cache of the shapes of nodes as JSON, by the version of a node."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[Node, bytes]] = {}
        self._interned: dict[bytes, bytes] = {}

    def shape(self, facts: NodeFacts) -> bytes:
        """Return the encoded shape of a node."""
        node = facts.node
        cached = self._by_node.get(node.metadata.name)
        if cached is not None and cached[0] is node:
            return cached[1]
        encoded = _encode(_shape(node, facts.allocatable))
        encoded = self._interned.setdefault(encoded, encoded)
        self._by_node[node.metadata.name] = (node, encoded)
        return encoded

    def remove(self, name: str) -> None:
        self._by_node.pop(name, None)

    def clear(self) -> None:
        self._by_node.clear()
        self._interned.clear()


def node_rows(
    source: RowSource, names: Iterable[str], indexes: dict[bytes, int]
) -> list[list[Any]]:
    """Return the rows of existing nodes: the index of the shape, then the `usage_row`.

    `indexes` has the index of each shape of the frame. New shapes are added to it.
    """
    rows = []
    for name in names:
        facts = source.facts(name)
        if facts is not None:
            index = indexes.setdefault(source.shapes.shape(facts), len(indexes))
            rows.append([index, *usage_row(name, facts)])
    return rows


def usage_row(name: str, facts: NodeFacts) -> list[Any]:
    """Return the usage of a node: name, CPU, memory, pods, and extended resources if any."""
    used = facts.requested
    row: list[Any] = [name, used.milli_cpu, used.memory // _MIB, facts.pods]
    if used.scalar:
        row.append(used.scalar)
    return row


def _shape(node: Node, allocatable: Resources) -> dict[str, Any]:
    """Return all that the page shows of a node, except name and usage."""
    name, labels = node.metadata.name, node.metadata.labels
    if labels.get(_HOSTNAME) == name:
        labels = {key: value for key, value in labels.items() if key != _HOSTNAME}
    shape: dict[str, Any] = {
        "labels": labels,
        "cpu": allocatable.milli_cpu,
        "memory": allocatable.memory // _MIB,
        "pods": Resources.allowed_pods(node.status.allocatable),
    }
    if extended := {each: amount for each, amount in allocatable.scalar.items() if amount}:
        shape["extended"] = extended
    if node.spec.unschedulable:
        shape["cordoned"] = True
    if not _is_ready(node):
        shape["notReady"] = True
    if STOPPED in node.metadata.annotations:
        shape["stopped"] = True
    if node.spec.taints:
        shape["taints"] = [
            f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
            for taint in node.spec.taints
        ]
    return shape


def node_row(facts: NodeFacts) -> dict[str, Any]:
    """Return a node with its shape, and with amounts as [requested, allocatable]."""
    row = _shape(facts.node, facts.allocatable)
    used = facts.requested
    row["name"] = facts.node.metadata.name
    row["cpu"] = [used.milli_cpu, row["cpu"]]
    row["memory"] = [used.memory // _MIB, row["memory"]]
    row["pods"] = [facts.pods, row["pods"]]
    if "extended" in row:
        row["extended"] = {
            each: [used.scalar.get(each, 0), amount] for each, amount in row["extended"].items()
        }
    return row


def pod_row(pod: Pod) -> dict[str, Any]:
    """Return the row of a pod."""
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
    if group := group_key_of(pod):
        row["group"] = group
    reason = waiting_reason(pod)
    if reason:
        row["reason"] = reason
    return row


def waiting_reason(pod: Pod) -> str:
    """Return the reason in the PodScheduled condition of a pod; empty if there is none."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return ""


def by_importance(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods by priority, highest first, and then by age."""
    return sorted(pods, key=lambda pod: (-pod_priority(pod), _created(pod), pod_key(pod)))


def _created(pod: Pod) -> int:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0


def _is_ready(node: Node) -> bool:
    conditions = [each for each in node.status.conditions if each.type == "Ready"]
    return not conditions or conditions[0].status == "True"
