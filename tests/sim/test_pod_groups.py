"""Pod groups in scenarios: gangs that arrive, the gates that place them, and how long they wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesched.api import PodGroup
from kubesched.sim import parse_scenario
from kubesched.sim.compare import measures_of
from kubesched.sim.results import RunResult
from kubesched.sim.simulation import Simulation, simulate
from kubesched.sim.summary import summary_text
from kubesched.sim.values import ScenarioError

GANGS = {"GenericWorkload": True, "GangScheduling": True}
RACKS = {**GANGS, "TopologyAwareWorkloadScheduling": True}


def document(gates: dict[str, bool], **workload: Any) -> dict[str, Any]:
    """One node of 4 CPUs, and two groups of two pods of 2 CPUs that run for ten minutes."""
    group = {
        "name": "training",
        "arrivals": {"at": ["0s", "1m"]},
        "replicas": 2,
        "cpu": 2,
        "duration": "10m",
        "podGroup": {},
    }
    return {
        "duration": "30m",
        "cluster": {"nodes": [{"name": "a", "cpu": 4, "memory": "8Gi"}]},
        "workloads": [{**group, **workload}],
        "configurations": [{"name": "c", "featureGates": gates}],
    }


def outcome(given: dict[str, Any]) -> tuple[RunResult, Simulation]:
    scenario = parse_scenario(given, Path())
    return simulate(scenario, scenario.configurations[0], 0)


def test_a_gang_waits_until_all_of_its_pods_fit() -> None:
    # A single pod of 2 CPUs has half of the node for five minutes from the start.
    given = document(GANGS, arrivals={"at": ["1m"]})
    single = {"name": "single", "cpu": 2, "duration": "5m"}
    given["workloads"].append(single)
    result, simulation = outcome(given)
    assert result.time_to_place["count"] == 1
    assert 240 < result.time_to_place["mean"] < 260, "four minutes, and the ends of the pods"
    assert result.time_to_place["mean"] == pytest.approx(
        result.time_to_bind["training"]["mean"], abs=0.01
    ), "no pod is bound before the others"
    assert result.counts["bound"] == 3
    assert simulation.observer.groups.waiting == 0


def test_without_the_gate_pods_are_placed_one_by_one() -> None:
    given = document({}, arrivals={"at": ["1m"]})
    given["workloads"].append({"name": "single", "cpu": 2, "duration": "5m"})
    result, _ = outcome(given)
    assert result.time_to_bind["training"]["p50"] == 0
    assert 240 < result.time_to_place["mean"] < 260, "until the second pod has a node"


def test_groups_are_counted_and_deleted_with_their_last_pod() -> None:
    result, simulation = outcome(document(GANGS))
    assert result.time_to_place["count"] == 2
    assert result.time_to_place["waiting"] == 0
    assert result.series["groups placed"][-1] == 2
    store = simulation.store
    assert not store.collection(store.catalog.by_type(PodGroup)).objects
    measures = measures_of(result)
    assert measures["groups placed"] == 2
    # The first waits for nothing, and the second until the first has run for ten minutes.
    assert 540 / 2 < measures["mean time to place a group"] < 560 / 2
    assert "mean time to place a group" in summary_text([result])


def test_a_gang_that_never_fits_waits_to_the_end() -> None:
    result, _ = outcome(document(GANGS, replicas=3))
    assert result.time_to_place == {"count": 0, "waiting": 2}
    assert measures_of(result)["groups waiting at the end"] == 2
    assert result.pending["pod group is unschedulable"] == 4, "two of three pods of each fit"


def test_results_without_groups_do_not_mention_them() -> None:
    given = document({})
    del given["workloads"][0]["podGroup"]
    result, _ = outcome(given)
    assert result.time_to_place == {}
    assert not any("group" in name for name in (*measures_of(result), *result.series))


@pytest.mark.parametrize(("topology", "placed"), [({}, 1), ({"topology": "rack"}, 0)])
def test_a_group_is_placed_in_one_rack(topology: dict[str, str], placed: int) -> None:
    given = document(RACKS, arrivals={"at": ["0s"]}, podGroup=topology)
    given["cluster"]["nodes"] = [
        {"name": name, "cpu": 2, "memory": "8Gi", "labels": {"rack": name}} for name in "ab"
    ]
    result, _ = outcome(given)
    assert result.time_to_place["count"] == placed


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"kind": "Job"}, r"workloads\[0\].podGroup: goes with the kind Pod"),
    "a policy": ({"podGroup": {"policy": "x"}}, r"podGroup.policy: must be one of gang, basic"),
    "a mode": ({"podGroup": {"disruptionMode": "All"}}, "must be one of Pod, PodGroup"),
    "a count of a basic group": (
        {"podGroup": {"policy": "basic", "minCount": 2}},
        "podGroup.minCount: must be above zero, and goes with a gang",
    ),
    "a field": ({"podGroup": {"minCont": 2}}, "did you mean 'minCount'"),
}


@pytest.mark.parametrize(("workload", "text"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_workloads(workload: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        parse_scenario(document(GANGS, **workload), Path())


@pytest.mark.parametrize(
    ("gates", "text"),
    [
        ({"Nope": True}, r"configurations\[0\].featureGates: unrecognized feature gate: Nope"),
        ({"GangScheduling": True}, r"depends on features that are disabled: \[GenericWorkload\]"),
        ({"GenericWorkload": "yes"}, "GenericWorkload: must be true or false, not 'yes'"),
    ],
)
def test_mistakes_in_gates(gates: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        parse_scenario(document(gates), Path())
