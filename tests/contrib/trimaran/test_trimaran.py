"""The plugins for measured load: sources, scores of both forms, and their rules."""

from __future__ import annotations

import asyncio
import json
import math
import random
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kubesched.api import Node
from kubesched.contrib.trimaran import (
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    TargetLoadPacking,
)
from kubesched.contrib.trimaran.beta_distribution import (
    incomplete_beta_of_one,
    probability_below,
    probability_below_of_one,
    regularized_incomplete_beta,
)
from kubesched.contrib.trimaran.load_sources import LoadReport, LoadSourceError, NodeLoad, source_of
from kubesched.contrib.trimaran.load_sources import MetricProvider as Provider
from kubesched.contrib.trimaran.node_loads import NodeLoads
from kubesched.framework import CycleState, PodInfo
from kubesched.testing import FakeHandle, check_plugin, make_container, make_node, make_pod
from kubesched.testing import run_score as both_forms

PLUGINS = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)
WATCHER = {"watcherAddress": "http://watcher:2020"}


def report(**nodes: NodeLoad) -> LoadReport:
    return LoadReport(nodes, FakeHandle().clock.now_ns())


def plugin_with(kind: Any, handle: FakeHandle, loads: LoadReport, **args: Any) -> Any:
    built = kind(msgspec.convert(args, kind.args_type), handle)
    built._loads.put(loads)
    return built


def scores(kind: Any, nodes: list[Node], pod: Any, loads: LoadReport, **args: Any) -> list[int]:
    handle = FakeHandle(nodes)
    plugin = plugin_with(kind, handle, loads, **args)
    return list(both_forms(plugin, pod, handle.snapshot.nodes))


def load_of(name: str) -> NodeLoad:
    """A random load that depends on the node alone."""
    rng = random.Random(name)
    return NodeLoad(rng.random() * 100, rng.random() * 9, rng.random() * 100, 9.0)


@pytest.mark.parametrize("kind", PLUGINS)
def test_the_plugins_fulfil_the_contract(kind: Any) -> None:
    def with_loads(args: Any, handle: Any) -> Any:
        built = kind(args, handle)
        nodes = {
            node.metadata.name: load_of(node.metadata.name) for node in handle.lister(Node).list()
        }
        built._loads.put(LoadReport(nodes, handle.clock.now_ns()))
        return built

    with_loads.args_type = kind.args_type  # type: ignore[attr-defined]
    check_plugin(with_loads)


@pytest.mark.parametrize(
    ("load", "want"),
    [
        (0.0, 40 + 60 * 10 / 40),  # the pod alone uses a tenth of the node
        (30.0, 100),
        (50.0, 40 * 40 / 60),
        (90.0, 0),
        (95.0, 0),
    ],
)
def test_target_load_packing_scores_the_target_highest(load: float, want: float) -> None:
    """A pod with a limit of 1 CPU on a node of 10, with the default target of 40 %."""
    node = make_node("n", cpu="10")
    pod = make_pod("p", containers=[make_container(limits={"cpu": "1"})])
    found = scores(TargetLoadPacking, [node], pod, report(n=NodeLoad(load)))
    assert found == [math.floor(want + 0.5)]


@pytest.mark.parametrize(
    ("container", "want"),
    [
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, 2000),
        ({"requests": {"cpu": "1"}}, 1500),
        ({}, 1000),
    ],
)
def test_target_load_packing_predicts_by_limits_then_requests(
    container: dict[str, Any], want: int
) -> None:
    plugin = TargetLoadPacking(None, FakeHandle())
    assert plugin.predicted(make_pod("p", containers=[make_container(**container)])) == want


def test_pods_that_are_not_measured_yet_count_for_a_while() -> None:
    handle = FakeHandle([make_node("n", cpu="10")])
    plugin = plugin_with(TargetLoadPacking, handle, report(n=NodeLoad(0.0)))
    pod = make_pod("p", containers=[make_container(limits={"cpu": "1"})])
    placed = make_pod("q", node_name="n", containers=[make_container(limits={"cpu": "3"})])
    plugin._follow(make_pod("q"), placed)
    (score,) = both_forms(plugin, pod, handle.snapshot.nodes)
    assert score == 100  # one CPU and three are the target
    end_ns = handle.clock.now_ns() + 61 * 10**9
    plugin._loads.put(LoadReport({"n": NodeLoad(30.0)}, end_ns))
    (score,) = both_forms(plugin, pod, handle.snapshot.nodes)
    assert score == 100  # the three are measured now, and do not count twice


