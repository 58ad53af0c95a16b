"""The printed view of a pod in the queue."""

from __future__ import annotations

import pytest

from kubesched.foundation.util.clock import SECOND
from kubesched.framework import ActionType, ClusterEvent
from kubesched.scheduler.backend.queue import Place, PodPlace, RegisteredHint
from kubesched.scheduler.backend.queue.view import awaited_labels
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_DELETE,
    START_NS,
    Gate,
    QueueHarness,
)


def look(harness: QueueHarness, key: str = "default/p") -> PodPlace:
    place = harness.queue.describe(key, harness.now_ns)
    assert place is not None
    return place


def test_a_pod_that_waits_for_an_event() -> None:
    harness = QueueHarness(
        [
            RegisteredHint(NODE_ADD, "A"),
            RegisteredHint(NODE_LABEL, "B"),
            RegisteredHint(POD_DELETE, "C"),
        ]
    )
    harness.add(make_pod("p", nominated_node_name="n"))
    harness.wait(3)
    queued = harness.pop()
    harness.wait(0.5)
    harness.fail(queued, "B", pending=["A"])
    seen = look(harness)
    assert seen.place is Place.UNSCHEDULABLE
    assert seen.since_ns == START_NS + 3_500_000_000
    assert seen.attempts == 1
    assert seen.first_attempted_ns == START_NS
    assert seen.rejected_by == ("A", "B")
    assert seen.pending_on == ("A",)
    assert seen.waits_for == ("NodeAdd", "NodeUpdateNodeLabel")
    assert seen.backing_off_until_ns == START_NS + 5 * SECOND
    assert seen.flushed_after_ns == START_NS + 303_500_000_000
    assert seen.nominated_to == "n"
    assert [entry.cause for entry in seen.transitions] == [
        "UnschedulablePodAdd",
        "pop",
        "ScheduleAttemptFailure",
    ]


def test_a_pod_that_backs_off_and_then_is_ready() -> None:
    harness = QueueHarness([RegisteredHint(NODE_ADD, "A")])
    harness.add_failed(make_pod("p"), "A")
    harness.move(NODE_ADD)
    seen = look(harness)
    assert (seen.place, seen.waits_for) == (Place.BACKOFF, ())
    freed_ns = seen.backing_off_until_ns
    assert freed_ns == START_NS + 2 * SECOND
    assert harness.queue.flush_backoff(freed_ns - 1) == 0
    assert harness.queue.flush_backoff(freed_ns) == 1
    seen = look(harness)
    assert (seen.place, seen.since_ns) == (Place.ACTIVE, freed_ns)
    assert seen.backing_off_until_ns is None


def test_a_gated_pod_waits_for_what_its_gate_registered() -> None:
    harness = QueueHarness([RegisteredHint(NODE_TAINT, "Gate")], [Gate(closed_for={"p"})])
    harness.add(make_pod("p"))
    seen = look(harness)
    assert (seen.place, seen.gated_by) == (Place.GATED, "Gate")
    assert seen.waits_for == ("NodeUpdateNodeTaint",)
    assert seen.first_attempted_ns is None


def test_a_pod_in_flight_is_found_by_key_and_by_uid() -> None:
    harness = QueueHarness()
    harness.add(make_pod("p", uid="1"))
    harness.wait(1)
    harness.pop()
    for name in ("default/p", "1"):
        seen = look(harness, name)
        assert (seen.place, seen.since_ns) == (Place.IN_FLIGHT, START_NS + SECOND)


def test_a_waiting_pod_is_found_by_uid() -> None:
    harness = QueueHarness()
    harness.add(make_pod("p", uid="1"), make_pod("q", uid="2"))
    assert look(harness, "2").pod.metadata.name == "q"


def test_of_two_pods_with_one_key_the_waiting_one_is_described() -> None:
    harness = QueueHarness()
    harness.add(make_pod("p", uid="1"))
    harness.pop()
    harness.add(make_pod("p", uid="2"))
    assert look(harness).pod.metadata.uid == "2"
    assert look(harness, "1").place is Place.IN_FLIGHT


def test_an_unknown_pod_has_no_place() -> None:
    assert QueueHarness().queue.describe("default/p", 0) is None


def test_a_queue_transition_prints_as_a_line() -> None:
    harness = QueueHarness()
    harness.add(make_pod("p"))
    (entry,) = look(harness).transitions
    assert str(entry) == "1700000000.000000000 default/p -> active (UnschedulablePodAdd)"


ACTION = ActionType


@pytest.mark.parametrize(
    ("action", "want"),
    [
        (ACTION.ADD, ("NodeAdd",)),
        (ACTION.ADD | ACTION.UPDATE_NODE_TAINT, ("NodeAdd", "NodeUpdateNodeTaint")),
        (ACTION.UPDATE, ("NodeUpdate",)),
        (ACTION.ALL, ("NodeAdd", "NodeDelete", "NodeUpdate")),
    ],
)
def test_registered_actions_are_spelled_out(action: ActionType, want: tuple[str, ...]) -> None:
    event = ClusterEvent("Node", action)
    assert awaited_labels([event, event]) == want
