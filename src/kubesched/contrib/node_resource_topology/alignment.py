"""Whether the topology manager of the kubelet can align a pod on a node.

With the policy single-numa-node, one zone must have everything that a container (or the pod)
requests, and the lowest such zone is used. With the policy restricted, each resource must come from
as few zones as an empty node would need for it, and the zones of all resources must have one in
common. Otherwise the kubelet rejects the pod. Other policies reject no pod.

`aligns_on` evaluates one node, `aligns` evaluates many at once by the same rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds, may_be_undivided
from kubesched.contrib.node_resource_topology.zones import (
    POD_SCOPE,
    RESTRICTED,
    SINGLE_NUMA_NODE,
    ZONES,
    Amounts,
    NodeTopology,
    ZoneColumns,
)

__all__ = ["aligns", "aligns_on"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_NOWHERE: Final = -1


def aligns_on(
    needs: PodNeeds, topology: NodeTopology, reserved: Amounts, offered: Collection[str]
) -> bool:
    """Whether the pod can be aligned on a node; `offered` names the resources of the node."""
    if topology.policy not in (SINGLE_NUMA_NODE, RESTRICTED):
        return True
    zones = _Zones(needs, topology, reserved, offered)
    if topology.scope == POD_SCOPE:
        return zones.find(needs.whole) != _NOWHERE
    # Init containers run one at a time, before the others.
    if any(zones.find(each) == _NOWHERE for each in needs.init):
        return False
    return all(zones.take(each) for each in needs.containers)


class _Zones:
    """The zones of one node, from which the requests of containers are subtracted."""

    def __init__(
        self, needs: PodNeeds, topology: NodeTopology, reserved: Amounts, offered: Collection[str]
    ) -> None:
        self._needs, self._topology, self._offered = needs, topology, offered
        self._left = topology.left(reserved)

    def find(self, request: Amounts) -> int:
        """Return the lowest zone on which a request can be aligned, or `_NOWHERE`."""
        if not all(name in self._offered for name in request):
            return _NOWHERE
        may_use = self._prefers if self._topology.policy == RESTRICTED else self._has
        for zone in range(ZONES):
            if all(may_use(zone, name, amount) for name, amount in request.items()):
                return zone
        return _NOWHERE

    def _has(self, zone: int, name: str, amount: int) -> bool:
        available = self._left.get(zone, {}).get(name)
        if available is None:
            return may_be_undivided(name) and not self._is_divided(name)
        return available >= amount or self._needs.is_unlimited(name)

    def _is_divided(self, name: str) -> bool:
        return any(name in amounts for amounts in self._left.values())

    def _prefers(self, zone: int, name: str, amount: int) -> bool:
        """Whether a smallest possible set of zones for a resource includes this zone."""
        if self._needs.is_unlimited(name):
            return True
        if not self._is_divided(name):
            return may_be_undivided(name)
        if zone not in self._left:
            return False
        width = self._width(name, amount)
        available = self._left[zone].get(name, 0)
        others = [each.get(name, 0) for number, each in self._left.items() if number != zone]
        return (
            bool(width) and available + sum(sorted(others)[-(width - 1) :] * (width > 1)) >= amount
        )

    def _width(self, name: str, amount: int) -> int:
        """Return how many zones of the empty node provide an amount; 0: all together do not."""
        total = 0
        allocatable = (each.get(name, 0) for each in self._topology.allocatable.values())
        for width, each in enumerate(sorted(allocatable, reverse=True), 1):
            total += each
            if total >= amount:
                return width
        return 0

    def take(self, request: Amounts) -> bool:
        """Subtract a request from the zones; return whether it can be aligned."""
        zone = self.find(request)
        if zone == _NOWHERE:
            return False
        for name, amount in request.items():
            self._take(name, amount, zone)
        return True

    def _take(self, name: str, amount: int, first: int) -> None:
        """Subtract from one zone; with the policy restricted, the rest from the largest ones."""
        zones = [first]
        if self._topology.policy == RESTRICTED:
            rest = sorted(self._left, key=lambda each: (-self._left[each].get(name, 0), each))
            zones += [each for each in rest if each != first]
        for zone in zones:
            amounts = self._left.get(zone, {})
            if name in amounts:
                taken = min(amounts[name], amount)
                amounts[name] -= taken
                amount -= taken


def aligns(needs: PodNeeds, columns: ZoneColumns, offers: Mapping[str, Bools]) -> Bools:
    """Return for which nodes the pod can be aligned; nodes with other policies always pass.

    `offers` is a mask of the nodes that have a resource, by resource.
    """
    answer = np.ones(columns.count, dtype=bool)
    for kind, of_policy in (
        (_ZonePart, columns.is_single),
        (_RestrictedPart, columns.is_restricted),
    ):
        in_pods = np.flatnonzero(of_policy & columns.is_pod_scope)
        if len(in_pods):
            part = kind(needs, columns, offers, in_pods)
            answer[in_pods] = part.fitting(needs.whole).any(axis=0)
        in_containers = np.flatnonzero(of_policy & ~columns.is_pod_scope)
        if len(in_containers):
            part = kind(needs, columns, offers, in_containers)
            answer[in_containers] = part.fit_one_by_one()
    return answer


class _ZonePart:
    """Copies of the zones of some nodes, from which the requests of containers are subtracted."""

    def __init__(
        self,
        needs: PodNeeds,
        columns: ZoneColumns,
        offers: Mapping[str, Bools],
        rows: NDArray[np.intp],
    ) -> None:
        self._needs = needs
        self._zones = columns.at(rows, needs.whole)
        self._offers = {name: each[rows] for name, each in offers.items()}
        self._nodes = np.arange(len(rows))

    def fitting(self, request: Amounts) -> Bools:
        """Return bool[zone, node]: on which zones a request can be aligned."""
        fits = np.ones((ZONES, self._zones.count), dtype=bool)
        for name, amount in request.items():
            fits &= self._fitting_one(name, amount) & self._offers[name]
        return fits

    def _fitting_one(self, name: str, amount: int) -> Bools:
        available = self._zones.available(name)
        is_present: Bools = available >= 0
        fits = is_present & (self._needs.is_unlimited(name) | (available >= amount))
        if may_be_undivided(name):
            fits |= ~is_present.any(axis=0)
        return fits

    def fit_one_by_one(self) -> Bools:
        """Return the nodes on which all containers can be aligned one after the other."""
        answer = np.ones(self._zones.count, dtype=bool)
        for request in self._needs.init:  # init containers run before the others, one at a time
            answer &= self.fitting(request).any(axis=0)
        for request in self._needs.containers:
            fits = self.fitting(request)
            answer &= fits.any(axis=0)
            lowest = fits.argmax(axis=0)
            for name, amount in request.items():
                self._take(name, amount, lowest)
        return answer

    def _take(self, name: str, amount: int, zones: NDArray[np.intp]) -> None:
        available = self._zones.available(name)
        taken = available[zones, self._nodes]
        left = np.maximum(taken - amount, 0)
        available[zones, self._nodes] = np.where(taken < 0, taken, left)


class _RestrictedPart(_ZonePart):
    """The zones of nodes with the policy restricted."""

    def _fitting_one(self, name: str, amount: int) -> Bools:
        zones = self._zones
        if self._needs.is_unlimited(name):
            return np.ones((ZONES, zones.count), dtype=bool)
        available = zones.available(name)
        is_divided = (available >= 0).any(axis=0)
        available = np.maximum(available, 0)
        width = _widths(np.maximum(zones.allocatable(name), 0), amount)
        # The largest sum of that many zones that include this one.
        most = -np.sort(-available, axis=0)
        sums = np.vstack([np.zeros((1, zones.count), dtype=np.int64), most.cumsum(axis=0)])
        last = np.maximum(width - 1, 0)
        together = np.minimum(available, most[last, self._nodes]) + sums[last, self._nodes]
        fits: Bools = zones.exists & (width > 0) & (together >= amount)
        return np.where(is_divided, fits, may_be_undivided(name))

    def _take(self, name: str, amount: int, zones: NDArray[np.intp]) -> None:
        available = self._zones.available(name)
        order = np.argsort(-available, axis=0, kind="stable")
        left = np.full(len(self._nodes), amount, dtype=np.int64)
        for rank in range(-1, ZONES):
            zone = zones if rank < 0 else order[rank]
            taken = np.minimum(np.maximum(available[zone, self._nodes], 0), left)
            available[zone, self._nodes] -= taken
            left -= taken


def _widths(allocatable: Ints, amount: int) -> NDArray[np.intp]:
    """Return how many zones of the empty nodes provide an amount; 0: all together do not."""
    enough = (-np.sort(-allocatable, axis=0)).cumsum(axis=0) >= amount
    return np.where(enough.any(axis=0), enough.argmax(axis=0) + 1, 0)
