"""One more node like one that is there."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta, ResourceSlice
from kubesched.explain.suggestions.candidate import CLUSTER, Candidate, Question
from kubesched.framework import NodeInfo

__all__ = ["add_node_like", "node_like"]

_HOSTNAME = "kubernetes.io/hostname"
_CORDON = "node.kubernetes.io/unschedulable"
_MOST = 4
NEW_NODE_SIZE = 3.0


def node_like(node: Node, name: str) -> Node:
    """An empty, healthy node with the labels, taints and amounts of another."""
    labels = dict(node.metadata.labels)
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = tuple(
        taint for taint in node.spec.taints if not taint.key.startswith("node.kubernetes.io/")
    )
    return replace(
        node,
        metadata=ObjectMeta(name=name, labels=labels, annotations=node.metadata.annotations),
        spec=replace(node.spec, unschedulable=False, taints=taints, provider_id=""),
    )


def add_node_like(question: Question) -> Iterator[Candidate]:
    """For each of the largest shapes of node one more of it."""
    shapes: dict[object, NodeInfo] = {}
    for node in sorted(question.nodes, key=lambda each: each.name):
        shapes.setdefault(_shape(node), node)
    largest = sorted(
        shapes.values(),
        key=lambda each: (-each.allocatable.milli_cpu, -each.allocatable.memory, each.name),
    )
    for number, node in enumerate(largest[:_MOST]):
        assert node.node is not None
        name = f"{node.name}-new"
        devices = _devices_like(question, node.name, name)
        yield Candidate(
            f"add one more node like {node.name}" + (", with its devices" if devices else ""),
            CLUSTER,
            # A smaller node is the smaller change, but only slightly.
            NEW_NODE_SIZE + (len(largest) - number) / (10 * len(largest)),
            question.pod,
            (node_like(node.node, name), *devices),
            node=name,
        )


def _devices_like(question: Question, node: str, name: str) -> list[ResourceSlice]:
    """What a node's drivers would offer on another one like it."""
    if not question.pod.spec.resource_claims:
        return []
    return [
        replace(
            each,
            metadata=ObjectMeta(name=f"{each.metadata.name}-new"),
            spec=replace(each.spec, node_name=name, pool=replace(each.spec.pool, name=name)),
        )
        for each in question.model.objects.list(ResourceSlice)
        if each.spec.node_name == node
    ]


def _shape(node: NodeInfo) -> object:
    assert node.node is not None
    labels = tuple(sorted((key, value) for key, value in node.labels.items() if value != node.name))
    amounts = tuple(sorted((k, str(v)) for k, v in node.node.status.allocatable.items()))
    taints = tuple(taint for taint in node.node.spec.taints if taint.key != _CORDON)
    return labels, amounts, taints
