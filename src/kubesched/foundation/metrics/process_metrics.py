"""Metrics of the process and its build: memory, files, versions, feature gates.

docs/reference/02 §11.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from kubesched.foundation.metrics.instruments import FamilyGroup

__all__ = ["BuildMetrics", "ProcessMetrics"]

_UNLIMITED = float(2**64)
_LEVELS = ("ALPHA", "BETA", "STABLE")


class ProcessMetrics(Collector):
    """The `process_*` metrics, read from the operating system at each scrape."""

    def __init__(self, registry: CollectorRegistry, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._common = ProcessCollector(proc=str(proc), registry=None)
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return [GaugeMetricFamily("process_virtual_memory_max_bytes", "")]

    def collect(self) -> Iterable[Metric]:
        yield from self._common.collect()
        yield from self._address_space()
        yield from self._network()

    @property
    def start_time_seconds(self) -> float | None:
        for family in self._common.collect():
            if family.name == "process_start_time_seconds":
                return family.samples[0].value
        return None

    def _address_space(self) -> Iterator[Metric]:
        lines = self._read("self/limits")
        for line in lines:
            if line.startswith("Max address space"):
                soft = line.split()[3]
                yield GaugeMetricFamily(
                    "process_virtual_memory_max_bytes",
                    "Maximum amount of virtual memory available in bytes.",
                    value=_UNLIMITED if soft == "unlimited" else float(soft),
                )

    def _network(self) -> Iterator[Metric]:
        names: list[str] = []
        for line in self._read("self/net/netstat"):
            kind, _, rest = line.partition(":")
            if kind != "IpExt":
                continue
            if not names:
                names = rest.split()
                continue
            values = dict(zip(names, map(float, rest.split()), strict=False))
            yield CounterMetricFamily(
                "process_network_receive_bytes_total",
                "Number of bytes received by the process over the network.",
                value=values.get("InOctets", 0.0),
            )
            yield CounterMetricFamily(
                "process_network_transmit_bytes_total",
                "Number of bytes sent by the process over the network.",
                value=values.get("OutOctets", 0.0),
            )

    def _read(self, name: str) -> list[str]:
        try:
            return (self._proc / name).read_text().splitlines()
        except OSError:
            # Other systems have no such files; the families are absent there.
            return []


class BuildMetrics(FamilyGroup):
    """Versions and feature gates; constant while the process runs."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        build: dict[str, str],
        binary: str,
        emulation: str,
        min_compat: str,
        features: Iterable[tuple[str, str, bool]],
        own_version: str = "",
    ) -> None:
        """`features` are gates with their stages (`ALPHA`, …) and whether they are enabled."""
        super().__init__()
        labels = tuple(build)
        self.gauge(
            "kubernetes_build_info",
            "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git "
            "commit, git tree state, build date, Go version, and compiler from which Kubernetes "
            "was built, and platform on which it is running.",
            *labels,
        ).labels(*build.values()).set(1)
        self.gauge(
            "version_info",
            "[ALPHA] Provides the compatibility version info of the component. The component "
            "label is the name of the component, usually kube, but is relevant for "
            "aggregated-apiservers.",
            "component",
            "binary",
            "emulation",
            "min_compat",
        ).labels("kube", binary, emulation, min_compat).set(1)
        self.gauge(
            "kubesched_build_info",
            "[ALPHA] The version of kubesched, which is not that of Kubernetes; constant 1.",
            "version",
        ).labels(own_version).set(1)
        enabled = self.gauge(
            "kubernetes_feature_enabled",
            "[BETA] This metric records the data about the stage and enablement of a k8s feature.",
            "name",
            "stage",
        )
        for name, stage, is_on in features:
            enabled.labels(name, "" if stage == "GA" else stage).set(int(is_on))
        self.counter("hidden_metrics_total", "[BETA] The count of hidden metrics.").labels()
        self._disabled = self.counter(
            "disabled_metrics_total", "[BETA] The count of disabled metrics."
        ).labels()
        self._registered = self.counter(
            "registered_metrics_total",
            "[BETA] The count of registered metrics broken by stability level and deprecation "
            "version.",
            "stability_level",
            "deprecated_version",
        )
        registry.register(self)

    def reset(self) -> None:
        """Do nothing: these metrics are constant."""

    def count_registered(self, groups: Iterable[FamilyGroup], disabled: int = 0) -> None:
        """Set the numbers of registered and hidden metrics by level, once all groups exist."""
        self._disabled.inc(disabled)
        for group in (self, *groups):
            for family in group.families.values():
                level = family.help_text.partition("]")[0].lstrip("[")
                if level in _LEVELS:
                    self._registered.labels(level, "").inc()
