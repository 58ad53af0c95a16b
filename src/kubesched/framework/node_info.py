"""A node and its pods, with totals of their requests (docs/reference/04 §3.3).

The cache owns the NodeInfos; a dry run works on clones. A NodeInfo whose `node` is None has only
pods: their node has not been watched yet, or has been deleted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from itertools import islice
from typing import Final

import msgspec

from kubesched.api import Node
from kubesched.api.host_ports import HostPort, ports_conflict
from kubesched.api.int64 import MAX_INT64, MIN_INT64, add_int64, wrap_int64
from kubesched.api.resource_amounts import Resources
from kubesched.errors import CacheError
from kubesched.framework.engine import number_of_label
from kubesched.framework.pod_info import PodInfo

__all__ = ["MOST_RESOURCES", "ImageState", "NodeInfo"]

# Of a node: each name is validated when the node changes.
MOST_RESOURCES: Final = 10_000

_NO_PORTS: frozenset[HostPort] = frozenset()


class ImageState(msgspec.Struct, frozen=True, gc=False):
    """An image on a node: its size, and the number of nodes that had it at the last update."""

    size_bytes: int
    node_count: int


class NodeInfo(msgspec.Struct, eq=False, gc=False):
    """A node, its pods, and the totals of their requests.

    No field refers back to a NodeInfo, so the garbage collector does not track them.
    """

    name: str = ""
    node: Node | None = None
    pods: list[PodInfo] = []
    _position: dict[str, int] = {}  # uid -> index in pods
    pods_with_affinity: tuple[PodInfo, ...] = ()
    pods_with_required_anti_affinity: tuple[PodInfo, ...] = ()
    used_ports: frozenset[HostPort] = _NO_PORTS
    requested: Resources = msgspec.field(default_factory=Resources)
    nonzero_cpu: int = 0
    nonzero_memory: int = 0
    allocatable: Resources = msgspec.field(default_factory=Resources)
    allowed_pod_number: int = 0
    image_states: Mapping[str, ImageState] = {}
    pvc_ref_counts: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.node is not None:
            self.set_node(self.node)

    @property
    def labels(self) -> dict[str, str]:
        return self.node.metadata.labels if self.node is not None else {}

    def label_number(self, key: str, default: float = math.nan) -> float:
        """Return the value of a label as a number; the default if it is absent or no number."""
        return number_of_label(self.labels.get(key, ""), default)

    def set_node(self, node: Node) -> None:
        """Replace the node object; the pods stay.

        Nothing changes if an amount cannot be parsed.
        """
        amounts: Mapping[str, str | int | float] = node.status.allocatable
        if len(amounts) > MOST_RESOURCES:
            amounts = dict(islice(amounts.items(), MOST_RESOURCES))
        allocatable, allowed_pods = (
            Resources.from_resource_list(amounts),
            Resources.allowed_pods(amounts),
        )
        self.name = node.metadata.name
        self.node = node
        self.allocatable = allocatable
        self.allowed_pod_number = allowed_pods

    def remove_node(self) -> None:
        self.node = None

    def add_pod(self, pod_info: PodInfo) -> None:
        self._position[pod_info.uid] = len(self.pods)
        self.pods.append(pod_info)
        self.requested.add(pod_info.requested)
        cpu, memory = pod_info.nonzero_requested
        cpu, memory = self.nonzero_cpu + cpu, self.nonzero_memory + memory
        self.nonzero_cpu = cpu if MIN_INT64 <= cpu <= MAX_INT64 else wrap_int64(cpu)
        self.nonzero_memory = memory if MIN_INT64 <= memory <= MAX_INT64 else wrap_int64(memory)
        if pod_info.has_affinity:
            self.pods_with_affinity = (*self.pods_with_affinity, pod_info)
        if pod_info.required_anti_affinity_terms:
            self.pods_with_required_anti_affinity = (
                *self.pods_with_required_anti_affinity,
                pod_info,
            )
        if ports := pod_info.host_ports:
            self.used_ports = self.used_ports.union(ports)
        if claims := pod_info.claim_keys:
            self._count_claims(claims, 1)

    def remove_pod(self, uid: str) -> PodInfo:
        """Remove a pod from the node; the last pod of the list moves to its index.

        The amounts subtracted are those that were added, even if the pod has changed since.

        Raises:
            CacheError: the pod is not on the node.
        """
        position = self._position.pop(uid, None)
        if position is None:
            raise CacheError(f"no corresponding pod {uid} in pods of node {self.name}")
        removed = self.pods[position]
        last = self.pods.pop()
        if last is not removed:
            self.pods[position] = last
            self._position[last.uid] = position
        self.requested.subtract(removed.requested)
        cpu, memory = removed.nonzero_requested
        self.nonzero_cpu = add_int64(self.nonzero_cpu, -cpu)
        self.nonzero_memory = add_int64(self.nonzero_memory, -memory)
        if removed.has_affinity:
            self.pods_with_affinity = _without(self.pods_with_affinity, removed)
        if removed.required_anti_affinity_terms:
            self.pods_with_required_anti_affinity = _without(
                self.pods_with_required_anti_affinity, removed
            )
        if removed.host_ports:
            # Two pods may use the same port, if a user bound them: it is in use until both end.
            self.used_ports = frozenset(port for each in self.pods for port in each.host_ports)
        if claims := removed.claim_keys:
            self._count_claims(claims, -1)
        return removed

    def has_pod(self, uid: str) -> bool:
        return uid in self._position

    def conflicts_with(self, wanted: tuple[HostPort, ...]) -> bool:
        """Whether one of these host ports is in use on the node."""
        return bool(self.used_ports) and ports_conflict(wanted, self.used_ports)

    def clone(self) -> NodeInfo:
        """Copy what a dry run changes; the node and the PodInfos are shared."""
        clone = copy(self)
        clone.pods = list(self.pods)
        clone._position = dict(self._position)
        clone.requested = self.requested.clone()
        clone.pvc_ref_counts = dict(self.pvc_ref_counts)
        return clone

    def _count_claims(self, claims: tuple[str, ...], step: int) -> None:
        for key in claims:
            count = self.pvc_ref_counts.get(key, 0) + step
            if count > 0:
                self.pvc_ref_counts[key] = count
            else:
                self.pvc_ref_counts.pop(key, None)


def _without(pods: tuple[PodInfo, ...], removed: PodInfo) -> tuple[PodInfo, ...]:
    """Return the pods without one, in the reference's order: the last moves to its position."""
    for place, pod_info in enumerate(pods):
        if pod_info is removed:
            *kept, last = pods
            if last is not removed:
                kept[place] = last
            return tuple(kept)
    return pods
