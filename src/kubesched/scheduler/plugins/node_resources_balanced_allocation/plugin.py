"""NodeResourcesBalancedAllocation: prefer nodes with balanced resource usage.

The score compares the shares in use of the tracked resources before and after the pod is added. It
is above 75 (up to 100) if the pod makes the shares more equal, below 75 (down to 50) if it makes
them less equal (docs/reference/05 §6.3, §7.9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import DeviceClass, Pod
from kubesched.api.pod_requests import PodRequestOptions, pod_requested
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    Reads,
    StateNotFoundError,
    Status,
)
from kubesched.framework.engine import kernels
from kubesched.scheduler.config.args import NodeResourcesBalancedAllocationArgs
from kubesched.scheduler.config.plugin_names import NODE_RESOURCES_BALANCED_ALLOCATION
from kubesched.scheduler.plugins.helpers.device_classes import DeviceClassResolver
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.resource_usage import ResourceUsage, TrackedResources

__all__ = ["NodeResourcesBalancedAllocation"]

STATE_KEY = "PreScoreNodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation(Plugin):
    """Score plugin: prefer nodes on which the shares in use become more equal."""

    name = NODE_RESOURCES_BALANCED_ALLOCATION
    args_type = NodeResourcesBalancedAllocationArgs
    reads = Reads(
        pod=PodPart.CONTAINERS,
        pods_on_node=PodsOnNode.TOTALS,
        other_nodes=False,
        objects=(DeviceClass,),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        config: NodeResourcesBalancedAllocationArgs
        config = args if args is not None else NodeResourcesBalancedAllocationArgs()
        self._tracked = TrackedResources(config.resources, handle, with_defaults=False)
        self._score_of = self._tracked.scoring_by(_score_of_usages)
        self.reads = replace(self.reads, objects=self._tracked.objects_read)
        pod_level = feature_enabled(handle, "PodLevelResources")
        self._signed = PodRequestOptions(pod_level=pod_level)
        self._scored = PodRequestOptions(
            use_status=True,
            pod_level=pod_level,
            pod_level_status=feature_enabled(handle, "InPlacePodLevelResourcesVerticalScaling"),
        )
        self._classes = DeviceClassResolver(handle)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        plain = pod_info.plain_requested
        requested = (
            self._requests_of(pod_info.pod) if plain is None else self._tracked.amounts(plain)
        )
        if not any(requested):
            return SKIP
        state.write(STATE_KEY, requested)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        requested = self._requested(state, pod)
        return self._score_of(requested, node) if any(requested) else 0

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        requested = self._requested(state, pod)
        if not any(requested):
            return np.zeros(len(nodes), dtype=np.int64)
        columns = self._tracked.columns(requested, nodes)
        if columns is None:
            return np.full(len(nodes), 75, dtype=np.int64)
        scores = kernels.balance_change(columns.allocatable, columns.allocated, columns.wanted)
        # 50 + (50 + change) // 2. The change is at most 50 either way, so nothing is negative.
        scores += 150
        scores >>= 1
        return scores

    def _requested(self, state: CycleState, pod: Pod) -> tuple[int, ...]:
        try:
            requested: tuple[int, ...] = state.read(STATE_KEY)
        except StateNotFoundError:
            return self._requests_of(pod)
        return requested

    def _requests_of(self, pod: Pod) -> tuple[int, ...]:
        return self._tracked.amounts(pod_requested(pod, self._scored))


def _score_of_usages(usages: Sequence[ResourceUsage]) -> int:
    before: list[float] = []
    after: list[float] = []
    for allocatable, allocated, requested, _ in usages:
        if allocatable:
            before.append(_fraction(allocated, allocatable))
            after.append(_fraction(requested, allocatable))
    return 50 + (50 + _balance(after) - _balance(before)) // 2


def _fraction(part: int, whole: int) -> float:
    share = part / whole
    return 0.0 if share < 0.0 else 1.0 if share > 1.0 else share


def _balance(fractions: Sequence[float]) -> int:
    """Return `kernels.balance` for one node."""
    count = len(fractions)
    if count < 2:
        deviation = 0.0
    elif count == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    else:
        mean = _sum_in_order(fractions) / count
        squares = _sum_in_order([(each - mean) * (each - mean) for each in fractions])
        deviation = math.sqrt(squares / count)
    return int((1 - deviation) * 100.0)


def _sum_in_order(numbers: Sequence[float]) -> float:
    # The built-in sum may compensate for rounding, which changes the truncated result.
    total = 0.0
    for number in numbers:
        total += number
    return total
