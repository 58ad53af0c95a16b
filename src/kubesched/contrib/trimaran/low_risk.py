"""LowRiskOverCommitment: avoid nodes whose pods may use more than the capacity.

Pods may use up to their limits, so nodes can be over-committed. The risk of a node combines two
values: how far the limits exceed the capacity, and the probability, according to the measured load,
that the pods use more than they request.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, MEMORY, Pod, parse_milli_value, parse_value
from kubesched.contrib.trimaran.beta_distribution import (
    probability_below,
    probability_below_of_one,
)
from kubesched.contrib.trimaran.load_sources import MetricProvider
from kubesched.contrib.trimaran.node_loads import LoadColumns, NodeLoads, node_loads
from kubesched.framework import (
    SKIP,
    SUCCESS,
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
    Status,
)

__all__ = ["LowRiskOverCommitment", "LowRiskOverCommitmentArgs"]

_MOST_VARIANCE: Final = 0.99  # as a fraction of the largest variance that is possible with the mean
_RESOURCES: Final = (CPU, MEMORY)
_MOST_PODS: Final = 200_000

Floats = NDArray[np.float64]


class LowRiskOverCommitmentArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of LowRiskOverCommitment."""

    metric_provider: MetricProvider = MetricProvider()
    watcher_address: str = ""
    # The number of windows over which the metrics were smoothed. Smoothing reduces the deviation.
    smoothing_window_size: int = 5
    # The weight of the limits relative to the measured load, from 0 to 1, by resource.
    risk_limit_weights: dict[str, float] = {}


