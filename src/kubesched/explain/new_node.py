"""The remedy that every pod has: one more node like one of the cluster's nodes."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import CSINode, ObjectMeta, ResourceSlice
from kubesched.api.taints import UNSCHEDULABLE_TAINT
from kubesched.framework import NodeInfo, RejectedNodes, Remedy
from kubesched.scheduler.plugins.helpers.node_copies import NEW_NODE_SIZE, node_like
from kubesched.scheduler.plugins.helpers.volume_claims import claim_names

__all__ = ["add_node_like"]

_MOST_SHAPES = 4


def add_node_like(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose one more node of each of the largest shapes of node."""
    shapes: dict[object, NodeInfo] = {}
    for node in sorted(rejected.nodes, key=lambda each: each.name):
        shapes.setdefault(_shape(node), node)
    largest = sorted(
        shapes.values(),
        key=lambda each: (-each.allocatable.milli_cpu, -each.allocatable.memory, each.name),
    )
    for number, node in enumerate(largest[:_MOST_SHAPES]):
        assert node.node is not None
        name = f"{node.name}-new"
        devices = _devices_like(rejected, node.name, name)
        yield Remedy(
            f"add one more node like {node.name}" + (", with its devices" if devices else ""),
            # A smaller node is the smaller change, but only slightly.
            NEW_NODE_SIZE + (len(largest) - number) / (10 * len(largest)),
            rejected.pod,
            (node_like(node.node, name), *devices, *_drivers_like(rejected, node.name, name)),
            node=name,
        )


def _devices_like(rejected: RejectedNodes, node: str, name: str) -> list[ResourceSlice]:
    """Copy the devices of a node for another one like it."""
    if not rejected.pod.spec.resource_claims:
        return []
    return [
        replace(
            each,
            metadata=ObjectMeta(name=f"{each.metadata.name}-new"),
            spec=replace(each.spec, node_name=name, pool=replace(each.spec.pool, name=name)),
        )
        for each in rejected.objects.list(ResourceSlice)
        if each.spec.node_name == node
    ]


def _drivers_like(rejected: RejectedNodes, node: str, name: str) -> list[CSINode]:
    """Copy the volume drivers of a node, with their limits, for another one like it."""
    found = rejected.objects.get(CSINode, node) if any(claim_names(rejected.pod)) else None
    if found is None:
        return []
    drivers = tuple(replace(each, node_id=name) for each in found.spec.drivers)
    return [CSINode(metadata=ObjectMeta(name=name), spec=replace(found.spec, drivers=drivers))]


def _shape(node: NodeInfo) -> object:
    assert node.node is not None
    labels = tuple(sorted((key, value) for key, value in node.labels.items() if value != node.name))
    amounts = tuple(sorted((k, str(v)) for k, v in node.node.status.allocatable.items()))
    taints = tuple(taint for taint in node.node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return labels, amounts, taints
