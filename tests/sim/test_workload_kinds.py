"""Workloads with controllers in scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesched.sim import parse_scenario
from kubesched.sim.results import RunResult
from kubesched.sim.simulation import simulate
from kubesched.sim.values import ScenarioError


def document(**workload: Any) -> dict[str, Any]:
    nodes = [{"name": "a", "count": 3, "cpu": 8, "memory": "16Gi"}]
    return {
        "duration": "35m",
        "cluster": {"nodes": nodes},
        "workloads": [{"name": "w", "cpu": 1, **workload}],
    }


def outcome(given: dict[str, Any]) -> RunResult:
    scenario = parse_scenario(given, Path())
    return simulate(scenario, scenario.configurations[0], 0)[0]


@pytest.mark.parametrize(
    ("workload", "bound"),
    {
        "the replicas of a StatefulSet": ({"kind": "StatefulSet", "replicas": 2}, 2),
        "a pod of a DaemonSet on each node": ({"kind": "DaemonSet"}, 3),
        "the pods of the Jobs of a CronJob": (
            {"kind": "CronJob", "schedule": "*/10 * * * *", "replicas": 2, "duration": "1m"},
            6,  # at 10, 20 and 30 minutes
        ),
    }.values(),
)
def test_controllers_create_the_pods(workload: dict[str, Any], bound: int) -> None:
    result = outcome(document(**workload))
    assert result.counts["bound"] == bound
    assert not result.pending


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ({"kind": "CronJob"}, r"workloads\[0\].schedule: goes with the kind CronJob"),
        ({"schedule": "* * * * *"}, r"workloads\[0\].schedule: goes with the kind CronJob"),
        ({"kind": "DaemonSet", "replicas": 2}, "a DaemonSet has a pod for each node"),
    ],
)
def test_mistakes(workload: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        parse_scenario(document(**workload), Path())


def test_pods_behind_a_gate_are_counted_as_such() -> None:
    spec = {
        "schedulingGates": [{"name": "example.com/quota"}],
        "containers": [{"name": "c", "image": "c"}],
    }
    result = outcome(document(template={"spec": spec}, replicas=2))
    assert result.pending == {"held back by a scheduling gate": 2}
