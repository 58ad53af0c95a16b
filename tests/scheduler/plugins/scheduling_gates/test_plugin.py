"""SchedulingGates: a gated pod does not enter the queue."""

from __future__ import annotations

import pytest

from kubesched.framework import SUCCESS, QueueingHint, Status
from kubesched.framework.causes import SchedulingGated
from kubesched.scheduler.plugins.scheduling_gates import SchedulingGates
from kubesched.testing import check_plugin, make_node, make_pod


def test_a_pod_without_gates_may_enter() -> None:
    assert SchedulingGates().pre_enqueue(make_pod("p")) == SUCCESS


def test_gates_are_listed_in_the_order_of_the_spec() -> None:
    status = SchedulingGates().pre_enqueue(make_pod("p", gates=["foo", "bar"]))
    assert status == Status.unresolvable(
        "waiting for scheduling gates: [foo bar]", causes=(SchedulingGated(("foo", "bar")),)
    )


def test_only_removing_the_pods_own_gates_requeues_it() -> None:
    [registered] = SchedulingGates().events_to_register()
    assert registered.event.label == "PodUpdatePodSchedulingGatesEliminated"
    assert registered.hint is not None
    gated, free = make_pod("p", gates=["foo"]), make_pod("p")
    assert registered.hint(gated, gated, free) is QueueingHint.QUEUE
    assert registered.hint(gated, make_pod("q"), make_pod("q")) is QueueingHint.SKIP


def test_an_object_of_another_kind_is_an_error() -> None:
    [registered] = SchedulingGates().events_to_register()
    assert registered.hint is not None
    with pytest.raises(TypeError, match=r"^expected Pod, but got Node$"):
        registered.hint(make_pod("p"), None, make_node("n"))


def test_contract() -> None:
    check_plugin(SchedulingGates)
