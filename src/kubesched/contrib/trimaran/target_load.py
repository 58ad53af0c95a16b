"""TargetLoadPacking: fill nodes up to a target of measured CPU load, then spread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, Container, Pod, parse_milli_value
from kubesched.api.base import RawQuantity
from kubesched.contrib.trimaran.load_sources import MetricProvider
from kubesched.contrib.trimaran.node_loads import node_loads
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Panel,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)

__all__ = ["TargetLoadPacking", "TargetLoadPackingArgs"]

# Pods that were placed this long before the end of the measurement are not fully included in it.
_REPORTING_NS: Final = 60 * 10**9

Floats = NDArray[np.float64]


class TargetLoadPackingArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of TargetLoadPacking."""

    metric_provider: MetricProvider = MetricProvider()
    watcher_address: str = ""
    # The expected use of a container without requests and limits.
    default_requests: dict[str, RawQuantity] = msgspec.field(default_factory=lambda: {CPU: "1000m"})
    # The expected use of a container without limits, as a multiple of its requests.
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
    # On each node, only recently placed pods matter.
    reads = Reads(
        pod=PodPart.CONTAINERS, pods_on_node=PodsOnNode.SPECS, other_nodes=False, objects=()
    )

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

    def panels(self) -> Sequence[Panel]:
        return () if self._loads is None else (self._loads.panel(),)

    async def work_as_leader(self) -> None:
        """Refresh the load of the nodes."""
        if self._loads is not None:
            await self._loads.run_once()

    def predicted(self, pod: Pod) -> int:
        """Return the expected CPU use of a pod, in thousandths."""
        overhead = parse_milli_value((pod.spec.overhead or {}).get(CPU, 0))
        return overhead + sum(map(self._predicted_of, pod.spec.containers))

    def _predicted_of(self, container: Container) -> int:
        resources = container.resources
        if CPU in resources.limits:
            return parse_milli_value(resources.limits[CPU])
        if CPU in resources.requests:
            return math.floor(parse_milli_value(resources.requests[CPU]) * self._multiplier + 0.5)
        return self._default

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self._count(pod, node_name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._unmeasured.remove(pod.metadata.uid)

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        """Track pods that other schedulers place, and pods that end."""
        if new is None or new.status.phase in ("Succeeded", "Failed"):
            pod = new or old
            assert pod is not None, "a change has an object"
            self._unmeasured.remove(pod.metadata.uid)
        elif new.spec.node_name and old is not None and not old.spec.node_name:
            self._count(new, new.spec.node_name)

    def _count(self, pod: Pod, node_name: str) -> None:
        now_ns, uid = self.handle.clock.now_ns(), pod.metadata.uid
        self._unmeasured.add(now_ns, uid, node_name, self.predicted(pod))

    def cache_version(self, nodes: NodeView) -> Hashable:
        if self._loads is None:
            return None
        self._unmeasured.forget_before(self._loads.end_ns - _REPORTING_NS)
        return self._loads.version

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        found = None if self._loads is None else self._loads.load_of(node)
        mean = None if found is None else found[0].cpu_mean
        if found is None or self._loads is None or mean is None:
            return 0
        capacity = found[1]
        self._unmeasured.forget_before(self._loads.end_ns - _REPORTING_NS)
        used = mean / 100 * capacity + self.predicted(pod) + self._unmeasured.on(node.name)
        load, target = 100 * used / capacity if capacity > 0 else 0.0, self._target
        if load > 100:
            return 0
        if load > target:
            return math.floor(target * (100 - load) / (100 - target) + 0.5)
        return math.floor((100 - target) * load / target + target + 0.5)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        columns = None if self._loads is None else self._loads.columns(nodes)
        if columns is None or self._loads is None:
            return np.zeros(len(nodes), dtype=np.int64)
        capacity = nodes.at(columns.cpu_capacity)
        used = nodes.at(columns.cpu_mean) / 100 * capacity + self.predicted(pod)
        self._unmeasured.forget_before(self._loads.end_ns - _REPORTING_NS)
        used += nodes.at(self._unmeasured.column(nodes))
        return self._scores(used, capacity)

    def _scores(self, used: Floats, capacity: Floats) -> NDArray[np.int64]:
        """Return scores: from the target at no load up to 100 at the target, then down to 0."""
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
        self._placed: dict[str, tuple[int, str, int]] = {}  # by uid; the oldest first
        self._by_node: dict[str, int] = {}
        self._column: Floats = np.zeros(0)
        self._column_of: tuple[int, ...] = ()
        self._changed: list[str] = []

    def add(self, at_ns: int, uid: str, node: str, amount: int) -> None:
        """Count a pod, unless it is counted already."""
        if uid not in self._placed:
            self._placed[uid] = at_ns, node, amount
            self._change(node, amount)

    def remove(self, uid: str) -> None:
        if (found := self._placed.pop(uid, None)) is not None:
            self._change(found[1], -found[2])

    def _change(self, node: str, amount: int) -> None:
        total = self._by_node.get(node, 0) + amount
        if total:
            self._by_node[node] = total
        else:
            self._by_node.pop(node, None)
        self._changed.append(node)

    def forget_before(self, start_ns: int) -> None:
        """Drop pods that were placed before this time."""
        while self._placed:
            uid = next(iter(self._placed))
            if self._placed[uid][0] >= start_ns:
                return
            self.remove(uid)

    def on(self, node: str) -> int:
        return self._by_node.get(node, 0)

    def column(self, nodes: NodeView) -> Floats:
        """Return the expected use per row of the table; only changed nodes are updated."""
        table = nodes.table
        version = table.membership_version, table.capacity
        if version != self._column_of:
            self._column, self._column_of = np.zeros(table.capacity), version
            self._changed = list(self._by_node)
        for node in self._changed:
            row = table.row_of.get(node)
            if row is not None:
                self._column[row] = self._by_node.get(node, 0)
        self._changed.clear()
        return self._column
