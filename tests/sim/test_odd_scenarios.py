"""Edge cases of scenarios: they run, and their results are correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.errors import ConfigError
from kubesched.sim import run
from kubesched.sim.autoscaling import nodes_needed
from kubesched.sim.compare import Difference, compare, measures_of
from kubesched.sim.simulation import simulate
from kubesched.sim.summary import summary_text
from kubesched.sim.traces import read_trace
from tests.sim.scenarios import document, scenario

NOWHERE = {"nodes": [{"name": "general", "count": 0, "cpu": 4, "memory": "8Gi"}]}
TWO = [{"name": "one"}, {"name": "other"}]


def test_without_bound_pods_the_time_to_bind_is_absent() -> None:
    planned = document(cluster=NOWHERE, autoscaler=[{"group": "general", "max": 0}])
    results = run({**planned, "configurations": TWO, "seeds": [1, 2]})
    assert results.results[0].pending
    assert "mean time to bind" not in measures_of(results.results[0])
    lines = str(results).splitlines()
    assert lines[0].endswith("4 runs, 2 seeds")
    assert next(line for line in lines if line.startswith("mean time to bind")).split()[-2:] == [
        "-",
        "-",
    ]
    compared = compare(results.results, "one", "other")
    assert compared.sentence() == "other and one do not differ clearly"
    assert "mean time to bind" not in {each.measure for each in compared.differences}


def test_a_cluster_without_a_workload_reports_that() -> None:
    planned = scenario(workloads=[])
    result, _ = simulate(planned, planned.configurations[0], 0)
    assert result.counts == {}
    assert "1 run, 1 seed\n" in summary_text([result])


def test_no_pod_arrives_at_the_end_of_a_run() -> None:
    bursts = {"bursts": {"every": "30m", "size": 4, "within": "0s"}}
    tasks = {**document()["workloads"][0], "arrivals": bursts, "duration": "0s"}
    planned = scenario(workloads=[tasks])  # of an hour
    result, _ = simulate(planned, planned.configurations[0], 0)
    assert result.counts["created"] == result.counts["finished"]
    assert not result.pending


def test_the_autoscaler_respects_the_pod_limit_of_a_node() -> None:
    node = {"cpu": 4000, "memory": 2**33, "pods": 10}
    assert nodes_needed([{"cpu": 1, "memory": 0, "pods": 1}] * 35, node, 20) == 4


@pytest.mark.parametrize(
    ("percent", "want"),
    [(12.34, "12 %"), (187.0, "187 %"), (2400.0, "24 times")],
)
def test_amounts_are_written_for_people(percent: float, want: str) -> None:
    low = high = percent
    grown = Difference("mean time to bind", 100.0, 100.0 + percent, percent, low, high)
    assert grown.sentence().startswith("pods wait ")
    assert grown.sentence().endswith(f" on average instead of 1 min 40 s ({want} more)")


def test_a_change_from_zero_has_no_percentage() -> None:
    grown = Difference("p99 time to bind", 0.0, 175.0, 175.0, 170.0, 180.0)
    want = "pods wait 2 min 55 s at the 99th percentile instead of 0 s"
    assert grown.sentence() == want


def test_a_list_without_its_columns_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,when,cpu_milli\na,1,2\n")
    with pytest.raises(ConfigError) as raised:
        read_trace(path)
    assert str(raised.value).startswith(f"{path}:1: no column memory_mib, num_gpu, gpu_milli")
    path.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
        "a,1000,1024,0,0,5,soon,6\n"
    )
    with pytest.raises(ConfigError) as raised:
        read_trace(path)
    assert str(raised.value) == f"{path}:2: could not convert string to float: 'soon'"
