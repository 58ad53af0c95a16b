"""The three scoring strategies of NodeResourcesFit (docs/reference/05 §6.2).

A scorer reads, for each configured resource, the node's allocatable amount and the amount
requested including the incoming pod. A resource of which the node has 0 does not count. Each
scorer has a form for one node and a form for columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.api.int64 import add_int64, wrap_int64
from kubesched.foundation.util.ints import div_trunc, round_half_away
from kubesched.framework import MAX_NODE_SCORE
from kubesched.framework.engine import kernels
from kubesched.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    ScoringStrategy,
)
from kubesched.scheduler.plugins.helpers.broken_linear import broken_linear
from kubesched.scheduler.plugins.helpers.resource_usage import ResourceColumns, ResourceUsage

__all__ = ["MostAllocated", "ResourceScorer", "make_resource_scorer"]

_MAX_SHAPE_SCORE = 10
_MAX_UTILIZATION = 100

IntColumn = NDArray[np.int64]


class ResourceScorer(Protocol):
    """Scores nodes from 0 to 100 by resource usage."""

    def score(self, usages: Sequence[ResourceUsage]) -> int:
        """Score one node; the usages are in the configured order."""
        ...

    def score_nodes(self, columns: ResourceColumns) -> IntColumn:
        """Score many nodes; there is at least one resource."""
        ...


def make_resource_scorer(config: ScoringStrategy) -> ResourceScorer:
    """Create the scorer for validated arguments."""
    return _STRATEGIES[config.type](config)


class LeastAllocated:
    """The more of each resource stays free, the higher the score."""

    def __init__(self, config: ScoringStrategy) -> None:
        pass

    def score(self, usages: Sequence[ResourceUsage]) -> int:
        return _weighted_mean(usages, self._share_left)

    def score_nodes(self, columns: ResourceColumns) -> IntColumn:
        return kernels.least_allocated(*columns)

    @staticmethod
    def _share_left(usage: ResourceUsage) -> int:
        left = add_int64(usage.allocatable, -usage.requested)
        return _percent(left, usage.allocatable) if left > 0 else 0


class MostAllocated:
    """The more of each resource is in use, the higher the score."""

    def __init__(self, config: ScoringStrategy) -> None:
        pass

    def score(self, usages: Sequence[ResourceUsage]) -> int:
        return _weighted_mean(usages, self._share_taken)

    def score_nodes(self, columns: ResourceColumns) -> IntColumn:
        divisor, counted = kernels.counted(columns.allocatable)
        shares = kernels.used_percent(columns.allocatable, columns.requested, divisor)
        return kernels.mean_toward_zero(*kernels.weighted_sums(shares, columns.weights, counted))

    @staticmethod
    def _share_taken(usage: ResourceUsage) -> int:
        return _percent(min(usage.requested, usage.allocatable), usage.allocatable)


class RequestedToCapacityRatio:
    """Score by a configured function of utilization.

    A resource that scores 0 does not count.
    """

    def __init__(self, config: ScoringStrategy) -> None:
        ratio = config.requested_to_capacity_ratio
        assert ratio is not None, "validated: this type has a shape"
        function = broken_linear(ratio.shape, MAX_NODE_SCORE // _MAX_SHAPE_SCORE)
        # Utilization is a whole percentage, so a table of 101 scores replaces the function.
        self._score_of = [function(percent) for percent in range(_MAX_UTILIZATION + 1)]
        self._table = np.array(self._score_of, dtype=np.int64)

    def score(self, usages: Sequence[ResourceUsage]) -> int:
        total = weight_sum = 0
        for usage in usages:
            if usage.allocatable and (score := self._score_of[_utilization(usage)]) > 0:
                total += score * usage.weight
                weight_sum += usage.weight
        return round_half_away(total / weight_sum) if weight_sum else 0

    def score_nodes(self, columns: ResourceColumns) -> IntColumn:
        allocatable, requested = columns.allocatable, columns.requested
        divisor, counted = kernels.counted(allocatable)
        percent = kernels.used_percent(allocatable, requested, divisor)
        percent[requested > allocatable] = _MAX_UTILIZATION
        scores = self._table.take(percent, mode="clip")
        for place, counts in enumerate(counted):
            if counts is not None:
                scores[place] *= counts
        positive = list(scores > 0)
        return kernels.mean_rounded(*kernels.weighted_sums(scores, columns.weights, positive))


_STRATEGIES: Mapping[str, Callable[[ScoringStrategy], ResourceScorer]] = {
    LEAST_ALLOCATED: LeastAllocated,
    MOST_ALLOCATED: MostAllocated,
    REQUESTED_TO_CAPACITY_RATIO: RequestedToCapacityRatio,
}


def _percent(part: int, whole: int) -> int:
    # Wrapped sums would give shares outside 0..100, and scores that no node may have.
    return min(max(div_trunc(wrap_int64(part * 100), whole), 0), 100)


def _utilization(usage: ResourceUsage) -> int:
    if usage.requested > usage.allocatable:
        return _MAX_UTILIZATION
    return _percent(usage.requested, usage.allocatable)


def _weighted_mean(
    usages: Sequence[ResourceUsage], resource_score: Callable[[ResourceUsage], int]
) -> int:
    total = weight_sum = 0
    for usage in usages:
        if usage.allocatable:
            total += resource_score(usage) * usage.weight
            weight_sum += usage.weight
    return div_trunc(total, weight_sum) if weight_sum else 0
