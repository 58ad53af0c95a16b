"""DefaultPreemption as the framework uses it: gate, events, arguments, contract."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubesched.api import PodCondition
from kubesched.framework import (
    SUCCESS,
    Nominating,
    NominatingMode,
    PodInfo,
    QueueingHint,
    Status,
)
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.plugins.default_preemption import DefaultPreemption
from kubesched.testing import FakeHandle, check_plugin, make_node, make_pod
from tests.scheduler.plugins.default_preemption.preemption_fixture import PreemptionHarness, run

NODE = make_node("a", cpu="4")
VICTIM = make_pod("victim", node_name="a", requests={"cpu": "4"})
PREEMPTOR = make_pod("preemptor", requests={"cpu": "4"}, priority=10)
GATED = Status.unresolvable("waiting for the preemption for this pod to be finished")


def test_a_preemptor_is_not_queued_while_its_victims_are_evicted() -> None:
    async def scenario() -> None:
        harness = PreemptionHarness([NODE, VICTIM, PREEMPTOR])
        assert harness.plugin.pre_enqueue(PREEMPTOR) == SUCCESS
        harness.preempt(PREEMPTOR)
        assert harness.plugin.pre_enqueue(PREEMPTOR) == GATED
        assert harness.plugin.pre_enqueue(make_pod("another")) == SUCCESS
        assert await harness.evicted() == ["victim"]
        assert harness.plugin.pre_enqueue(PREEMPTOR) == SUCCESS

    run(scenario)


def test_without_asynchronous_preemption_no_pod_is_gated() -> None:
    async def scenario() -> None:
        gates = {"SchedulerAsyncPreemption": False}
        harness = PreemptionHarness([NODE, VICTIM, PREEMPTOR], feature_gates=gates)
        harness.preempt(PREEMPTOR)
        assert harness.plugin.pre_enqueue(PREEMPTOR) == SUCCESS
        assert await harness.evicted() == ["victim"]
        assert harness.plugin.events_to_register() == ()

    run(scenario)


def test_a_deleted_pod_that_is_no_victim_is_skipped() -> None:
    (registered,) = DefaultPreemption(None, FakeHandle()).events_to_register()
    assert registered.event.label == "PodDelete"
    assert registered.hint is not None
    assert registered.hint(PREEMPTOR, VICTIM, None) is QueueingHint.SKIP


@pytest.mark.parametrize(
    ("nominated_to", "is_told", "want"),
    [
        ("n", True, QueueingHint.QUEUE),
        ("other", True, QueueingHint.SKIP),
        ("n", False, QueueingHint.SKIP),
    ],
)
def test_a_gated_pod_is_requeued_when_a_victim_is_deleted(
    nominated_to: str, is_told: bool, want: QueueingHint
) -> None:
    """Seed 600000001872: the pod with the port ended while the gate was closed."""
    handle = FakeHandle([PREEMPTOR])
    nominating = Nominating(NominatingMode.OVERRIDE, nominated_to)
    handle.nominator.add_nominated_pod(PodInfo(PREEMPTOR), nominating)
    mark = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    victim = make_pod("victim", node_name="n")
    if is_told:
        victim = replace(victim, status=replace(victim.status, conditions=(mark,)))
    (registered,) = DefaultPreemption(None, handle).events_to_register()
    assert registered.hint is not None
    assert registered.hint(PREEMPTOR, victim, None) is want


def test_arguments_have_the_defaults_of_the_reference() -> None:
    args = DefaultPreemption().args
    assert isinstance(args, DefaultPreemptionArgs)
    assert (args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute) == (10, 100)


def test_the_contract_of_plugins() -> None:
    check_plugin(DefaultPreemption)
