"""Whether the containers of a pod fit into one NUMA zone each, and how well.

The functions follow the kubelet's topology manager with the policy single-numa-node: a zone must
have everything that a container (or the pod) requests, and the lowest such zone is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Container,
    Pod,
    is_hugepage_resource_name,
    is_native_resource_name,
)
from kubesched.contrib.node_resource_topology.zones import (
    ZONES,
    Amounts,
    ZoneColumns,
    amount_of,
)

__all__ = ["PodNeeds", "aligns", "combined_scores", "zone_scores"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ZONE_SCORE: Final = 100 // ZONES


class PodNeeds(NamedTuple):
    """What a pod and its containers request of zones."""

    is_guaranteed: bool
    init: tuple[dict[str, int], ...]
    containers: tuple[dict[str, int], ...]
    whole: dict[str, int]

    @classmethod
    def of(cls, pod: Pod) -> PodNeeds:
        init = tuple(_requests(each) for each in pod.spec.init_containers)
        containers = tuple(_requests(each) for each in pod.spec.containers)
        whole: dict[str, int] = {}
        for each in containers:
            for name, amount in each.items():
                whole[name] = whole.get(name, 0) + amount
        for each in init:
            for name, amount in each.items():
                whole[name] = max(whole.get(name, 0), amount)
        for name, raw in (pod.spec.overhead or {}).items():
            whole[name] = whole.get(name, 0) + amount_of(name, raw)
        return cls(_is_guaranteed(pod), init, containers, whole)

    @property
    def key(self) -> Hashable:
        """A value that is equal for pods with the same needs."""
        parts = (self.whole, *self.init, {}, *self.containers)
        return self.is_guaranteed, tuple(tuple(sorted(each.items())) for each in parts)

    @property
    def concerns_zones(self) -> bool:
        """Pods that request nothing, or only native resources as best effort, go anywhere."""
        return any(self.whole.values())


def _requests(container: Container) -> dict[str, int]:
    resources = container.resources
    amounts = {**resources.limits, **resources.requests}
    found = {name: amount_of(name, raw) for name, raw in amounts.items()}
    return {name: amount for name, amount in found.items() if amount}


def _is_guaranteed(pod: Pod) -> bool:
    """Whether every container has limits of cpu and memory that equal its requests."""
    if pod.status.qos_class:
        return pod.status.qos_class == "Guaranteed"
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        limits, requests = container.resources.limits, container.resources.requests
        for name in (CPU, MEMORY):
            if name not in limits:
                return False
            if name in requests and amount_of(name, requests[name]) != amount_of(
                name, limits[name]
            ):
                return False
    return bool(pod.spec.containers)


def aligns(needs: PodNeeds, columns: ZoneColumns, offers: Mapping[str, Bools]) -> Bools:
    """Return for which nodes the pod can be aligned; nodes of other policies always can.

    `offers` has for each resource which nodes have it at all.
    """
    answer = np.ones(columns.count, dtype=bool)
    in_pods = np.flatnonzero(columns.is_single & columns.is_pod_scope)
    if len(in_pods):
        part = _Part(needs, columns, offers, in_pods)
        answer[in_pods] = part.fitting(needs.whole).any(axis=0)
    in_containers = np.flatnonzero(columns.is_single & ~columns.is_pod_scope)
    if len(in_containers):
        part = _Part(needs, columns, offers, in_containers)
        answer[in_containers] = part.fit_one_by_one()
    return answer


class _Part:
    """Copies of the zones of some nodes, from which containers take their resources."""

    def __init__(
        self,
        needs: PodNeeds,
        columns: ZoneColumns,
        offers: Mapping[str, Bools],
        rows: NDArray[np.intp],
    ) -> None:
        self._needs = needs
        self._zones = columns.at(rows)
        self._offers = {name: each[rows] for name, each in offers.items()}
        self._nodes = np.arange(len(rows))

    def fitting(self, request: Amounts) -> Bools:
        """Return bool[zone, node]: which zones have what is requested."""
        zones = self._zones
        fits = np.ones((ZONES, zones.count), dtype=bool)
        for name, amount in request.items():
            available = zones.available(name)
            is_present = available >= 0
            is_enough = is_present & (self._is_unlimited(name) | (available >= amount))
            # Resources that the zones do not divide are the node's.
            if not is_native_resource_name(name) or name == EPHEMERAL_STORAGE:
                is_enough |= ~is_present.any(axis=0)
            fits &= is_enough & self._offers[name]
        return fits

    def _is_unlimited(self, name: str) -> bool:
        """Pods that are not guaranteed get cpu and memory of all zones."""
        is_shared = name in (CPU, MEMORY) or is_hugepage_resource_name(name)
        return is_shared and not self._needs.is_guaranteed

    def fit_one_by_one(self) -> Bools:
        """Return the nodes on which each container gets a zone, after those before it."""
        answer = np.ones(self._zones.count, dtype=bool)
        for request in self._needs.init:  # they run before the others, one at a time
            answer &= self.fitting(request).any(axis=0)
        for request in self._needs.containers:
            fits = self.fitting(request)
            answer &= fits.any(axis=0)
            lowest = fits.argmax(axis=0)
            for name, amount in request.items():
                available = self._zones.available(name)
                taken = available[lowest, self._nodes]
                left = np.maximum(taken - amount, 0)
                available[lowest, self._nodes] = np.where(taken < 0, taken, left)
        return answer


def zone_scores(
    strategy: str, needs: PodNeeds, columns: ZoneColumns, weights: Mapping[str, int]
) -> Ints:
    """Return the score of the worst zone that can take the pod, or the mean over containers."""
    whole = _worst_zone(strategy, needs.whole, columns, weights)
    parts = [
        _worst_zone(strategy, each, columns, weights) for each in (*needs.init, *needs.containers)
    ]
    single = sum(parts, start=np.zeros(columns.count, dtype=np.int64)) // max(len(parts), 1)
    scores = np.where(columns.is_pod_scope, whole, single)
    return np.where(columns.is_single, scores, 0)


def _worst_zone(
    strategy: str, request: Amounts, columns: ZoneColumns, weights: Mapping[str, int]
) -> Ints:
    """Return the lowest score of a zone that is not 0, which is no candidate for the kubelet."""
    if not request:
        return np.zeros(columns.count, dtype=np.int64)
    if strategy == "BalancedAllocation":
        scores = _balanced(request, columns)
    else:
        total = np.zeros((ZONES, columns.count), dtype=np.int64)
        for name, amount in request.items():
            capacity = np.maximum(columns.available(name), 0)
            used = amount if strategy == "MostAllocated" else capacity - amount
            fits = (capacity > 0) & (capacity >= amount)
            score = np.where(fits, used * 100 // np.maximum(capacity, 1), 0)
            total += max(weights.get(name, 1), 1) * score
        scores = total // sum(max(weights.get(name, 1), 1) for name in request)
    scores = np.where(columns.exists, scores, 0)
    worst = np.where(scores > 0, scores, np.iinfo(np.int64).max).min(axis=0)
    return np.where(scores.any(axis=0), worst, 0)


def _balanced(request: Amounts, columns: ZoneColumns) -> Ints:
    """Score zones by how equal the requested fractions of their resources are."""
    fractions = np.stack(
        [
            amount / np.where(columns.available(name) > 0, columns.available(name), amount / 2)
            for name, amount in request.items()
        ]
    )
    count = len(fractions)
    variance = fractions.var(axis=0, ddof=1) if count > 1 else np.zeros(fractions.shape[1:])
    scores = ((1 - np.minimum(variance, 1)) * 100).astype(np.int64)
    return np.where((fractions > 1).any(axis=0), 0, scores)


def combined_scores(needs: PodNeeds, columns: ZoneColumns) -> Ints:
    """Score nodes by how few zones the pod needs, and how near to each other these are."""
    zones = columns.at(np.arange(columns.count))
    in_pods = _zones_needed((needs.whole,), zones)
    zones = columns.at(np.arange(columns.count))
    in_containers = _zones_needed((*needs.init, *needs.containers), zones)
    return np.where(columns.is_known, np.where(columns.is_pod_scope, in_pods, in_containers), 0)


def _zones_needed(requests: Sequence[Amounts], zones: ZoneColumns) -> Ints:
    most = np.zeros(zones.count, dtype=np.int64)
    is_nearest = np.ones(zones.count, dtype=bool)
    fits = np.ones(zones.count, dtype=bool)
    for request in requests:
        divided = {
            name: amount for name, amount in request.items() if (zones.available(name) >= 0).any()
        }
        if not divided:
            continue
        count, nearest, chosen = _fewest(divided, zones)
        fits &= count > 0
        most = np.maximum(most, count)
        is_nearest &= nearest
        _take(divided, zones, chosen)
    scores = 100 - most * _ZONE_SCORE + np.where(is_nearest, _ZONE_SCORE // 2, 0)
    return np.where(fits, np.where(most == 0, 100, scores), 0)


def _fewest(request: Amounts, zones: ZoneColumns) -> tuple[Ints, Bools, Bools]:
    """Return the number of zones, whether none are nearer, and bool[zone, node]: which ones."""
    count = np.zeros(zones.count, dtype=np.int64)
    is_nearest = np.zeros(zones.count, dtype=bool)
    chosen = np.zeros((ZONES, zones.count), dtype=bool)
    present = [zone for zone in range(ZONES) if zones.exists[zone].any()]
    for size in range(1, len(present) + 1):
        nearest = np.full(zones.count, np.inf)
        best = np.full(zones.count, np.inf)
        is_open = count == 0
        for group in itertools.combinations(present, size):
            distance = _distance(group, zones)
            exist = zones.exists[list(group)].all(axis=0)
            nearest = np.where(exist, np.minimum(nearest, distance), nearest)
            better = is_open & exist & (distance < best) & _has(group, request, zones)
            best = np.where(better, distance, best)
            count[better] = size
            chosen[:, better] = False
            for zone in group:
                chosen[zone] |= better
        is_nearest |= is_open & (count == size) & (best <= nearest)
        if (count > 0).all():
            break
    return count, is_nearest, chosen


def _distance(group: Iterable[int], zones: ZoneColumns) -> Floats:
    members = list(group)
    distances: Floats = zones.costs[np.ix_(members, members)].mean(axis=(0, 1))
    return distances


def _has(group: Iterable[int], request: Amounts, zones: ZoneColumns) -> Bools:
    answer = np.ones(zones.count, dtype=bool)
    for name, amount in request.items():
        available = np.maximum(zones.available(name)[list(group)], 0).sum(axis=0)
        answer &= available >= amount
    return answer


def _take(request: Amounts, zones: ZoneColumns, chosen: Bools) -> None:
    """Subtract what a container requests from its zones, the lowest first."""
    for name, amount in request.items():
        available = zones.available(name)
        left = np.full(zones.count, amount, dtype=np.int64)
        for zone in range(ZONES):
            taken = np.where(chosen[zone], np.minimum(np.maximum(available[zone], 0), left), 0)
            available[zone] -= taken
            left -= taken
