"""Nodes with nominated pods: filtering all at once and one by one gives the same verdicts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.framework import (
    CycleState,
    Diagnosis,
    FitError,
    NodeView,
    Nominating,
    NominatingMode,
    PodInfo,
    Status,
)
from kubesched.scheduler.config import default_profile
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.testing import FakeHandle, make_node, make_pod
from kubesched.testing.objects.random_clusters import random_cluster, random_pod


class Scenario:
    """A random cluster in which some waiting pods are nominated to nodes."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        cluster = random_cluster(rng, nodes=rng.randint(1, 8), pods=rng.randint(0, 20))
        self.pod = random_pod(rng, "incoming")
        nominees = [random_pod(rng, f"nominee-{number}") for number in range(rng.randint(1, 6))]
        self.handle = FakeHandle([*cluster.objects, self.pod, *nominees])
        for nominee in [*nominees, self.pod]:
            names = [node.metadata.name for node in cluster.nodes]
            nominating = Nominating(NominatingMode.OVERRIDE, rng.choice(names))
            self.handle.nominator.add_nominated_pod(PodInfo(nominee), nominating)
        self.framework = Framework(default_profile(), IN_TREE_PLUGINS, self.handle.services())

    def one_by_one(self) -> dict[str, Status] | None:
        """Return each node's verdict; None if PreFilter rejects the pod, or a plugin fails."""
        state, pod_info = CycleState(), PodInfo(self.pod)
        try:
            outcome = self.framework.run_pre_filter(state, pod_info)
            if not outcome.status.is_success:
                return None
            return {
                node.name: self.framework.dry_run.filter_node(state, pod_info, node)
                for node in self.handle.snapshot.nodes
                if outcome.only_nodes is None or node.name in outcome.only_nodes
            }
        except PluginError:
            return None

    def together(self) -> tuple[dict[str, Status], set[str], set[str]]:
        """What the algorithm notes: verdicts, nodes that fit, and plugins that rejected."""
        snapshot = self.handle.snapshot
        algorithm = CachedSearch(snapshot, random.Random(0))  # type: ignore[arg-type]
        try:
            result = algorithm.schedule_pod(self.framework, CycleState(), PodInfo(self.pod))
        except FitError as exc:
            diagnosis = exc.diagnosis
            return diagnosis.node_statuses(), set(), diagnosis.unschedulable_plugins
        feasible: NodeView = result.feasible
        diagnosis = result.diagnosis
        return diagnosis.node_statuses(), set(feasible.names), diagnosis.unschedulable_plugins


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_verdicts_with_nominated_pods(seed: int) -> None:
    scenario = Scenario(seed)
    each = scenario.one_by_one()
    if each is None:
        return
    rejected, fitting, plugins = scenario.together()
    assert fitting == {name for name, status in each.items() if status.is_success}
    want = {name: status for name, status in each.items() if not status.is_success}
    assert rejected == want
    assert {status.plugin for status in want.values()} <= plugins


def test_random_scenarios_have_nodes_that_only_nominated_pods_fill() -> None:
    found = 0
    for seed in range(300):
        scenario = Scenario(seed)
        each = scenario.one_by_one() or {}
        state, pod_info = CycleState(), PodInfo(scenario.pod)
        scenario.framework.run_pre_filter(state, pod_info)
        for node in scenario.handle.snapshot.nodes:
            status = each.get(node.name)
            if status is not None and not status.is_success:
                nodes = scenario.handle.snapshot.nodes
                only = nodes.at_rows(nodes.table.rows_of([node.name]))
                alone = scenario.framework.run_filter(state, scenario.pod, only, Diagnosis())
                found += len(alone)
    assert found > 5


def test_random_scenarios_have_nominees_that_filters_evaluate_and_others() -> None:
    """The two ways of looking at a node, where some filter reads more than totals."""
    found = {True: 0, False: 0}
    for seed in range(300):
        scenario = Scenario(seed)
        state, dry_run = CycleState(), scenario.framework.dry_run
        scenario.framework.run_pre_filter(state, PodInfo(scenario.pod))
        if dry_run.reads_totals_only(state):
            continue
        table = scenario.handle.snapshot.nodes.table
        rows = table.rows_of(scenario.handle.nominator.nominated_nodes())
        for is_enough in dry_run.sees_totals_only(state, scenario.pod, rows).tolist():
            found[is_enough] += 1
    assert min(found.values()) > 5, found


@pytest.mark.parametrize("priority", [None, 0])
def test_a_pod_does_not_conflict_with_itself(priority: int | None) -> None:
    pod: Pod = make_pod("p", requests={"cpu": "3"}, priority=priority)
    handle = FakeHandle([make_node("n", cpu="4"), pod])
    nominating = Nominating(NominatingMode.OVERRIDE, "n")
    handle.nominator.add_nominated_pod(PodInfo(pod), nominating)
    framework = Framework(default_profile(), IN_TREE_PLUGINS, handle.services())
    algorithm = CachedSearch(handle.snapshot, random.Random(0))  # type: ignore[arg-type]
    assert algorithm.schedule_pod(framework, CycleState(), PodInfo(pod)).node_name == "n"
