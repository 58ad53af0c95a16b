"""What people see of a pod in the queue."""

from __future__ import annotations

import pytest

from kubesched.foundation.util.clock import SECOND
from kubesched.framework import ActionType, ClusterEvent
from kubesched.scheduler.backend.queue import Place, PodPlace, RegisteredHint
from kubesched.scheduler.backend.queue.view import awaited_labels
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_world import (
    NODE_ADD,
    NODE_LABEL,
    NODE_TAINT,
    POD_DELETE,
    START_NS,
    Gate,
    QueueWorld,
)


def look(world: QueueWorld, key: str = "default/p") -> PodPlace:
    place = world.queue.describe(key, world.now_ns)
    assert place is not None
    return place


def test_a_pod_that_waits_for_an_event() -> None:
    world = QueueWorld(
        [
            RegisteredHint(NODE_ADD, "A"),
            RegisteredHint(NODE_LABEL, "B"),
            RegisteredHint(POD_DELETE, "C"),
        ]
    )
    world.add(make_pod("p", nominated_node_name="n"))
    world.wait(3)
    queued = world.pop()
    world.wait(0.5)
    world.fail(queued, "B", pending=["A"])
    seen = look(world)
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
    assert [entry.cause for entry in seen.story] == [
        "UnschedulablePodAdd",
        "pop",
        "ScheduleAttemptFailure",
    ]


def test_a_pod_that_backs_off_and_then_is_ready() -> None:
    world = QueueWorld([RegisteredHint(NODE_ADD, "A")])
    world.add_failed(make_pod("p"), "A")
    world.move(NODE_ADD)
    seen = look(world)
    assert (seen.place, seen.waits_for) == (Place.BACKOFF, ())
    freed_ns = seen.backing_off_until_ns
    assert freed_ns == START_NS + 2 * SECOND
    assert world.queue.flush_backoff(freed_ns - 1) == 0
    assert world.queue.flush_backoff(freed_ns) == 1
    seen = look(world)
    assert (seen.place, seen.since_ns) == (Place.ACTIVE, freed_ns)
    assert seen.backing_off_until_ns is None


def test_a_gated_pod_waits_for_what_its_gate_registered() -> None:
    world = QueueWorld([RegisteredHint(NODE_TAINT, "Gate")], [Gate(closed_for={"p"})])
    world.add(make_pod("p"))
    seen = look(world)
    assert (seen.place, seen.gated_by) == (Place.GATED, "Gate")
    assert seen.waits_for == ("NodeUpdateNodeTaint",)
    assert seen.first_attempted_ns is None


def test_a_pod_in_flight_is_found_by_key_and_by_uid() -> None:
    world = QueueWorld()
    world.add(make_pod("p", uid="1"))
    world.wait(1)
    world.pop()
    for name in ("default/p", "1"):
        seen = look(world, name)
        assert (seen.place, seen.since_ns) == (Place.IN_FLIGHT, START_NS + SECOND)


def test_a_waiting_pod_is_found_by_uid() -> None:
    world = QueueWorld()
    world.add(make_pod("p", uid="1"), make_pod("q", uid="2"))
    assert look(world, "2").pod.metadata.name == "q"


def test_of_two_pods_with_one_key_the_waiting_one_is_meant() -> None:
    world = QueueWorld()
    world.add(make_pod("p", uid="1"))
    world.pop()
    world.add(make_pod("p", uid="2"))
    assert look(world).pod.metadata.uid == "2"
    assert look(world, "1").place is Place.IN_FLIGHT


def test_an_unknown_pod_has_no_place() -> None:
    assert QueueWorld().queue.describe("default/p", 0) is None


def test_a_story_reads_as_lines() -> None:
    world = QueueWorld()
    world.add(make_pod("p"))
    (entry,) = look(world).story
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