def test_load_variation_prefers_the_steady_node() -> None:
    nodes = [
        make_node("steady", cpu="10", memory="10Gi"),
        make_node("wild", cpu="10", memory="10Gi"),
    ]
    loads = report(steady=NodeLoad(40.0, 0.0, 10.0), wild=NodeLoad(40.0, 30.0, 10.0))
    pod = make_pod("p", requests={"cpu": "1", "memory": "1Gi"})
    # risk: (mean + pod + deviation) / 2
    assert scores(LoadVariationRiskBalancing, nodes, pod, loads) == [75, 60]
    margins = scores(LoadVariationRiskBalancing, nodes, pod, loads, safeVarianceMargin=2.0)
    assert margins == [75, 45]


def test_low_risk_avoids_nodes_whose_limits_exceed_them() -> None:
    """Two CPUs of four are requested, and six are allowed: the risk is (6-4)/(6-2), weighted."""
    nodes = [make_node("n", cpu="4", memory="16Gi")]
    limits = {"cpu": "6"}
    pod = make_pod("p", containers=[make_container(requests={"cpu": "2"}, limits=limits)])
    loads = report(n=NodeLoad(0.0, 0.0, 0.0))
    assert scores(LowRiskOverCommitment, nodes, pod, loads) == [75]
    weighted = scores(
        LowRiskOverCommitment, nodes, pod, loads, riskLimitWeights={"cpu": 1.0, "memory": 1.0}
    )
    assert weighted == [50]


def test_nodes_without_metrics_have_the_lowest_score_and_old_metrics_are_ignored() -> None:
    nodes = [make_node("a", cpu="10"), make_node("b", cpu="10")]
    pod = make_pod("p", requests={"cpu": "1"})
    for kind in PLUGINS:
        assert scores(kind, nodes, pod, report(a=NodeLoad(10.0, 1.0, 10.0)))[1] == 0
        old = LoadReport({"a": NodeLoad(10.0)}, FakeHandle().clock.now_ns() - 301 * 10**9)
        assert scores(kind, nodes, pod, old) == [0, 0]


def read(provider: Provider, watcher: str = "", **pages: bytes) -> LoadReport:
    handle = FakeHandle([make_node("n1", cpu="4", memory="8Gi")])
    handle.pages = {url.replace("_", ":"): content for url, content in pages.items()}
    handle.pages.update(PAGES)
    return asyncio.run(source_of(provider, watcher, handle)())  # type: ignore[arg-type]


WATCHED = {
    "timestamp": 1000,
    "window": {"duration": "15m", "start": 100, "end": 900},
    "source": "Prometheus",
    "data": {
        "NodeMetricsMap": {
            "n1": {
                "metrics": [
                    {"name": "x", "type": "CPU", "operator": "AVG", "value": 30.5},
                    {"name": "x", "type": "CPU", "operator": "Latest", "value": 80},
                    {"name": "x", "type": "CPU", "operator": "STD", "value": 7},
                    {"name": "x", "type": "Memory", "operator": "Latest", "value": 50},
                ]
            }
        }
    },
}
PAGES = {"http://watcher:2020/watcher": json.dumps(WATCHED).encode()}


def test_a_load_watcher_is_read() -> None:
    found = read(Provider(), "http://watcher:2020/")
    assert found == LoadReport({"n1": NodeLoad(30.5, 7.0, 50.0, 0.0)}, 900 * 10**9)


