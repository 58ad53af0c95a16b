"""The evaluator: eligibility, victims, the choice of a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from kubesched.api import Pod, PodCondition, PodDisruptionBudget
from kubesched.api.base import ApiObject
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Diagnosis,
    NodeInfo,
    PodInfo,
    Status,
)
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.plugins.default_preemption.candidate_search import (
    CandidateSearch,
    calculate_num_candidates,
)
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import BudgetReader
from kubesched.scheduler.plugins.default_preemption.pod_columns import PodColumns
from kubesched.testing import make_node, make_pdb, make_pod
from tests.scheduler.plugins.default_preemption.preemption_fixture import (
    PreemptionHarness,
    nominated_to,
    run,
)
from tests.support import plugin_class

LOW, MID, HIGH = 0, 100, 1000
NO_ROOM = Status.unschedulable("Insufficient cpu").blame("NodeResourcesFit")
NEVER = Status.unresolvable("node(s) were held").blame("Other")
PREEMPTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
GOING = "2026-05-31T00:00:00Z"


def running(name: str, node: str, cpu: str = "4", priority: int = LOW, **more: Any) -> Pod:
    return make_pod(name, node_name=node, requests={"cpu": cpu}, priority=priority, **more)


def preemptor(cpu: str = "4", priority: int = HIGH, **more: Any) -> Pod:
    return make_pod("preemptor", requests={"cpu": cpu}, priority=priority, **more)


def nodes(*names: str, cpu: str = "4") -> list[ApiObject]:
    return [make_node(name, cpu=cpu) for name in names]


class Case(NamedTuple):
    objects: list[ApiObject]
    pod: Pod
    nominated: str | None
    victims: list[str] = []
    message: str = ""


def at(hour: int) -> str:
    return f"2026-05-01T{hour:02}:00:00Z"


CASES = {
    "there is only a pod of the same priority": Case(
        [*nodes("a"), running("p", "a", priority=HIGH)],
        preemptor(),
        "",
        message="preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
    ),
    "no node could be helped": Case(
        [make_node("a", cpu="4", taints=["x=y:NoSchedule"])],
        preemptor(),
        "",
        message="preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    ),
    "two nodes are too small even when emptied, two are out of the question": Case(
        [
            *nodes("a", "b"),
            *(make_node(name, cpu="4", taints=["x=y:NoSchedule"]) for name in "cd"),
            *(running(f"low-{name}", name, cpu="1") for name in "ab"),
            *(running(f"peer-{name}", name, cpu="2", priority=HIGH) for name in "ab"),
        ],
        preemptor("3"),
        "",
        message="preemption: 0/4 nodes are available: "
        "2 Insufficient cpu, 2 Preemption is not helpful for scheduling.",
    ),
    "the pod may not preempt": Case(
        [*nodes("a"), running("p", "a")],
        preemptor(preemption_policy="Never"),
        None,
        message="preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "the more important pod is the one in the way": Case(
        [
            *nodes("a"),
            running("low", "a", cpu="1", priority=LOW),
            running("mid", "a", cpu="3", priority=MID),
        ],
        preemptor("3"),
        "a",
        ["mid"],
    ),
    "both pods of a budget that allows one disruption must go": Case(
        [
            *nodes("a", "b"),
            make_pdb("one", selector={"app": "x"}, disruptions_allowed=1),
            running("p1", "a", cpu="2", labels={"app": "x"}),
            running("p2", "a", cpu="2", labels={"app": "x"}),
            running("mid", "b", cpu="4", priority=MID),
        ],
        preemptor(),
        "b",
        ["mid"],
    ),
    "the budget has counted one of them already": Case(
        [
            *nodes("a", "b"),
            make_pdb("x", selector={"app": "x"}, disruptions_allowed=1, disrupted_pods={"p1": ""}),
            running("p1", "a", cpu="2", labels={"app": "x"}),
            running("p2", "a", cpu="2", labels={"app": "x"}),
            running("mid", "b", cpu="4", priority=MID),
        ],
        preemptor(),
        "a",
        ["p1", "p2"],
    ),
    "pods that a budget protects are spared before others": Case(
        [
            *nodes("a"),
            make_pdb("x", selector={"app": "x"}, disruptions_allowed=0),
            running("protected", "a", cpu="2", labels={"app": "x"}, priority=LOW),
            running("free", "a", cpu="2", priority=MID),
        ],
        preemptor("2"),
        "a",
        ["free"],
    ),
    "one violation each, then the lower top priority decides": Case(
        [
            *nodes("n1", "n2"),
            make_pdb("x", selector={"app": "x"}, disruptions_allowed=0),
            running("high-1", "n1", cpu="2", priority=500),
            running("low-1", "n1", cpu="2", priority=LOW, labels={"app": "x"}),
            running("mid-2", "n2", cpu="4", priority=MID, labels={"app": "x"}),
        ],
        preemptor(),
        "n2",
        ["mid-2"],
    ),
    "equal but for the start times of the top victims": Case(
        [
            *nodes("n1", "n2", "n3"),
            running("a1", "n1", cpu="2", priority=MID, start_time=at(2)),
            running("a2", "n1", cpu="2", priority=MID, start_time=at(9)),
            running("b1", "n2", cpu="2", priority=MID, start_time=at(1)),
            running("b2", "n2", cpu="2", priority=MID, start_time=at(9)),
            running("c1", "n3", cpu="2", priority=MID, start_time=at(3)),
            running("c2", "n3", cpu="2", priority=MID, start_time=at(4)),
        ],
        preemptor(),
        "n3",
        ["c1", "c2"],
    ),
    "negative priorities still count": Case(
        [
            *nodes("n1", "n2"),
            running("mid-1", "n1", cpu="2", priority=MID),
            running("neg-1", "n1", cpu="1", priority=-10),
            running("neg-2", "n1", cpu="1", priority=-10),
            running("mid-2", "n2", cpu="2", priority=MID),
            running("neg-3", "n2", cpu="2", priority=-10),
        ],
        preemptor(),
        "n2",
        ["mid-2", "neg-3"],
    ),
    "a lower top priority outweighs fewer victims": Case(
        [
            *nodes("n1", "n2"),
            running("mid", "n1", cpu="4", priority=MID),
            running("low-1", "n2", cpu="2"),
            running("low-2", "n2", cpu="2"),
        ],
        preemptor(),
        "n2",
        ["low-1", "low-2"],
    ),
    "who started first is spared": Case(
        [
            *nodes("a"),
            running("young", "a", cpu="2", start_time=at(5)),
            running("old", "a", cpu="2", start_time=at(1)),
        ],
        preemptor("2"),
        "a",
        ["young"],
    ),
    "a victim of preemption is going on the nominated node": Case(
        [*nodes("a", "b"), running("going", "a", deletion_timestamp=GOING, conditions=[PREEMPTED])],
        preemptor("5", nominated_node_name="a"),
        "",
        message="preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_preemption(case: Case) -> None:
    async def scenario() -> None:
        harness = PreemptionHarness([*case.objects, case.pod])
        result = harness.preempt(case.pod)
        assert result.status.message == case.message
        assert nominated_to(result) == case.nominated
        assert sorted(await harness.evicted()) == case.victims

    run(scenario)


# -- eligibility -----------------------------------------------------------------------

TERMINATING = "preemption: not eligible due to a terminating pod on the nominated node."
OTHER_REASON = PodCondition(type="DisruptionTarget", status="True", reason="DeletionByTaintManager")
TAKEN_BACK = PodCondition(type="DisruptionTarget", status="False", reason="PreemptionByScheduler")


class Nominated(NamedTuple):
    """A pod that is nominated to `a`, the state of the pod there, and of the node."""

    resident: Pod
    status: Status | None
    eligible: bool


ELIGIBILITY = {
    "a victim terminates by preemption": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[PREEMPTED]), NO_ROOM, False
    ),
    "a victim terminates for another reason": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[OTHER_REASON]), NO_ROOM, True
    ),
    "a victim terminates without any condition": Nominated(
        running("p", "a", deletion_timestamp=GOING), NO_ROOM, True
    ),
    "the preemption was taken back": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[TAKEN_BACK]), NO_ROOM, True
    ),
    "only the first such condition counts": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[OTHER_REASON, PREEMPTED]),
        NO_ROOM,
        True,
    ),
    "the pod is marked but not terminating": Nominated(
        running("p", "a", conditions=[PREEMPTED]), NO_ROOM, True
    ),
    "a pod of the same priority terminates": Nominated(
        running("p", "a", priority=HIGH, deletion_timestamp=GOING, conditions=[PREEMPTED]),
        NO_ROOM,
        True,
    ),
    "the nominated node is out of the question by now": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[PREEMPTED]), NEVER, True
    ),
    "nothing is known about the nominated node": Nominated(
        running("p", "a", deletion_timestamp=GOING, conditions=[PREEMPTED]), None, True
    ),
}


@pytest.mark.parametrize("case", ELIGIBILITY.values(), ids=ELIGIBILITY)
def test_a_nominated_pod_may_preempt_again(case: Nominated) -> None:
    async def scenario() -> None:
        pod = preemptor(nominated_node_name="a")
        harness = PreemptionHarness([*nodes("a", "b"), case.resident, running("q", "b"), pod])
        harness.diagnose(pod)
        diagnosis = Diagnosis(harness.handle.snapshot.nodes.table.names)
        diagnosis.add_node_status("b", NO_ROOM)
        if case.status is not None:
            diagnosis.add_node_status("a", case.status)
        result = harness.preempt(pod, diagnosis)
        if case.eligible:
            assert result.status.is_success
        else:
            assert result.status.message == TERMINATING
            assert nominated_to(result) is None
        await harness.evicted()

    run(scenario)


def test_a_deleted_nominated_node_does_not_prevent_preemption() -> None:
    async def scenario() -> None:
        pod = preemptor(nominated_node_name="gone")
        harness = PreemptionHarness([*nodes("a"), running("p", "a"), pod])
        assert nominated_to(harness.preempt(pod)) == "a"
        assert await harness.evicted() == ["p"]

    run(scenario)


def test_a_deleted_preemptor_is_an_error() -> None:
    async def scenario() -> None:
        harness = PreemptionHarness([*nodes("a"), running("p", "a")])
        result = harness.preempt(preemptor())
        assert result.status.code.label == "Error"
        assert result.status.message == 'preemption: pod "preemptor" not found'
        assert nominated_to(result) is None

    run(scenario)


def test_a_cluster_without_nodes_is_an_error() -> None:
    async def scenario() -> None:
        harness = PreemptionHarness([preemptor()])
        result = harness.preempt(preemptor(), Diagnosis())
        assert (result.status.code.label, result.status.message) == (
            "Error",
            "preemption: no nodes available",
        )

    run(scenario)


def test_every_attempt_is_counted_and_victims_when_they_are_chosen() -> None:
    async def scenario() -> None:
        pod = preemptor()
        meek = make_pod("meek", requests={"cpu": "4"}, preemption_policy="Never")
        harness = PreemptionHarness(
            [*nodes("a"), running("p1", "a", "2"), running("p2", "a", "2"), pod, meek]
        )
        harness.preempt(meek)
        harness.preempt(pod)
        await harness.evicted()
        metrics = harness.handle.metrics
        assert metrics.preemption_attempts_total.value == 2
        assert (metrics.preemption_victims.count, metrics.preemption_victims.sum) == (1, 2)

    run(scenario)


# -- hooks that fail -------------------------------------------------------------------


def failing_on(*names: str) -> Any:
    """Return a plugin whose RemovePod fails on these nodes."""

    def remove_pod(state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return Status.failure(f"oh no, {node.name}") if node.name in names else SUCCESS

    return plugin_class(
        "Broken",
        pre_filter=lambda *_: SUCCESS,
        add_pod=lambda *_: SUCCESS,
        remove_pod=remove_pod,
    )


def test_a_hook_that_fails_on_the_only_node_is_an_error() -> None:
    async def scenario() -> None:
        pod = preemptor()
        harness = PreemptionHarness([*nodes("a"), running("p", "a"), pod], failing_on("a"))
        result = harness.preempt(pod)
        assert result.status.code.label == "Error"
        assert (
            result.status.message
            == 'preemption: running RemovePod on PreFilter plugin "Broken": oh no, a'
        )
        assert nominated_to(result) is None

    run(scenario)


def test_the_message_does_not_depend_on_where_the_search_begins() -> None:
    """Seed 304: its condition was written again after every attempt, endlessly."""

    async def scenario() -> None:
        pod = preemptor()
        names = "abcdef"
        there = [running(f"p-{name}", name) for name in names]
        harness = PreemptionHarness([*nodes(*names), *there, pod], failing_on(*names))
        broken = 'running RemovePod on PreFilter plugin "Broken": oh no, '
        told = {harness.preempt(pod).status.message for _ in range(20)}
        assert told == {f"preemption: [{', '.join(broken + name for name in names)}]"}

    run(scenario)


def test_a_hook_that_fails_on_one_node_does_not_exclude_other_nodes() -> None:
    async def scenario() -> None:
        pod = preemptor()
        objects = [*nodes("a", "b"), running("p", "a"), running("q", "b"), pod]
        harness = PreemptionHarness(objects, failing_on("a"))
        assert nominated_to(harness.preempt(pod)) == "b"
        assert await harness.evicted() == ["q"]

    run(scenario)


# -- how many candidates ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "percentage", "absolute", "want"),
    [
        (0, 10, 100, 0),
        (5, 10, 100, 5),
        (5, 40, 1, 2),
        (5, 40, 2, 2),
        (5, 40, 3, 3),
        (99, 10, 1, 9),
        (5000, 10, 100, 500),
        (500, 10, 100, 100),
        (500, 100, 0, 500),
    ],
)
def test_number_of_candidates(count: int, percentage: int, absolute: int, want: int) -> None:
    assert calculate_num_candidates(count, percentage, absolute) == want


def search(harness: PreemptionHarness, pod: Pod, offset: int, wanted: int) -> list[str]:
    """Return the candidates in order, if the search starts at the offset."""
    harness.diagnose(pod)
    handle = harness.framework
    budgets = BudgetReader(handle.lister(PodDisruptionBudget)).read()
    columns = PodColumns(handle.snapshot.nodes.table)
    dry_run = CandidateSearch(handle, harness.state, PodInfo(pod), columns, budgets)
    found = dry_run.search(np.roll(handle.snapshot.order, -offset), wanted).candidates
    return [found[number].node_name for number in range(len(found))]


FIVE = ("n1", "n2", "n3", "n4", "n5")


def test_the_search_stops_when_there_are_enough_candidates() -> None:
    async def scenario() -> None:
        pod = preemptor()
        harness = PreemptionHarness([*nodes(*FIVE), *(running(f"on-{n}", n) for n in FIVE), pod])
        assert search(harness, pod, offset=4, wanted=2) == ["n5", "n1"]

    run(scenario)


def test_the_search_continues_until_a_candidate_violates_no_budget() -> None:
    async def scenario() -> None:
        pod = preemptor()
        protected = {"n5", "n1", "n2"}
        pods = [running(f"on-{n}", n, labels={"app": "x" if n in protected else "y"}) for n in FIVE]
        budget = make_pdb("x", selector={"app": "x"}, disruptions_allowed=0)
        harness = PreemptionHarness([*nodes(*FIVE), *pods, budget, pod])
        # Node 2 was evaluated, but the list of violating candidates was full.
        assert search(harness, pod, offset=4, wanted=2) == ["n3", "n5", "n1"]

    run(scenario)


def test_the_search_stops_at_the_configured_number_of_candidates() -> None:
    """One of two nodes is evaluated, so the better one is often missed."""

    async def scenario(seed: int) -> str | None:
        pod = preemptor()
        args = DefaultPreemptionArgs(
            min_candidate_nodes_percentage=50, min_candidate_nodes_absolute=1
        )
        worse, better = running("mid", "a", priority=MID), running("low", "b")
        harness = PreemptionHarness([*nodes("a", "b"), worse, better, pod], args=args, seed=seed)
        result = harness.preempt(pod)
        await harness.evicted()
        return nominated_to(result)

    chosen = {run(lambda seed=seed: scenario(seed)) for seed in range(20)}
    assert chosen == {"a", "b"}


def test_filters_run_only_for_nodes_with_potential_victims() -> None:
    asked: list[str] = []

    def note(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        asked.append(node.name)
        return SUCCESS

    async def scenario() -> None:
        pod = preemptor()
        peers = [running("peer-a", "a", priority=HIGH), running("peer-c", "c", priority=HIGH)]
        harness = PreemptionHarness(
            [*nodes("a", "b", "c"), *peers, running("low", "b"), pod],
            plugin_class("Noting", filter=note),
        )
        diagnosis = harness.diagnose(pod)
        asked.clear()
        assert nominated_to(harness.preempt(pod, diagnosis)) == "b"
        assert set(asked) == {"b"}

    run(scenario)
