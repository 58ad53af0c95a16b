"""New nodes for remedies: copies of nodes that the cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta
from kubesched.framework.explaining import RejectedNodes, Remedy

__all__ = ["NEW_NODE_SIZE", "labelled_node_like", "node_like", "nodes_in_other_domains"]


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


def labelled_node_like(node: Node, name: str, labels: Mapping[str, str]) -> Node:
    """Return an empty, healthy node like another, with further labels."""
    made = node_like(node, name)
    return replace(made, metadata=replace(made.metadata, labels={**made.metadata.labels, **labels}))


def nodes_in_other_domains(rejected: RejectedNodes, keys: Iterable[str]) -> Iterator[Remedy]:
    """Propose a node in a new domain of each topology key, such as another zone.

    A copy of a node is in an existing domain, except for the key of hostnames.
    """
    for key in dict.fromkeys(keys):
        found = [each for each in rejected.by_name if key in each.labels and key != _HOSTNAME]
        if not found:
            continue
        like = max(found, key=lambda each: (each.allocatable.milli_cpu, each.name))
        assert like.node is not None
        short = key.rpartition("/")[2]
        name = f"{like.name}-new"
        yield Remedy(
            f"add a node like {like.name} in another {short} ({key})",
            NEW_NODE_SIZE + 0.5,
            rejected.pod,
            (labelled_node_like(like.node, name, {key: f"{short}-new"}),),
            node=name,
        )
