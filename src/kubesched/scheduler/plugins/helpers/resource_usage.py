"""Allocatable and requested amounts of the resources that scoring uses.

docs/reference/05 §6.1. NodeResourcesFit and NodeResourcesBalancedAllocation share this module. They
differ in how they count containers that request no cpu or memory: with defaults, or as 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import DeviceClass, ResourceClaim, ResourceSlice
from kubesched.api.int64 import add_int64
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar_resource_name
from kubesched.errors import KubeschedError
from kubesched.framework import Handle, NodeInfo, NodeView
from kubesched.scheduler.config.args import ResourceSpec
from kubesched.scheduler.plugins.helpers.device_counts import ServedAmounts

__all__ = ["ResourceColumns", "ResourceUsage", "TrackedResources"]

# The attributes of a node that count defaults for containers without requests.
_NONZERO = {CPU: "nonzero_cpu", MEMORY: "nonzero_memory"}
_CPU_AND_MEMORY = (CPU, MEMORY)
_MAX_CACHED = 4096
_FIELDS = {CPU: "milli_cpu", MEMORY: "memory", EPHEMERAL_STORAGE: "ephemeral_storage"}


class ResourceUsage(NamedTuple):
    """One resource of one node.

    All amounts are 0 if the resource does not count there.
    """

    allocatable: int
    allocated: int  # to the pods on the node
    requested: int  # with the incoming pod
    weight: int


ScoreRule = Callable[[Sequence[ResourceUsage]], int]


class ResourceColumns(NamedTuple):
    """Some resources of many nodes. Amounts are int64[resource, node]."""

    allocatable: NDArray[np.int64]
    allocated: NDArray[np.int64]  # to the pods on the nodes
    wanted: list[int]  # requested by the incoming pod, per resource
    weights: list[int]

    @property
    def requested(self) -> NDArray[np.int64]:
        """The allocated amounts including the incoming pod."""
        wanted = np.array(self.wanted, dtype=np.int64)
        return self.allocated + wanted[:, np.newaxis]


class TrackedResources:
    """The configured resources.

    `wanted` is the pod's request of each, in their order.
    """

    def __init__(
        self, specs: Sequence[ResourceSpec], handle: Handle | None = None, *, with_defaults: bool
    ) -> None:
        self.names = tuple(spec.name for spec in specs)
        self._weights = tuple(spec.weight for spec in specs)
        self._is_scalar = tuple(is_scalar_resource_name(name) for name in self.names)
        self._places = tuple(range(len(self.names)))
        self._has_scalars = any(self._is_scalar)
        self._with_defaults = with_defaults
        self._allocatable = tuple(_amount_of("allocatable", name) for name in self.names)
        nonzero = _NONZERO if with_defaults else {}
        self._allocated = tuple(
            attrgetter(nonzero[name]) if name in nonzero else _amount_of("requested", name)
            for name in self.names
        )
        self._served = ServedAmounts(handle, self.names)
        # If all names are fields, one call reads all amounts of a node or a pod.
        self._of_node: Callable[[NodeInfo], tuple[int, ...]] | None = None
        self._of_pod: Callable[[Resources], tuple[int, ...]] | None = None
        if len(self.names) > 1 and all(name in _FIELDS for name in self.names):
            fields = [_FIELDS[name] for name in self.names]
            taken = [nonzero.get(name, f"requested.{_FIELDS[name]}") for name in self.names]
            self._of_node = attrgetter(*(f"allocatable.{field}" for field in fields), *taken)
            self._of_pod = attrgetter(*fields)

    def amounts(self, requested: Resources) -> tuple[int, ...]:
        """Return the pod's request of each configured resource."""
        if self._of_pod is not None:
            return self._of_pod(requested)
        return tuple(requested.amount(name) for name in self.names)

    def scoring_by(self, rule: ScoreRule) -> Callable[[tuple[int, ...], NodeInfo], int]:
        """Return a function that applies a rule to the usages of a node.

        Nodes of one type that are filled with pods of one type pass through the same few totals,
        so the scores are cached by these totals.
        """
        of_node = self._of_node
        if of_node is None:
            return lambda wanted, node: rule(self.usages(wanted, node))
        cached = lru_cache(maxsize=_MAX_CACHED)(
            lambda wanted, totals: rule(self._usages_by_totals(wanted, totals))
        )
        return lambda wanted, node: cached(wanted, of_node(node))

    @property
    def objects_read(self) -> tuple[type[Any], ...]:
        """Kinds of objects, besides nodes and pods, that the amounts depend on."""
        if not self._served.may_count:
            return (DeviceClass,)
        return DeviceClass, ResourceClaim, ResourceSlice

    def usages(self, wanted: Sequence[int], node: NodeInfo) -> list[ResourceUsage]:
        """Return one entry per configured resource.

        Raises:
            KubeschedError: no resource is configured.
        """
        self._check()
        usages: list[ResourceUsage] = []
        for place, amount in enumerate(wanted):
            weight = self._weights[place]
            allocatable = allocated = 0
            if amount or not self._is_scalar[place]:
                allocatable, allocated = (
                    self._allocatable[place](node),
                    self._allocated[place](node),
                )
                if not allocatable and self._served.may_count:
                    allocatable, allocated = self._served.of_node(self.names[place], node)
            usages.append(_usage(allocatable, allocated, amount, weight))
        return usages

    def _usages_by_totals(
        self, wanted: tuple[int, ...], totals: tuple[int, ...]
    ) -> list[ResourceUsage]:
        count = len(wanted)
        return list(map(_usage, totals[:count], totals[count:], wanted, self._weights))

    def columns(self, wanted: Sequence[int], nodes: NodeView) -> ResourceColumns | None:
        """Return the configured resources that count for the pod, or None if none does.

        Raises:
            KubeschedError: no resource is configured.
        """
        self._check()
        names, weights = self.names, self._weights
        if self._has_scalars:
            counts = [bool(wanted[i]) or not self._is_scalar[i] for i in range(len(names))]
            names = tuple(itertools.compress(names, counts))
            if not names:
                return None
            wanted = tuple(itertools.compress(wanted, counts))
            weights = tuple(itertools.compress(weights, counts))
        allocatable, allocated = nodes.allocatable_of(names), self._allocated_of(names, nodes)
        columns = ResourceColumns(allocatable, allocated, list(wanted), list(weights))
        return self._with_devices(columns, names, nodes) if self._served.may_count else columns

    def usages_of_all(self, wanted: Sequence[int], nodes: NodeView) -> list[ResourceUsage]:
        """Return one entry per resource that counts, with the sums over all of the nodes.

        Devices do not count here (docs/reference/05 §9.3).
        """
        usages: list[ResourceUsage] = []
        for place, amount in enumerate(wanted):
            if amount or not self._is_scalar[place]:
                name = self.names[place]
                allocatable = int(nodes.allocatable(name).sum())
                allocated = int(self._allocated_of((name,), nodes).sum())
                usages.append(_usage(allocatable, allocated, amount, self._weights[place]))
        return usages

    def _with_devices(
        self, columns: ResourceColumns, names: tuple[str, ...], nodes: NodeView
    ) -> ResourceColumns:
        """Add the amounts that devices provide where the node's own amount is 0."""
        for place, name in enumerate(names):
            lacking = columns.allocatable[place] == 0
            amounts = self._served.of_nodes(name, nodes, lacking)
            if amounts is not None:
                # Copy: the columns belong to the node table.
                allocatable, allocated = columns.allocatable.copy(), columns.allocated.copy()
                allocatable[place] = np.where(lacking, amounts[0], allocatable[place])
                allocated[place] = np.where(lacking, amounts[1], allocated[place])
                columns = columns._replace(allocatable=allocatable, allocated=allocated)
        return columns

    def _check(self) -> None:
        if not self.names:
            raise KubeschedError("resources not found")

    def _allocated_of(self, names: tuple[str, ...], nodes: NodeView) -> NDArray[np.int64]:
        if not self._with_defaults:
            return nodes.requested_of(names)
        if names == _CPU_AND_MEMORY:
            return nodes.nonzero_requested
        return np.stack([self._allocated_column(name, nodes) for name in names])

    def _allocated_column(self, name: str, nodes: NodeView) -> NDArray[np.int64]:
        if name == CPU:
            return nodes.nonzero_requested_cpu
        if name == MEMORY:
            return nodes.nonzero_requested_memory
        return nodes.requested(name)


def _usage(allocatable: int, allocated: int, wanted: int, weight: int) -> ResourceUsage:
    if not allocatable:
        return ResourceUsage(0, 0, 0, weight)
    return ResourceUsage(allocatable, allocated, add_int64(allocated, wanted), weight)


def _amount_of(total: str, name: str) -> Callable[[NodeInfo], int]:
    """Return a reader of a resource in a node's `allocatable` or `requested`."""
    if name in _FIELDS:
        return attrgetter(f"{total}.{_FIELDS[name]}")
    resources = attrgetter(total)
    return lambda node: resources(node).amount(name)
