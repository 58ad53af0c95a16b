"""TargetLoadPacking: fill nodes up to a target of measured CPU load, then spread."""

from __future__ import annotations

import math
from collections import deque
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, Container, Pod, parse_milli_value
from kubesched.api.base import RawQuantity
from kubesched.contrib.trimaran.load_sources import MetricProvider
from kubesched.contrib.trimaran.node_loads import node_loads
from kubesched.framework import CycleState, Handle, NodeInfo, NodeView, Plugin

__all__ = ["TargetLoadPacking", "TargetLoadPackingArgs"]

# Pods that were placed this long before the end of the measurement are not fully measured yet.
_REPORTING_NS: Final = 60 * 10**9

Floats = NDArray[np.float64]


class TargetLoadPackingArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of TargetLoadPacking."""

    metric_provider: MetricProvider = MetricProvider()
    watcher_address: str = ""
    # What a container without requests and limits is expected to use.
    default_requests: dict[str, RawQuantity] = msgspec.field(default_factory=lambda: {CPU: "1000m"})
    # What a container without limits is expected to use, as a multiple of its requests.
    default_requests_multiplier: str = "1.5"
    target_utilization: int = 40  # in percent; 0 or less: 40

    def __post_init__(self) -> None:
        float(self.default_requests_multiplier)
        parse_milli_value(self.default_requests.get(CPU, 0))
        if self.target_utilization > 100:
            raise ValueError("targetUtilization must be at most 100")


class TargetLoadPacking(Plugin):
    """Score nodes by their CPU load with the pod: highest at the target, lowest at 100 %."""

    name = "TargetLoadPacking"
    args_type = TargetLoadPackingArgs

    def __init__(
        self, args: TargetLoadPackingArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or TargetLoadPackingArgs(), handle)
        given: TargetLoadPackingArgs = self.args
        self._multiplier = float(given.default_requests_multiplier)
        self._default = parse_milli_value(given.default_requests.get(CPU, 0))
        self._target = float(given.target_utilization if given.target_utilization > 0 else 40)
        self._unmeasured = _Unmeasured()
        self._loads = None
        if handle is not None:
            self._loads = node_loads(handle, given.metric_provider, given.watcher_address)
            handle.lister(Pod).follow(self._follow)

    async def work_as_leader(self) -> None:
        """Refresh the load of the nodes."""
        if self._loads is not None:
            await self._loads.run_once()

    def predicted(self, pod: Pod) -> int:
        """Return the CPU that a pod is expected to use, in thousandths."""
        overhead = parse_milli_value((pod.spec.overhead or {}).get(CPU, 0))
        return overhead + sum(map(self._predicted_of, pod.spec.containers))

    def _predicted_of(self, container: Container) -> int:
        resources = container.resources
        if CPU in resources.limits:
            return parse_milli_value(resources.limits[CPU])
        if CPU in resources.requests:
            return math.floor(parse_milli_value(resources.requests[CPU]) * self._multiplier + 0.5)
        return self._default

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        is_placed = new is not None and bool(new.spec.node_name)
        if is_placed and old is not None and not old.spec.node_name:
            assert new is not None, "it is placed"
            now_ns = self.handle.clock.now_ns()
            self._unmeasured.add(now_ns, new.spec.node_name, self.predicted(new))

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        found = None if self._loads is None else self._loads.load_of(node)
        mean = None if found is None else found[0].cpu_mean
        if found is None or self._loads is None or mean is None:
            return 0
        capacity = found[1]
        missing = self._unmeasured.since(self._loads.end_ns - _REPORTING_NS).get(node.name, 0)
        used = np.array([mean / 100 * capacity + missing + self.predicted(pod)])
        return int(self._scores(used, np.array([capacity]))[0])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        columns = None if self._loads is None else self._loads.columns(nodes)
        if columns is None or self._loads is None:
            return np.zeros(len(nodes), dtype=np.int64)
        capacity = nodes.at(columns.cpu_capacity)
        used = nodes.at(columns.cpu_mean) / 100 * capacity + self.predicted(pod)
        missing = self._unmeasured.since(self._loads.end_ns - _REPORTING_NS)
        if missing:
            used += nodes.at(self._unmeasured.column(nodes, missing))
        return self._scores(used, capacity)

    def _scores(self, used: Floats, capacity: Floats) -> NDArray[np.int64]:
        """Rise from the target at no load to 100 at the target, then fall to 0 at full load."""
        target = self._target
        with np.errstate(divide="ignore", invalid="ignore"):
            load = np.where(capacity > 0, 100 * used / capacity, 0.0)
            rising = (100 - target) * load / target + target
            falling = target * (100 - load) / (100 - target)
        scores = np.where(load > target, np.where(load > 100, 0.0, falling), rising)
        return np.floor(np.nan_to_num(scores) + 0.5).astype(np.int64)


class _Unmeasured:
    """The expected use of pods that were placed recently, by node."""

    def __init__(self) -> None:
        self._placed: deque[tuple[int, str, int]] = deque()
        self._by_node: dict[str, int] = {}
        self._column: Floats = np.zeros(0)
        self._column_of: tuple[int, ...] = ()
        self._changed: list[str] = []

    def add(self, at_ns: int, node: str, amount: int) -> None:
        self._placed.append((at_ns, node, amount))
        self._by_node[node] = self._by_node.get(node, 0) + amount
        self._changed.append(node)

    def since(self, start_ns: int) -> dict[str, int]:
        """Forget what was placed before, and return the rest."""
        placed = self._placed
        while placed and placed[0][0] < start_ns:
            _, node, amount = placed.popleft()
            self._by_node[node] -= amount
            self._changed.append(node)
        return self._by_node

    def column(self, nodes: NodeView, by_node: dict[str, int]) -> Floats:
        """Return the same for the rows of the table; only changed nodes are updated."""
        table = nodes.table
        version = table.membership_version, table.capacity
        if version != self._column_of:
            self._column, self._column_of = np.zeros(table.capacity), version
            self._changed = list(by_node)
        for node in self._changed:
            row = table.row_of.get(node)
            if row is not None:
                self._column[row] = by_node.get(node, 0)
        self._changed.clear()
        return self._column
