"""Remedies for any pod: one more node like an existing node, or a larger one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kubesched.api import CSINode, Node, ObjectMeta, ResourceSlice
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.api.taints import UNSCHEDULABLE_TAINT
from kubesched.framework import NodeInfo, RejectedNodes, Remedy
from kubesched.scheduler.plugins.helpers.node_copies import NEW_NODE_SIZE, node_like
from kubesched.scheduler.plugins.helpers.requested_amounts import requested_amounts
from kubesched.scheduler.plugins.helpers.volume_claims import claim_names
from kubesched.scheduler.plugins.helpers.wording import as_quantity, nearest, shown_amount

__all__ = ["add_larger_node", "add_node_like"]

_MOST_SHAPES = 4


def add_node_like(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose one more node of each of the largest node shapes."""
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
            # A smaller node is a slightly smaller change.
            NEW_NODE_SIZE + (len(largest) - number) / (10 * len(largest)),
            rejected.pod,
            (node_like(node.node, name), *devices, *_drivers_like(rejected, node.name, name)),
            node=name,
        )


def add_larger_node(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose a copy of a node, enlarged to the pod's requests, if no node is large enough."""
    wanted = requested_amounts(rejected.pod)
    offered = sorted({each for node in rejected.nodes for each in _amounts(node)})
    if any(name not in offered and nearest(name, offered) for name in wanted):
        return  # a typing error: no node needs to offer the resource
    lacking = [
        {name: amount for name, amount in wanted.items() if amount > _amounts(node).get(name, 0)}
        for node in rejected.nodes
    ]
    if not all(lacking):
        return
    for node, missing in sorted(
        zip(rejected.nodes, lacking, strict=True),
        key=lambda each: (len(each[1]), -each[0].allocatable.milli_cpu, each[0].name),
    )[:_MOST_SHAPES]:
        assert node.node is not None
        name = f"{node.name}-new"
        larger = _with_amounts(node_like(node.node, name), missing)
        has = " and ".join(f"{shown_amount(key, amount)} {key}" for key, amount in missing.items())
        remedy = Remedy(
            f"add a node like {node.name} with {has}",
            NEW_NODE_SIZE + 1,
            rejected.pod,
            (larger, *_drivers_like(rejected, node.name, name)),
            node=name,
        )
        if rejected.fits_after(remedy):
            yield remedy
            return


def _amounts(node: NodeInfo) -> dict[str, int]:
    own = node.allocatable
    return {
        CPU: own.milli_cpu,
        MEMORY: own.memory,
        EPHEMERAL_STORAGE: own.ephemeral_storage,
        **own.scalar,
    }


def _with_amounts(node: Node, amounts: Mapping[str, int]) -> Node:
    more = {name: as_quantity(name, amount) for name, amount in amounts.items()}
    status = replace(
        node.status,
        allocatable={**node.status.allocatable, **more},
        capacity={**node.status.capacity, **more},
    )
    return replace(node, status=status)


def _devices_like(rejected: RejectedNodes, node: str, name: str) -> list[ResourceSlice]:
    """Copy the devices of a node for a new node."""
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
    """Copy the volume drivers of a node, with their limits, for a new node."""
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
