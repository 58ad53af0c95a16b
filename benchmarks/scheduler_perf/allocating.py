"""Allocation of claims before the measurement, by the scheduler's own search."""

from __future__ import annotations

from typing import Any, TypeVar

from benchmarks.scheduler_perf.cluster import Cluster
from kubesched.api import DeviceClass, Node, ResourceClaim, ResourceSlice
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins, to_builtins
from kubesched.framework import NodeInfo
from kubesched.scheduler.plugins.dynamic_resources import DynamicResources
from kubesched.scheduler.plugins.dynamic_resources.allocation_results import allocation_of
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices
from kubesched.testing import FakeHandle, make_pod

__all__ = ["allocate_by_search"]

T = TypeVar("T", bound=ApiObject)


def allocate_by_search(cluster: Cluster, namespace: str) -> None:
    """Allocate devices to every claim of the namespace, on the first node that has them."""
    nodes = [NodeInfo(node=node) for node in _all(cluster, Node)]
    claims = [
        claim
        for claim in _all(cluster, ResourceClaim)
        if claim.metadata.namespace == namespace and claim.status.allocation is None
    ]
    plugin = DynamicResources(
        None, FakeHandle([*_all(cluster, DeviceClass), *_all(cluster, ResourceSlice)])
    )
    pod = make_pod("nobody")
    for claim in claims:
        data = PodDevices(claims=[claim], pending=(0,))
        fitting = (node for node in nodes if plugin.filtering.filter(data, pod, node).is_success)
        node = next(fitting, None)
        if node is None:
            raise ValueError(f"no device is left for claim {claim.metadata.name}")
        found = plugin.filtering.search_node(data, pod, node)
        assert found is not None
        variant, answer = found
        assert answer.solution is not None
        assert node.node is not None
        views = plugin.devices.inventory.of_node(node.node).views
        allocation = allocation_of(
            answer.solution, 0, variant.requests[0], views, node.name, share_id=str
        )
        plugin.devices.inventory.allocated.take(allocation)
        document: dict[str, Any] = to_builtins(claim)
        document |= {"apiVersion": ResourceClaim.api_version, "kind": ResourceClaim.kind}
        document["status"] = {"allocation": to_builtins(allocation)}
        cluster.replace(document, namespace, ("status",))


def _all(cluster: Cluster, kind: type[T]) -> list[T]:
    records = cluster.records(kind.api_version, kind.kind)
    return [from_builtins(record.data, kind) for record in records]
