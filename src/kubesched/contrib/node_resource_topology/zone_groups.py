"""LeastNUMANodes: scores by how few zones a pod needs, and by their distance.

`combined_score` evaluates one node, `combined_scores` evaluates many by the same rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds
from kubesched.contrib.node_resource_topology.zones import (
    POD_SCOPE,
    ZONES,
    Amounts,
    NodeTopology,
    ZoneColumns,
)

__all__ = ["combined_score", "combined_scores"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_ZONE_SCORE: Final = 100 // ZONES


def combined_score(needs: PodNeeds, topology: NodeTopology, reserved: Amounts) -> int:
    """Score a node by how few zones the pod needs, and by their distance."""
    zones = topology.left(reserved)
    is_pod = topology.scope == POD_SCOPE
    most, is_nearest = 0, True
    for request in (needs.whole,) if is_pod else (*needs.init, *needs.containers):
        divided = {
            name: amount
            for name, amount in request.items()
            if any(name in each for each in zones.values())
        }
        if not divided:
            continue
        group, nearest = _fewest_of_one(divided, topology, zones)
        if not group:
            return 0
        most, is_nearest = max(most, len(group)), is_nearest and nearest
        _take_of_one(divided, zones, group)
    if not most:
        return 100
    return 100 - most * _ZONE_SCORE + (_ZONE_SCORE // 2 if is_nearest else 0)


def _fewest_of_one(
    request: Amounts, topology: NodeTopology, zones: Mapping[int, Amounts]
) -> tuple[tuple[int, ...], bool]:
    """Return the smallest group of zones for a request, and whether it has the least distance."""
    for size in range(1, len(zones) + 1):
        groups = list(itertools.combinations(sorted(zones), size))
        distances = {group: _distance_of_one(group, topology) for group in groups}
        fitting = [
            group
            for group in groups
            if all(
                sum(zones[zone].get(name, 0) for zone in group) >= amount
                for name, amount in request.items()
            )
        ]
        if fitting:
            best = min(fitting, key=distances.__getitem__)
            return best, distances[best] <= min(distances.values())
    return (), False


def _distance_of_one(group: Sequence[int], topology: NodeTopology) -> float:
    total = sum(topology.distance(zone, other) for zone in group for other in group)
    return total / len(group) ** 2


def _take_of_one(request: Amounts, zones: dict[int, dict[str, int]], group: Iterable[int]) -> None:
    for name, amount in request.items():
        for zone in group:
            taken = min(zones[zone].get(name, 0), amount)
            if taken:
                zones[zone][name] -= taken
                amount -= taken


def combined_scores(needs: PodNeeds, columns: ZoneColumns) -> Ints:
    """Score many nodes; see `combined_score`."""
    zones = columns.at(np.arange(columns.count), needs.whole)
    in_pods = _zones_needed((needs.whole,), zones)
    zones = columns.at(np.arange(columns.count), needs.whole)
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
    """Return the number of zones, whether they have the least distance, and a mask of the zones."""
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
