"""Numbers of the scheduler that the file cannot set, and what follows from those it can (§15)."""

from __future__ import annotations

import math
from typing import Final

from kubesched.config.base import MINUTE, SECOND

__all__ = [
    "MIN_FEASIBLE_NODES_TO_FIND",
    "PERMIT_WAIT_CAP_NS",
    "PLUGIN_METRICS_SAMPLE_PERCENT",
    "POD_MAX_IN_UNSCHEDULABLE_PODS_NS",
    "UNSCHEDULABLE_PODS_FLUSH_PERIOD_NS",
    "nodes_to_find",
    "parallel_chunk_size",
]

POD_MAX_IN_UNSCHEDULABLE_PODS_NS: Final = 5 * MINUTE
UNSCHEDULABLE_PODS_FLUSH_PERIOD_NS: Final = 30 * SECOND
PERMIT_WAIT_CAP_NS: Final = 15 * MINUTE
PLUGIN_METRICS_SAMPLE_PERCENT: Final = 10

MIN_FEASIBLE_NODES_TO_FIND: Final = 100
_MIN_PERCENTAGE: Final = 5


def nodes_to_find(nodes: int, *, percentage: int | None, global_percentage: int) -> int:
    """How many feasible nodes end the search; a percentage of 0 adapts to the cluster's size."""
    if nodes < MIN_FEASIBLE_NODES_TO_FIND:
        return nodes
    chosen = global_percentage if percentage is None else percentage
    if chosen == 0:
        chosen = max(50 - nodes // 125, _MIN_PERCENTAGE)
    return max(nodes * chosen // 100, MIN_FEASIBLE_NODES_TO_FIND)


def parallel_chunk_size(items: int, workers: int) -> int:
    """How many items one worker takes at a time."""
    root, share = math.isqrt(items), items // workers + 1
    return share if root > share else max(root, 1)
