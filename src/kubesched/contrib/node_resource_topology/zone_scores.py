"""Scores of the zones of a node: LeastAllocated, MostAllocated, BalancedAllocation.

`zone_score` evaluates one node, `zone_scores` evaluates many by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds
from kubesched.contrib.node_resource_topology.zones import (
    POD_SCOPE,
    SINGLE_NUMA_NODE,
    ZONES,
    Amounts,
    NodeTopology,
    ZoneColumns,
)

__all__ = ["zone_score", "zone_scores"]

Ints = NDArray[np.int64]


def zone_score(
    strategy: str,
    needs: PodNeeds,
    topology: NodeTopology,
    reserved: Amounts,
    weights: Mapping[str, int],
) -> int:
    """Return the score of the worst suitable zone for the pod, or the mean over its containers."""
    if topology.policy != SINGLE_NUMA_NODE:
        return 0
    zones = list(topology.left(reserved).values())

    def worst(request: Amounts) -> int:
        """Return the lowest score except 0; the kubelet ignores zones with the score 0."""
        if not request:
            return 0
        if strategy == "BalancedAllocation":
            scores = [_balanced_one(request, zone) for zone in zones]
        else:
            scores = [_allocated_one(strategy, request, zone, weights) for zone in zones]
        return min((score for score in scores if score > 0), default=0)

    if topology.scope == POD_SCOPE:
        return worst(needs.whole)
    requests = (*needs.init, *needs.containers)
    return sum(map(worst, requests)) // max(len(requests), 1)


def _allocated_one(
    strategy: str, request: Amounts, zone: Amounts, weights: Mapping[str, int]
) -> int:
    total = 0
    for name, amount in request.items():
        capacity = zone.get(name, 0)
        if 0 < capacity >= amount:
            used = amount if strategy == "MostAllocated" else capacity - amount
            total += _weight(weights, name) * (used * 100 // capacity)
    return total // sum(_weight(weights, name) for name in request)


def _balanced_one(request: Amounts, zone: Amounts) -> int:
    """Score a zone by how close the requested fractions of its resources are to each other."""
    fractions = [
        amount / (capacity if (capacity := zone.get(name, 0)) > 0 else amount / 2)
        for name, amount in request.items()
    ]
    if any(each > 1 for each in fractions):
        return 0
    return int((1 - min(_variance(fractions), 1)) * 100)


def _variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = _sum(values) / len(values)
    return _sum([(each - mean) ** 2 for each in values]) / (len(values) - 1)


def _sum(values: Sequence[float]) -> float:
    # Add in the same order as NumPy; `sum` of newer Python versions compensates rounding.
    total = 0.0
    for each in values:
        total += each
    return total


def _weight(weights: Mapping[str, int], name: str) -> int:
    return max(weights.get(name, 1), 1)


def zone_scores(
    strategy: str, needs: PodNeeds, columns: ZoneColumns, weights: Mapping[str, int]
) -> Ints:
    """Score many nodes; see `zone_score`."""
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
            total += _weight(weights, name) * score
        scores = total // sum(_weight(weights, name) for name in request)
    scores = np.where(columns.exists, scores, 0)
    worst = np.where(scores > 0, scores, np.iinfo(np.int64).max).min(axis=0)
    return np.where(scores.any(axis=0), worst, 0)


def _balanced(request: Amounts, columns: ZoneColumns) -> Ints:
    fractions = [
        amount / np.where(columns.available(name) > 0, columns.available(name), amount / 2)
        for name, amount in request.items()
    ]
    count = len(fractions)
    variance = np.zeros((ZONES, columns.count))
    if count > 1:
        mean = np.add.reduce(fractions) / count
        variance = np.add.reduce([(each - mean) ** 2 for each in fractions]) / (count - 1)
    scores = ((1 - np.minimum(variance, 1)) * 100).astype(np.int64)
    is_too_much = np.logical_or.reduce([each > 1 for each in fractions])
    return np.where(is_too_much, 0, scores)
