"""Node types: each node of a file is a template for any number of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubesched.api import Node, NodeCondition, ObjectMeta
from kubesched.plan.reading.cluster_problem import price_of
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["NodeType", "node_types"]

_HOSTNAME: Final = "kubernetes.io/hostname"
# Taints that the control plane sets and removes; they do not belong to a type.
_OWN_TAINTS: Final = "node.kubernetes.io/"
_READY: Final = NodeCondition(type="Ready", status="True")


class NodeType(NamedTuple):
    """A template, its name and its price in units of `PRICE_UNITS`."""

    name: str
    template: Node
    price: int

    def make(self, number: int) -> Node:
        """Return a node of the type, ready and empty."""
        name = f"{self.name}-{number}"
        labels = {**self.template.metadata.labels, _HOSTNAME: name}
        metadata = ObjectMeta(
            name=name,
            labels=labels,
            annotations=self.template.metadata.annotations,
            uid=f"node-{name}",
        )
        return replace(self.template, metadata=metadata)


def node_types(nodes: Iterable[Node], policy: PlanningPolicy) -> Sequence[NodeType]:
    """Return the types of a file; equal nodes are the same type."""
    found: dict[bytes, NodeType] = {}
    for node in nodes:
        labels = {name: value for name, value in node.metadata.labels.items() if name != _HOSTNAME}
        status = node.status
        template = replace(
            node,
            metadata=replace(node.metadata, labels=labels),
            spec=replace(
                node.spec,
                unschedulable=False,
                taints=tuple(t for t in node.spec.taints if not t.key.startswith(_OWN_TAINTS)),
            ),
            status=replace(
                status,
                allocatable=status.allocatable or status.capacity,
                conditions=(_READY,),
            ),
        )
        price = price_of(node, policy)
        key = msgspec.json.encode(
            (labels, template.spec.taints, template.status.allocatable, price)
        )
        found.setdefault(key, NodeType(node.metadata.name, template, price))
    return list(found.values())
