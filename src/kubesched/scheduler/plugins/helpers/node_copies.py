"""New nodes for remedies: copies of nodes that the cluster has."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta

__all__ = ["NEW_NODE_SIZE", "node_like"]


_HOSTNAME = "kubernetes.io/hostname"

# The size of a remedy that adds a node (`Remedy.size`).
NEW_NODE_SIZE = 3.0


def node_like(node: Node, name: str) -> Node:
    """Return an empty, healthy node with the labels, taints and amounts of another."""
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
