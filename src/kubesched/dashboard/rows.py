"""Nodes and pods in short, as the page is sent them.

Nodes of a pool differ in their names and in what is asked of them, and in little else. What they
have in common is a shape; the row of a node names its shape, so that fifty thousand nodes are
two megabytes and not twenty.
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

__all__ = [
    "NodeFacts",
    "NodeShapeCache",
    "RowSource",
    "in_order_of_importance",
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
    """A node, what it has, what is asked of it, and how many pods it has."""

    node: Node
    allocatable: Resources
    requested: Resources
    pods: int


class RowSource(Protocol):
    """Where rows come from."""

    def facts(self, name: str) -> NodeFacts | None:
        """What is known of a node; None: there is none."""
        ...

    @property
    def shapes(self) -> NodeShapeCache: ...


class NodeShapeCache:
    """Shapes of nodes as JSON, worked out once for each version of a node."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[Node, bytes]] = {}
        self._same: dict[bytes, bytes] = {}

    def shape(self, facts: NodeFacts) -> bytes:
        node = facts.node
        known = self._of.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[1]
        encoded = _encode(_shape(node, facts.allocatable))
        encoded = self._same.setdefault(encoded, encoded)
        self._of[node.metadata.name] = (node, encoded)
        return encoded

    def forget(self, name: str) -> None:
        self._of.pop(name, None)

    def clear(self) -> None:
        self._of.clear()
        self._same.clear()


def node_rows(source: RowSource, names: Iterable[str], places: dict[bytes, int]) -> list[list[Any]]:
    """Rows of the nodes there are: the place of the shape, then as `usage_row` has it.

    `places` is where the shapes are, in their order; it gets those that are new.
    """
    rows = []
    for name in names:
        facts = source.facts(name)
        if facts is not None:
            place = places.setdefault(source.shapes.shape(facts), len(places))
            rows.append([place, *usage_row(name, facts)])
    return rows


def usage_row(name: str, facts: NodeFacts) -> list[Any]:
    """What is asked of a node, in the shortest form: name, cpu, memory, pods, others."""
    used = facts.requested
    row: list[Any] = [name, used.milli_cpu, used.memory // _MIB, facts.pods]
    if used.scalar:
        row.append(used.scalar)
    return row


def _shape(node: Node, allocatable: Resources) -> dict[str, Any]:
    """All that the page shows of a node, but its name and what is asked of it."""
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
    """A node by itself: its shape, with amounts as (requested, allocatable)."""
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


def in_order_of_importance(pods: Iterable[Pod]) -> list[Pod]:
    """The most important first, then the oldest."""
    return sorted(pods, key=lambda pod: (-pod_priority(pod), _created(pod), pod_key(pod)))


def _created(pod: Pod) -> int:
    created = pod.metadata.creation_timestamp
    return parse_time(created) if created else 0


def _is_ready(node: Node) -> bool:
    conditions = [each for each in node.status.conditions if each.type == "Ready"]
    return not conditions or conditions[0].status == "True"
