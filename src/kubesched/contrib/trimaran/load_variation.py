"""LoadVariationRiskBalancing: balance the mean and the variation of the measured load."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, MEMORY, Pod
from kubesched.contrib.trimaran.load_sources import MetricProvider
from kubesched.contrib.trimaran.node_loads import node_loads
from kubesched.framework import (
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Panel,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    Reads,
)

__all__ = ["LoadVariationRiskBalancing", "LoadVariationRiskBalancingArgs"]

Floats = NDArray[np.float64]


class LoadVariationRiskBalancingArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of LoadVariationRiskBalancing. Negative numbers count as 1."""

    metric_provider: MetricProvider = MetricProvider()
    watcher_address: str = ""
    safe_variance_margin: float = 1.0  # the weight of the deviation
    safe_variance_sensitivity: float = 1.0  # the degree of the root of the deviation


class LoadVariationRiskBalancing(Plugin):
    """Score nodes by the risk that their load with the pod exceeds their capacity.

    The risk is the mean of the average load and its deviation, as fractions of the capacity.
    """

    name = "LoadVariationRiskBalancing"
    args_type = LoadVariationRiskBalancingArgs
    reads = Reads(
        pod=PodPart.CONTAINERS, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=()
    )

    def __init__(
        self, args: LoadVariationRiskBalancingArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or LoadVariationRiskBalancingArgs(), handle)
        given: LoadVariationRiskBalancingArgs = self.args
        margin, sensitivity = given.safe_variance_margin, given.safe_variance_sensitivity
        self._margin = 1.0 if margin < 0 else margin
        sensitivity = 1.0 if sensitivity < 0 else sensitivity
        self._exponent = 1 / sensitivity if sensitivity else 0.0  # 0: a root of infinite degree
        self._loads = None
        if handle is not None:
            self._loads = node_loads(handle, given.metric_provider, given.watcher_address)

    def panels(self) -> Sequence[Panel]:
        return () if self._loads is None else (self._loads.panel(),)

    async def work_as_leader(self) -> None:
        """Refresh the load of the nodes."""
        if self._loads is not None:
            await self._loads.run_once()

    def cache_version(self, nodes: NodeView) -> Hashable:
        return None if self._loads is None else self._loads.version

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        found = None if self._loads is None else self._loads.load_of(node)
        if found is None:
            return 0
        load, requested, own = found[0], PodInfo(pod).requested, node.allocatable
        scores = []
        if load.cpu_mean is not None:
            scores.append(
                self._score(load.cpu_mean, load.cpu_deviation, own.milli_cpu, requested.milli_cpu)
            )
        if load.memory_mean is not None:
            scores.append(
                self._score(load.memory_mean, load.memory_deviation, own.memory, requested.memory)
            )
        return math.floor(min(scores, default=0.0) + 0.5)

    def _score(self, mean: float, deviation: float, capacity: float, more: int) -> float:
        """Return the score for one resource."""
        if capacity <= 0:
            return 0.0
        mu = min(max(mean / 100 + more / capacity, 0.0), 1.0)
        sigma = min(max(deviation / 100, 0.0), 1.0)
        # The root of infinite degree is 0 or 1: only a full deviation counts.
        sigma = sigma**self._exponent if self._exponent else math.floor(sigma)
        return (1 - (mu + min(sigma * self._margin, 1.0)) / 2) * 100

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        columns = None if self._loads is None else self._loads.columns(nodes)
        if columns is None:
            return np.zeros(len(nodes), dtype=np.int64)
        requested = PodInfo(pod).requested
        cpu = self._scores(
            nodes.at(columns.cpu_mean),
            nodes.at(columns.cpu_deviation),
            nodes.allocatable(CPU).astype(np.float64),
            requested.milli_cpu,
        )
        memory = self._scores(
            nodes.at(columns.memory_mean),
            nodes.at(columns.memory_deviation),
            nodes.allocatable(MEMORY).astype(np.float64),
            requested.memory,
        )
        return _lower(cpu, memory)

    def _scores(self, mean: Floats, deviation: Floats, capacity: Floats, more: int) -> Floats:
        """Return the scores of many nodes for one resource; NaN where the load was not measured."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mu = np.clip(mean / 100 + more / capacity, 0, 1)
        sigma = np.clip(deviation / 100, 0, 1)
        sigma = sigma**self._exponent if self._exponent else np.floor(sigma)
        risk = (mu + np.clip(sigma * self._margin, 0, 1)) / 2
        return np.where(np.isnan(mean), np.nan, np.where(capacity > 0, (1 - risk) * 100, 0.0))


def _lower(cpu: Floats, memory: Floats) -> NDArray[np.int64]:
    """Return the lower of two scores, or the one that was measured, or 0."""
    lower = np.nan_to_num(np.fmin(cpu, memory))
    return np.floor(lower + 0.5).astype(np.int64)