class LowRiskOverCommitment(Plugin):
    """Score nodes by the risk that their pods use more than the capacity of the node."""

    name = "LowRiskOverCommitment"
    args_type = LowRiskOverCommitmentArgs
    reads = Reads(
        pod=PodPart.CONTAINERS, pods_on_node=PodsOnNode.SPECS, other_nodes=False, objects=()
    )

    def __init__(
        self, args: LowRiskOverCommitmentArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or LowRiskOverCommitmentArgs(), handle)
        given: LowRiskOverCommitmentArgs = self.args
        windows = given.smoothing_window_size
        self._smoothing = float(windows if windows > 0 else 5) ** 0.5
        weights = (given.risk_limit_weights.get(name, 0.5) for name in _RESOURCES)
        self._weights = tuple(each if 0 <= each <= 1 else 0.5 for each in weights)
        self._limits: dict[str, tuple[int, int]] = {}  # limits of pods on nodes, by uid
        self._loads: NodeLoads | None = None
        self._risks: _RiskColumns | None = None
        if handle is not None:
            self._loads = node_loads(handle, given.metric_provider, given.watcher_address)
            handle.lister(Pod).follow(self._forget)

    def panels(self) -> Sequence[Panel]:
        return () if self._loads is None else (self._loads.panel(),)

    async def work_as_leader(self) -> None:
        """Refresh the load of the nodes."""
        if self._loads is not None:
            await self._loads.run_once()

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return SUCCESS if any(_limits_of(pod_info)) else SKIP

    def _forget(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.spec is not new.spec):
            self._limits.pop(old.metadata.uid, None)

    def cache_version(self, nodes: NodeView) -> Hashable:
        return None if self._loads is None else self._loads.version

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        found = None if self._loads is None else self._loads.load_of(node)
        if found is None:
            return 0
        load, own, used = found[0], node.allocatable, node.requested
        pod_info, limits = PodInfo(pod), self.limits_on(node.pods)
        if load.cpu_mean is None and load.memory_mean is None:
            return 0
        more, more_limits = pod_info.requested, _limits_of(pod_info)
        cpu, memory = self._weights
        risk = max(
            cpu
            * _excess(own.milli_cpu, used.milli_cpu + more.milli_cpu, limits[0] + more_limits[0])
            + (1 - cpu)
            * self._load_risk_of_one(
                load.cpu_mean, load.cpu_deviation, own.milli_cpu, used.milli_cpu, limits[0]
            ),
            memory * _excess(own.memory, used.memory + more.memory, limits[1] + more_limits[1])
            + (1 - memory)
            * self._load_risk_of_one(
                load.memory_mean, load.memory_deviation, own.memory, used.memory, limits[1]
            ),
        )
        return math.floor((1 - min(max(risk, 0.0), 1.0)) * 100 + 0.5)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        loads = self._loads
        columns = None if loads is None else loads.columns(nodes)
        if columns is None or loads is None:
            return np.zeros(len(nodes), dtype=np.int64)
        risks = self._risks
        if risks is None or not risks.is_for(nodes, loads):
            risks = self._risks = _RiskColumns(nodes, loads)
        changed = risks.changed(nodes)
        if len(changed):
            self._update(risks, nodes.at_rows(changed), columns)
        scores = self._scores(
            PodInfo(pod),
            _allocatable(nodes),
            _requested(nodes),
            risks.limits[:, nodes.rows],
            risks.risk[:, nodes.rows],
        )
        is_measured = ~(
            np.isnan(nodes.at(columns.cpu_mean)) & np.isnan(nodes.at(columns.memory_mean))
        )
        return np.where(is_measured, scores, 0)

    def _update(self, risks: _RiskColumns, view: NodeView, columns: LoadColumns) -> None:
        """Recompute the part of the risk of these nodes that comes from their own pods."""
        limits = np.array([self.limits_on(info.pods) for info in view], dtype=np.float64).T
        means = np.stack([view.at(columns.cpu_mean), view.at(columns.memory_mean)])
        deviations = np.stack([view.at(columns.cpu_deviation), view.at(columns.memory_deviation)])
        risks.limits[:, view.rows] = limits
        risks.risk[:, view.rows] = self._load_risk(
            means, deviations, _allocatable(view), _requested(view), limits
        )

    def limits_on(self, pods: Iterable[PodInfo]) -> tuple[int, int]:
        """Return the limits of pods: cpu in thousandths, and bytes of memory."""
        cpu = memory = 0
        if len(self._limits) > _MOST_PODS:
            self._limits.clear()
        for each in pods:
            found = self._limits.get(each.uid)
            if found is None:
                found = self._limits[each.uid] = _limits_of(each)
            cpu += found[0]
            memory += found[1]
        return cpu, memory

    def _load_risk(
        self, means: Floats, deviations: Floats, capacity: Floats, requested: Floats, limits: Floats
    ) -> Floats:
        """Return the probability that the pods use more than they request, by the measured load.

        All arrays have the shape [resource, node].
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.clip(means / 100, 0, 1)
            most = np.sqrt(mean * (1 - mean) * _MOST_VARIANCE)
            deviation = np.minimum(np.clip(deviations / 100, 0, 1) * self._smoothing, most)
            below = np.clip(np.nan_to_num(requested / capacity), 0, 1)
            limited = np.clip(np.nan_to_num(limits / capacity), 0, 1)
            mean, deviation = np.nan_to_num(mean), np.nan_to_num(deviation)
            both = np.stack([below, limited])
            probability, possible = probability_below(
                np.broadcast_to(mean, both.shape), np.broadcast_to(deviation, both.shape), both
            )
            # Pods cannot use more than their limits, so the load is below them.
            given = np.clip(np.where(possible > 0, probability / possible, probability), 0, 1)
        is_limited = (limits < capacity) & (requested <= limits)
        given = np.where(limited == 0, 1.0, given)
        probability = np.where(is_limited & (deviation > 0), given, probability)
        probability = np.where(is_limited & (limited == 0), 1.0, probability)
        return np.where(np.isnan(means), 0.0, 1 - probability)

    def _load_risk_of_one(
        self, mean: float | None, deviation: float, capacity: int, requested: int, limit: int
    ) -> float:
        """Return the probability for one resource of one node; see `_load_risk`."""
        if mean is None:
            return 0.0
        load = min(max(mean / 100, 0.0), 1.0)
        most = math.sqrt(load * (1 - load) * _MOST_VARIANCE)
        spread = min(min(max(deviation / 100, 0.0), 1.0) * self._smoothing, most)
        below = _part(requested, capacity)
        probability = probability_below_of_one(load, spread, below)
        if limit >= capacity or requested > limit:
            return 1 - probability
        if limit <= 0:
            return 0.0
        if spread > 0:
            possible = probability_below_of_one(load, spread, _part(limit, capacity))
            if possible > 0:
                probability = min(max(probability / possible, 0.0), 1.0)
        return 1 - probability

    def _scores(
        self,
        pod_info: PodInfo,
        capacity: Floats,
        requested: Floats,
        limits: Floats,
        load_risk: Floats,
    ) -> NDArray[np.int64]:
        own = pod_info.requested
        more = np.array([[own.milli_cpu], [own.memory]], dtype=np.float64)
        limit = limits + np.array(_limits_of(pod_info), dtype=np.float64)[:, None]
        request = requested + more
        with np.errstate(divide="ignore", invalid="ignore"):
            over = np.where(limit > capacity, (limit - capacity) / (limit - request), 0.0)
        over = np.where(np.isfinite(over), over, 1.0)
        weights = np.array(self._weights)[:, None]
        risk = np.clip(weights * over + (1 - weights) * load_risk, 0, 1).max(axis=0)
        scores: NDArray[np.int64] = np.floor((1 - risk) * 100 + 0.5).astype(np.int64)
        return scores


class _RiskColumns:
    """Per row of the table: the limits of its pods, and the risk according to the measured load."""

    def __init__(self, nodes: NodeView, loads: NodeLoads) -> None:
        capacity = nodes.table.capacity
        self.limits: Floats = np.zeros((len(_RESOURCES), capacity))
        self.risk: Floats = np.zeros((len(_RESOURCES), capacity))
        self._version = self._version_of(nodes, loads)
        self._position: int | None = None

    @staticmethod
    def _version_of(nodes: NodeView, loads: NodeLoads) -> tuple[int, ...]:
        table = nodes.table
        return table.node_version, table.membership_version, loads.reports, table.capacity

    def is_for(self, nodes: NodeView, loads: NodeLoads) -> bool:
        return self._version == self._version_of(nodes, loads)

    def changed(self, nodes: NodeView) -> NDArray[np.intp]:
        """Return the rows that changed since the last call."""
        changes = nodes.table.changes
        rows = None if self._position is None else changes.since(self._position)
        self._position = changes.position
        return nodes.whole.rows if rows is None else rows


def _allocatable(nodes: NodeView) -> Floats:
    return nodes.allocatable_of(_RESOURCES).astype(np.float64)


def _requested(nodes: NodeView) -> Floats:
    return nodes.requested_of(_RESOURCES).astype(np.float64)


def _limits_of(pod_info: PodInfo) -> tuple[int, int]:
    """Return the limits of a pod, which are at least its requests."""
    pod, requested = pod_info.pod, pod_info.requested
    cpu = memory = 0
    for container in pod.spec.containers:
        limits = container.resources.limits
        cpu += parse_milli_value(limits.get(CPU, 0))
        memory += parse_value(limits.get(MEMORY, 0))
    for container in pod.spec.init_containers:
        limits = container.resources.limits
        cpu = max(cpu, parse_milli_value(limits.get(CPU, 0)))
        memory = max(memory, parse_value(limits.get(MEMORY, 0)))
    overhead = pod.spec.overhead or {}
    cpu += parse_milli_value(overhead.get(CPU, 0))
    memory += parse_value(overhead.get(MEMORY, 0))
    return max(cpu, requested.milli_cpu), max(memory, requested.memory)


def _excess(capacity: int, requested: int, limit: int) -> float:
    """Return how far the limits exceed the capacity, relative to limits minus requests."""
    if limit <= capacity:
        return 0.0
    return (limit - capacity) / (limit - requested) if limit != requested else 1.0


def _part(amount: int, capacity: int) -> float:
    if capacity <= 0:
        return 0.0 if amount == 0 else 1.0
    return min(max(amount / capacity, 0.0), 1.0)
