"""The latest load of every node, as columns, and the task that refreshes it."""

from __future__ import annotations

import logging
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, ApiError, Node, parse_milli_value
from kubesched.contrib.trimaran.load_panel import load_panel
from kubesched.contrib.trimaran.load_sources import (
    LoadReport,
    LoadSourceError,
    MetricProvider,
    NodeLoad,
    source_of,
)
from kubesched.errors import WebPageError
from kubesched.framework import Handle, NodeInfo, NodeView, Panel

__all__ = ["LoadColumns", "NodeLoads", "node_loads"]

_log = logging.getLogger(__name__)

_PERIOD_NS: Final = 30 * 10**9
# Older metrics count as missing: they do not include pods that were placed since.
_LONGEST_AGE_NS: Final = 5 * 60 * 10**9

Floats = NDArray[np.float64]


class LoadColumns:
    """The load of every row of the node table; NaN where it was not measured."""

    def __init__(self, capacity: int) -> None:
        self.cpu_mean: Floats = np.full(capacity, np.nan)
        self.cpu_deviation: Floats = np.zeros(capacity)
        self.memory_mean: Floats = np.full(capacity, np.nan)
        self.memory_deviation: Floats = np.zeros(capacity)
        # in thousandths; the capacity, not the allocatable part
        self.cpu_capacity: Floats = np.zeros(capacity)

    def set_load(self, row: int, load: NodeLoad) -> None:
        self.cpu_mean[row] = np.nan if load.cpu_mean is None else load.cpu_mean
        self.cpu_deviation[row] = load.cpu_deviation
        self.memory_mean[row] = np.nan if load.memory_mean is None else load.memory_mean
        self.memory_deviation[row] = load.memory_deviation


class NodeLoads:
    """The latest report of one source. All plugins with the same source share this object."""

    def __init__(self, handle: Handle, provider: MetricProvider, watcher_address: str) -> None:
        self._handle = handle
        self._read = source_of(provider, watcher_address, handle)
        self._report = LoadReport({}, 0)
        self._columns: LoadColumns | None = None
        self._version: tuple[int, ...] = ()
        self._is_running = False
        self._source = watcher_address or " ".join(filter(None, (provider.type, provider.address)))
        self._problem = ""  # the error of the last request
        self.reports = 0  # the number of received reports

    @property
    def end_ns(self) -> int:
        """The end of the period in which the load was measured."""
        return self._report.end_ns

    def is_current(self) -> bool:
        """Whether there are metrics, and they are recent enough."""
        age_ns = self._handle.clock.now_ns() - self._report.end_ns
        return bool(self._report.nodes) and age_ns <= _LONGEST_AGE_NS

    @property
    def version(self) -> tuple[int, bool]:
        """A number that changes with the load of any node, and when the load becomes too old."""
        return self.reports, self.is_current()

    def columns(self, nodes: NodeView) -> LoadColumns | None:
        """Return the load per row of the table; None without current metrics."""
        if not self.is_current():
            return None
        table = nodes.table
        version = table.node_version, table.membership_version, self.reports, table.capacity
        if self._columns is None or self._version != version:
            self._columns = columns = LoadColumns(table.capacity)
            for info in nodes.whole:
                row = table.row_of[info.name]
                columns.cpu_capacity[row] = _cpu_capacity(info)
                load = self._report.nodes.get(info.name)
                if load is not None:
                    columns.set_load(row, load)
            self._version = version
        return self._columns

    def load_of(self, node: NodeInfo) -> tuple[NodeLoad, float] | None:
        """Return the load and the capacity of one node; None if unknown."""
        load = self._report.nodes.get(node.name) if self.is_current() else None
        return None if load is None else (load, _cpu_capacity(node))

    def panel(self) -> Panel:
        return load_panel(
            self._report,
            self._source or "metrics-server",
            self._problem,
            is_current=self.is_current(),
            now_ns=self._handle.clock.now_ns(),
        )

    def put(self, report: LoadReport) -> None:
        self._report = report
        self._problem = ""
        self.reports += 1

    async def run_once(self) -> None:
        """Refresh the load until cancelled; further calls return at once."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while True:
                await self._refresh()
                await self._handle.clock.sleep(_PERIOD_NS)
        finally:
            self._is_running = False

    async def _refresh(self) -> None:
        try:
            self.put(await self._read())
        except (LoadSourceError, WebPageError, ApiError, ValueError) as exc:
            self._problem = str(exc)
            _log.warning("Load of nodes was not read, the last one is used for 5 minutes: %s", exc)


def _cpu_capacity(info: NodeInfo) -> float:
    raw = {} if info.node is None else info.node.status.capacity
    return float(parse_milli_value(raw[CPU])) if CPU in raw else float(info.allocatable.milli_cpu)


def node_loads(handle: Handle, provider: MetricProvider, watcher_address: str) -> NodeLoads:
    """Return the loads of a source; all plugins and profiles share the object."""
    name = f"node loads {watcher_address or provider.type} {provider.address}"
    handle.lister(Node)
    return handle.shared.get(name, lambda: NodeLoads(handle, provider, watcher_address))
