"""What a node has of the resources that scoring looks at, and what is taken (spec 05 §6.1).

Shared by NodeResourcesFit and NodeResourcesBalancedAllocation, which differ in whether cpu and
memory count as requested or with defaults for containers that request none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.resource_names import CPU, MEMORY, is_scalar_resource_name
from kubesched.config.args import ResourceSpec
from kubesched.framework import NodeInfo, NodeView
from kubesched.util.errors import KubeschedError
from kubesched.util.ints import wrap_int64

__all__ = ["ResourceColumns", "ResourceUsage", "TrackedResources"]


class ResourceUsage(NamedTuple):
    """One resource of one node. All amounts are 0 if the resource does not count there."""

    allocatable: int
    allocated: int  # to the pods on the node
    requested: int  # with the incoming pod
    weight: int


class ResourceColumns(NamedTuple):
    """One resource of many nodes; `counted` tells on which it counts, None: on all."""

    allocatable: NDArray[np.int64]
    divisor: NDArray[np.int64]  # allocatable, or 1 where that is 0
    allocated: NDArray[np.int64]
    requested: NDArray[np.int64]
    counted: NDArray[np.bool_] | None
    weight: int


class TrackedResources:
    """The configured resources. `wanted` is what the pod asks of each, in their order."""

    def __init__(self, specs: Sequence[ResourceSpec], *, with_defaults: bool) -> None:
        self.names = tuple(spec.name for spec in specs)
        self._weights = tuple(spec.weight for spec in specs)
        self._is_scalar = tuple(is_scalar_resource_name(name) for name in self.names)
        self._with_defaults = with_defaults

    def usages(self, wanted: Sequence[int], node: NodeInfo) -> list[ResourceUsage]:
        """One entry per configured resource.

        Raises:
            KubeschedError: no resource is configured.
        """
        self._check()
        return [self._usage(place, amount, node) for place, amount in enumerate(wanted)]

    def columns(self, wanted: Sequence[int], nodes: NodeView) -> list[ResourceColumns]:
        """One entry per configured resource that counts on some node.

        Raises:
            KubeschedError: no resource is configured.
        """
        self._check()
        found = []
        for place, amount in enumerate(wanted):
            if not amount and self._is_scalar[place]:
                continue
            allocatable = nodes.allocatable(self.names[place])
            counted, divisor = None, allocatable
            if allocatable.size and allocatable.min() <= 0:
                counted = allocatable != 0
                if not counted.any():
                    continue
                divisor = np.where(counted, allocatable, 1)
            allocated = self._allocated_column(place, nodes)
            requested = allocated + amount
            weight = self._weights[place]
            found.append(
                ResourceColumns(allocatable, divisor, allocated, requested, counted, weight)
            )
        return found

    def _check(self) -> None:
        if not self.names:
            raise KubeschedError("resources not found")

    def _usage(self, place: int, amount: int, node: NodeInfo) -> ResourceUsage:
        weight = self._weights[place]
        allocatable = node.allocatable.amount(self.names[place])
        if not allocatable or (not amount and self._is_scalar[place]):
            return ResourceUsage(0, 0, 0, weight)
        allocated = self._allocated(place, node)
        return ResourceUsage(allocatable, allocated, wrap_int64(allocated + amount), weight)

    def _allocated(self, place: int, node: NodeInfo) -> int:
        name = self.names[place]
        if self._with_defaults and name == CPU:
            return node.nonzero_cpu
        if self._with_defaults and name == MEMORY:
            return node.nonzero_memory
        return node.requested.amount(name)

    def _allocated_column(self, place: int, nodes: NodeView) -> NDArray[np.int64]:
        name = self.names[place]
        if self._with_defaults and name == CPU:
            return nodes.nonzero_requested_cpu
        if self._with_defaults and name == MEMORY:
            return nodes.nonzero_requested_memory
        return nodes.requested(name)