def test_a_file_has_the_format_of_a_load_watcher(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    path.write_text(json.dumps(WATCHED))
    found = read(Provider("File", str(path)))
    assert found.nodes["n1"].cpu_mean == 30.5
    path.write_text("{")
    with pytest.raises(LoadSourceError, match="not a report of load-watcher"):
        read(Provider("File", str(path)))


def test_prometheus_is_queried() -> None:
    from urllib.parse import quote

    from kubesched.contrib.trimaran.load_sources import _PROMETHEUS

    values = {("cpu", "mean"): "0.25", ("cpu", "deviation"): "0.05", ("memory", "mean"): "NaN"}
    for key, query in _PROMETHEUS.items():
        result = [{"metric": {"instance": "n1:9100"}, "value": [77, values.get(key, "0.1")]}]
        answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
        PAGES[f"http://prom:9090/api/v1/query?query={quote(query)}"] = json.dumps(answer).encode()
    found = read(Provider("Prometheus", "http://prom:9090"))
    assert found == LoadReport({"n1": NodeLoad(25.0, 5.0, None, 10.0)}, 77 * 10**9)


def test_arguments_must_name_a_supported_source() -> None:
    for wrong in ({"type": "SignalFx"}, {"type": "Other"}, {"type": "Prometheus"}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"metricProvider": wrong}, TargetLoadPacking.args_type)
    given = msgspec.convert(
        {"defaultRequestsMultiplier": "2", "targetUtilization": 70, **WATCHER},
        TargetLoadPacking.args_type,
    )
    assert given.watcher_address == "http://watcher:2020"


def test_loads_are_shared_and_survive_a_failed_request() -> None:
    handle = FakeHandle([make_node("n1", cpu="4")])
    handle.pages = dict(PAGES)
    first = TargetLoadPacking(msgspec.convert(WATCHER, TargetLoadPacking.args_type), handle)
    second = LowRiskOverCommitment(
        msgspec.convert(WATCHER, LowRiskOverCommitment.args_type), handle
    )
    loads: Any = first._loads
    assert loads is second._loads
    assert isinstance(loads, NodeLoads)
    asyncio.run(loads._refresh())
    handle.pages.clear()
    asyncio.run(loads._refresh())
    assert loads._report.nodes["n1"].cpu_mean == 30.5


@pytest.mark.parametrize("seed", range(20))
def test_the_beta_function_is_the_integral(seed: int) -> None:
    rng = random.Random(seed)
    a, b, x = rng.uniform(1, 8), rng.uniform(1, 8), rng.random()
    grid = np.linspace(0, 1, 200_001)
    density = grid ** (a - 1) * (1 - grid) ** (b - 1)
    area = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    want = np.interp(x, grid, area / area[-1])
    found = regularized_incomplete_beta(np.array([a]), np.array([b]), np.array([x]))[0]
    assert found == pytest.approx(want, abs=1e-6)
    assert incomplete_beta_of_one(a, b, x) == pytest.approx(found, abs=1e-10)


def test_probabilities_at_the_edges() -> None:
    mean, none = np.array([0.5, 0.5, 0.0, 0.5]), np.zeros(4)
    threshold = np.array([0.4, 0.6, 0.0, 0.5])
    assert probability_below(mean, none, threshold).tolist() == [0, 1, 1, 1]
    one_by_one = map(probability_below_of_one, mean, none, threshold)
    assert list(one_by_one) == [0, 1, 1, 1]
    assert probability_below(mean, none + 0.1, threshold)[3] == pytest.approx(0.5)


def test_the_low_risk_columns_follow_changes_of_pods() -> None:
    nodes = [make_node("n", cpu="4", memory="16Gi"), make_node("m", cpu="4", memory="16Gi")]
    loads = report(n=NodeLoad(50.0, 9.0, 10.0, 1.0), m=NodeLoad(50.0, 9.0, 10.0, 1.0))
    container = make_container(requests={"cpu": "3"}, limits={"cpu": "6"})
    placed = make_pod("q", node_name="n", containers=[container])
    handle = FakeHandle([*nodes, placed])
    plugin = plugin_with(LowRiskOverCommitment, handle, loads)
    pod = make_pod("p", requests={"cpu": "1", "memory": "1Gi"})
    found = both_forms(plugin, pod, handle.snapshot.nodes)
    assert found[0] < found[1] == 100
    assert plugin.pre_score(CycleState(), PodInfo(make_pod("b")), handle.snapshot.nodes).is_skip
