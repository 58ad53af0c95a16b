"""PreEnqueue gating (docs/reference/03 §4)."""

from __future__ import annotations

import logging

import pytest

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import SUCCESS, ActionType, ClusterEvent, Plugin, QueueingHint, Status
from kubesched.scheduler.backend.queue import QueueName, QueueProfile, RegisteredHint
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import (
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    PROFILE,
    START_NS,
    Gate,
    QueueHarness,
    always_queue,
    always_skip,
    by_priority,
)

GATES_ELIMINATED = ClusterEvent("Pod", ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)


class SchedulingGates(Plugin):
    """The rule of the in-tree plugin, which this folder may not import."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status:
        return Status.unresolvable("waiting") if pod.spec.scheduling_gates else SUCCESS


def is_own_update(pod: Pod, old: object, new: object) -> QueueingHint:
    own = isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid
    return QueueingHint.QUEUE if own else QueueingHint.SKIP


def gates_harness() -> QueueHarness:
    hint = RegisteredHint(GATES_ELIMINATED, "SchedulingGates", is_own_update)
    return QueueHarness(
        [hint, RegisteredHint(NODE_ADD, "Other", always_queue)], [SchedulingGates()]
    )


def test_a_pod_stays_out_until_its_last_gate_is_removed() -> None:
    harness = gates_harness()
    both = make_pod("p", gates=["g1", "g2"])
    harness.add(both)
    assert harness.place("p") == "gated"
    assert harness.woken == 0
    one = make_pod("p", gates=["g2"])
    harness.update(both, one)
    assert harness.place("p") == "gated"
    harness.wait(100)
    harness.update(one, make_pod("p"))
    assert harness.place("p") == "active"
    assert harness.woken == 1
    queued = harness.pop()
    assert queued.attempts == 1
    assert queued.initial_attempt_timestamp_ns == START_NS + 100 * SECOND
    assert queued.timestamp_ns == START_NS


def test_an_event_that_the_gate_did_not_register_calls_no_hint() -> None:
    gate = Gate(closed_for={"p"})
    harness = QueueHarness(
        [RegisteredHint(NODE_LABEL, "Gate"), RegisteredHint(NODE_ADD, "A", always_queue)], [gate]
    )
    harness.add(make_pod("p"))
    gate.asked.clear()
    assert harness.move(NODE_ADD) == 0
    assert gate.asked == []


def test_an_event_of_the_gate_lets_in_a_pod_that_passes() -> None:
    gate = Gate(closed_for={"p"})
    harness = QueueHarness([RegisteredHint(NODE_ADD, "Gate", always_queue)], [gate])
    harness.add(make_pod("p"))
    gate.closed_for.clear()
    assert harness.move(NODE_ADD) == 1
    assert harness.place("p") == "active"
    assert harness.pending() == {"active": 1}


def test_an_event_of_the_gate_in_another_profile_passes_the_gate() -> None:
    """The gate's events are merged over profiles; the hints are those of the pod's own."""
    gate = Gate(closed_for={"p"})
    own = QueueProfile(PROFILE, by_priority, [gate], [RegisteredHint(NODE_ADD, "A", always_queue)])
    other = QueueProfile("other", by_priority, [gate], [RegisteredHint(NODE_ADD, "Gate")])
    harness = QueueHarness(profiles={PROFILE: own, "other": other})
    harness.add(make_pod("p"))
    queued = harness.queue.get_pod("p", "default")
    assert queued is not None
    assert queued.gating_events == (NODE_ADD,)
    gate.closed_for.clear()
    assert harness.move(NODE_ADD) == 0  # Gate registered nothing in the pod's own profile
    queued.unschedulable_plugins |= {"A"}
    assert harness.move(NODE_ADD) == 1


def test_other_rejectors_may_open_what_the_gate_lets_through() -> None:
    """The gating plugin's own hint always skips; another rejector's hint requeues the pod."""
    gate = Gate(closed_for=())
    harness = QueueHarness(
        [
            RegisteredHint(POD_DELETE, "Gate", always_skip),
            RegisteredHint(POD_DELETE, "Fit", always_queue),
        ],
        [gate],
    )
    pod = make_pod("p")
    harness.add_failed(pod, "Fit")
    gate.closed_for.add("p")
    harness.move(POD_DELETE)
    assert harness.place("p") == "gated"
    harness.move(POD_DELETE)
    assert harness.place("p") == "gated"
    gate.closed_for.clear()
    harness.wait(5)
    assert harness.move(POD_DELETE) == 1
    assert harness.place("p") == "active"


def test_a_pod_that_stays_gated_counts_as_added_again() -> None:
    harness = QueueHarness([RegisteredHint(NODE_ADD, "Gate")], [Gate(closed_for={"p"})])
    harness.add(make_pod("p"))
    for _ in range(3):
        assert harness.move(NODE_ADD) == 0
    assert harness.incoming() == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("unschedulable", "NodeAdd"): 3,
    }
    assert harness.pending() == {"gated": 1}


def test_activation_does_not_open_a_gate() -> None:
    harness = QueueHarness([], [Gate(closed_for={"p"})])
    pod = make_pod("p")
    harness.add(pod)
    harness.activate(pod)
    assert harness.place("p") == "gated"
    assert harness.woken == 0


def test_only_a_flush_calls_the_gates_again() -> None:
    gate = Gate(closed_for={"p"})
    harness = QueueHarness([], [gate])
    harness.add(make_pod("p"))
    queued = harness.queue.get_pod("p", "default")
    assert queued is not None
    harness.wait(301)
    assert harness.queue.flush_unschedulable(harness.now_ns) == 0
    assert harness.place("p") == "gated"
    assert not queued.was_flushed_from_unschedulable
    assert queued.flush_timestamp_ns == harness.now_ns
    gate.closed_for.clear()
    harness.wait(300)
    harness.queue.flush_unschedulable(harness.now_ns)
    assert harness.place("p") == "gated"
    harness.wait(1e-9)
    assert harness.queue.flush_unschedulable(harness.now_ns) == 1
    assert harness.place("p") == "active"


def test_each_plugin_that_gated_a_pod_is_counted_once() -> None:
    first, second = Gate("X", {"p"}), Gate("Y", {"p"})
    harness = QueueHarness(
        [RegisteredHint(NODE_ADD, "X"), RegisteredHint(NODE_ADD, "Y")], [first, second]
    )
    harness.add(make_pod("p"))
    harness.move(NODE_ADD)
    assert harness.rejections() == {"X": 1}
    first.closed_for.clear()
    harness.move(NODE_ADD)
    harness.move(NODE_ADD)
    assert harness.rejections() == {"X": 1, "Y": 1}
    second.closed_for.clear()
    harness.move(NODE_ADD)
    harness.pop()
    assert harness.rejections() == {"X": 0, "Y": 0}


def test_the_plugin_that_gates_a_pod_is_called_first_and_alone() -> None:
    first, second = Gate("X"), Gate("Y", {"p"})
    harness = QueueHarness([RegisteredHint(NODE_ADD, "Y")], [first, second])
    harness.add(make_pod("p"))
    assert (first.asked, second.asked) == (["p"], ["p"])
    harness.move(NODE_ADD)
    assert (first.asked, second.asked) == (["p"], ["p", "p"])
    second.closed_for.clear()
    harness.move(NODE_ADD)
    assert (first.asked, second.asked) == (["p", "p"], ["p", "p", "p"])


def test_a_rejected_pod_may_be_gated_on_its_way_to_backoff() -> None:
    gate = Gate()
    harness = QueueHarness([RegisteredHint(NODE_ADD, "A")], [gate])
    harness.add_failed(make_pod("p"), "A")
    gate.closed_for.add("p")
    assert harness.move(NODE_ADD) == 0
    assert harness.pending() == {"gated": 1}
    assert harness.rejections() == {"A": 1, "Gate": 1}


def test_backoff_ends_without_calling_the_gates_again() -> None:
    gate = Gate()
    harness = QueueHarness([RegisteredHint(NODE_ADD, "A")], [gate])
    harness.add_failed(make_pod("p"), "A")
    harness.move(NODE_ADD)
    assert harness.place("p") == "backoff"
    gate.closed_for.add("p")
    harness.wait(2)
    assert harness.queue.flush_backoff(harness.now_ns) == 1
    assert harness.place("p") == "active"


def test_a_failed_pod_is_parked_without_calling_the_gates() -> None:
    gate = Gate()
    harness = QueueHarness([], [gate])
    harness.add(make_pod("p"))
    gate.closed_for.add("p")
    gate.asked.clear()
    assert harness.fail(harness.pop(), "A") is QueueName.UNSCHEDULABLE
    assert gate.asked == []
    assert harness.place("p") == "unschedulable"


def test_a_pod_whose_gate_raises_is_not_queued(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Gate):
        def pre_enqueue(self, pod: Pod) -> Status:
            raise ValueError("no lister")

    harness = QueueHarness([], [Broken()])
    with caplog.at_level(logging.ERROR, "kubesched"):
        harness.add(make_pod("p"))
    assert harness.place("p") == "gated"
    assert "Unexpected error running PreEnqueue plugin" in caplog.text
    assert "no lister" in caplog.text


def test_a_gated_pods_nomination_is_registered_when_its_gates_are_removed() -> None:
    """Only a plain add and a label update register it, not more specific updates."""
    harness = gates_harness()
    gated = make_pod("p", gates=["g"], nominated_node_name="n")
    harness.add(gated)
    assert not harness.queue.nominator.nominated_nodes()
    harness.update(gated, make_pod("p", nominated_node_name="n"))
    assert list(harness.queue.nominator.nominated_nodes()) == ["n"]  # by the update itself


def test_a_gated_new_pod_does_not_replace_a_ready_pod() -> None:
    gate = Gate()
    harness = QueueHarness([], [gate])
    harness.add(make_pod("p", uid="1"))
    gate.closed_for.add("p")
    harness.add(make_pod("p", uid="2"))
    assert [pod.metadata.uid for pod in harness.queue.active_pods] == ["1"]
    harness.queue.check_invariants()


def test_the_time_of_gates_is_reported_when_there_is_a_clock() -> None:
    ticks = iter(range(0, 10**9, 1000))
    harness = QueueHarness([], [Gate(closed_for={"p"})], monotonic_ns=lambda: next(ticks))
    for number in range(200):
        harness.add(make_pod(f"p{number}"))
    harness.add(make_pod("p"))
    durations = harness.metrics.framework_extension_point_duration_seconds
    points = {tuple(labels.values()): histogram.count for labels, histogram in durations.children()}
    assert points == {("PreEnqueue", "Success", PROFILE): 201}
    sampled = sum(
        histogram.count
        for _, histogram in harness.metrics.plugin_execution_duration_seconds.children()
    )
    assert 5 <= sampled <= 45  # a tenth of the runs
