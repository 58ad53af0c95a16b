"""Sources of the load of nodes: metrics-server, Prometheus, a load-watcher, or a file.

Each source returns a `LoadReport`: percentages of a node's capacity by node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

import msgspec

from kubesched.api import CPU, MEMORY, Node, parse_time
from kubesched.api.custom_kinds import CustomObject
from kubesched.api.kinds import Kind
from kubesched.api.quantity import parse_quantity
from kubesched.framework import Handle

__all__ = ["LoadReport", "LoadSourceError", "MetricProvider", "NodeLoad", "source_of"]

_WINDOW_S: Final = 15 * 60
_MINUTE_S: Final = 60
_NODES_PER_PAGE: Final = 1000
# The recording rules of the node exporter's mixin, over the window.
_PROMETHEUS: Final = {
    ("cpu", "mean"): "avg_over_time(instance:node_cpu:ratio[15m])",
    ("cpu", "deviation"): "stddev_over_time(instance:node_cpu:ratio[15m])",
    ("memory", "mean"): "avg_over_time(instance:node_memory_utilisation:ratio[15m])",
    ("memory", "deviation"): "stddev_over_time(instance:node_memory_utilisation:ratio[15m])",
}
_OPERATORS: Final = {"AVG": "mean", "Latest": "latest", "": "latest", "STD": "deviation"}


class LoadSourceError(Exception):
    """A source returned no usable answer; the text gives the reason."""


class MetricProvider(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The source in the form of the plugin arguments. `File` is an addition of kubesched."""

    type: str = ""  # KubernetesMetricsServer, Prometheus or File
    address: str = ""  # URL of Prometheus, or path of a file
    token: str = ""
    insecure_skip_verify: bool = True

    def __post_init__(self) -> None:
        known = ("", "KubernetesMetricsServer", "Prometheus", "File")
        if self.type == "SignalFx":
            raise ValueError("SignalFx is not supported; use a load-watcher with watcherAddress")
        if self.type not in known:
            raise ValueError(f"must be one of {', '.join(known[1:])}, not {self.type!r}")
        if self.type in ("Prometheus", "File") and not self.address:
            raise ValueError(f"address is required for {self.type}")


class NodeLoad(msgspec.Struct):
    """Percentages of the capacity of a node; None: not measured."""

    cpu_mean: float | None = None
    cpu_deviation: float = 0.0
    memory_mean: float | None = None
    memory_deviation: float = 0.0


class LoadReport(msgspec.Struct, frozen=True):
    """The load of nodes, and the end of the time in which it was measured."""

    nodes: dict[str, NodeLoad]
    end_ns: int


Source = Callable[[], Awaitable[LoadReport]]


def source_of(provider: MetricProvider, watcher_address: str, handle: Handle) -> Source:
    """Return the source that the arguments select; metrics-server by default."""
    if watcher_address:
        return lambda: _load_watcher(watcher_address, handle)
    if provider.type == "Prometheus":
        return lambda: _prometheus(provider, handle)
    if provider.type == "File":
        return lambda: _file(Path(provider.address))
    return lambda: _metrics_server(handle)


async def _load_watcher(address: str, handle: Handle) -> LoadReport:
    return _read_watcher(await handle.read_page(f"{address.rstrip('/')}/watcher"))


async def _file(path: Path) -> LoadReport:
    return _read_file(path)  # the file is small: reading it in a thread would take longer


def _read_file(path: Path) -> LoadReport:
    try:
        return _read_watcher(path.read_bytes())
    except OSError as exc:
        raise LoadSourceError(f"{path}: {exc.strerror}") from exc


class _Metric(msgspec.Struct, frozen=True):
    type: str = ""
    operator: str = ""
    value: float = 0.0


class _NodeMetrics(msgspec.Struct, frozen=True):
    metrics: list[_Metric] = []


class _Data(msgspec.Struct, frozen=True):
    nodes: dict[str, _NodeMetrics] = msgspec.field(name="NodeMetricsMap", default_factory=dict)


class _Window(msgspec.Struct, frozen=True):
    end: int = 0


class _Report(msgspec.Struct, frozen=True):
    timestamp: int = 0
    window: _Window = _Window()
    data: _Data = _Data()


def _read_watcher(content: bytes) -> LoadReport:
    """Parse the format of load-watcher; its times are in seconds."""
    try:
        found = msgspec.json.decode(content, type=_Report)
    except msgspec.MsgspecError as exc:
        raise LoadSourceError(f"not a report of load-watcher: {exc}") from exc
    nodes = {name: _node_load(each.metrics) for name, each in found.data.nodes.items()}
    return LoadReport(nodes, (found.window.end or found.timestamp) * 10**9)


def _node_load(metrics: list[_Metric]) -> NodeLoad:
    """Return the load of a node; an average takes precedence over the latest value."""
    values: dict[tuple[str, str], float] = {}
    for metric in metrics:
        operator = _OPERATORS.get(metric.operator)
        if operator is not None:
            values[metric.type.lower(), operator] = metric.value

    def mean(kind: str) -> float | None:
        return values.get((kind, "mean"), values.get((kind, "latest")))

    return NodeLoad(
        mean("cpu"),
        values.get(("cpu", "deviation"), 0.0),
        mean("memory"),
        values.get(("memory", "deviation"), 0.0),
    )


class _Vector(msgspec.Struct, frozen=True):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "NaN")


class _VectorData(msgspec.Struct, frozen=True):
    result: list[_Vector] = []


class _Answer(msgspec.Struct, frozen=True):
    status: str = ""
    error: str = ""
    data: _VectorData = _VectorData()


async def _prometheus(provider: MetricProvider, handle: Handle) -> LoadReport:
    nodes: dict[str, NodeLoad] = {}
    latest = 0.0
    for (resource, what), query in _PROMETHEUS.items():
        content = await handle.read_page(
            f"{provider.address.rstrip('/')}/api/v1/query?query={quote(query)}",
            token=provider.token,
            verify_tls=not provider.insecure_skip_verify,
        )
        try:
            answer = msgspec.json.decode(content, type=_Answer)
        except msgspec.MsgspecError as exc:
            raise LoadSourceError(f"not an answer of Prometheus: {exc}") from exc
        if answer.status != "success":
            raise LoadSourceError(f"Prometheus refused the query: {answer.error}")
        for each in answer.data.result:
            name = each.metric.get("node") or each.metric.get("instance", "").partition(":")[0]
            value = float(each.value[1])
            if name and value == value:  # NaN: not measured
                load = nodes.setdefault(name, NodeLoad())
                setattr(load, f"{resource}_{what}", 100 * value)
                latest = max(latest, each.value[0])
    return LoadReport(nodes, int(latest * 10**9))


class _NodeUsage(CustomObject, frozen=True):
    """A NodeMetrics of metrics.k8s.io; its usage is at the top level."""

    api_version: ClassVar[str] = "metrics.k8s.io/v1beta1"
    kind: ClassVar[str] = "NodeMetrics"

    timestamp: str = ""
    usage: dict[str, Any] = {}


_NodeUsage.custom_kind = Kind(_NodeUsage, "nodes", namespaced=False)


async def _metrics_server(handle: Handle) -> LoadReport:
    """Return the current usage, without deviations."""
    capacity = {node.metadata.name: node.status.capacity for node in handle.lister(Node).list()}
    nodes: dict[str, NodeLoad] = {}
    latest_ns, token = 0, ""
    while True:
        page = await handle.api.list(_NodeUsage, limit=_NODES_PER_PAGE, continue_token=token)
        for each in page.items:
            name = each.metadata.name
            load = nodes[name] = NodeLoad()
            load.cpu_mean = _percentage(each.usage, capacity.get(name, {}), CPU)
            load.memory_mean = _percentage(each.usage, capacity.get(name, {}), MEMORY)
            latest_ns = max(latest_ns, parse_time(each.timestamp) if each.timestamp else 0)
        token = page.continue_token
        if not token:
            return LoadReport(nodes, latest_ns)


def _percentage(usage: dict[str, Any], capacity: Any, name: str) -> float | None:
    if name not in usage or name not in capacity:
        return None
    whole = parse_quantity(capacity[name]).milli_value
    return 100 * parse_quantity(usage[name]).milli_value / whole if whole else None
