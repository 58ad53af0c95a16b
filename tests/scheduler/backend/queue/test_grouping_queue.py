"""A queue whose pods may belong together (docs/reference/09 §5, §18.2)."""

from __future__ import annotations

import pytest

from kubesched.api import Pod
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.testing import make_pod
from tests.scheduler.backend.queue.queue_world import NODE_ADD, Gate, QueueWorld
from tests.scheduler.backend.queue.test_scheduling_queue import a_hears
from tests.scheduler.pod_groups.group_world import member


class GroupQueueWorld(QueueWorld):
    """The same with a queue that knows groups."""

    kind = GroupingQueue

    def pop_specific(self, pod: Pod) -> QueuedPodInfo | None:
        assert isinstance(self.queue, GroupingQueue)
        return self.queue.pop_specific(pod, self.now_ns)


@pytest.mark.parametrize("place", ["active", "backoff", "error backoff", "unschedulable"])
def test_a_member_is_had_wherever_it_waits(place: str) -> None:
    world = GroupQueueWorld(a_hears(NODE_ADD))
    pod = member("p")
    world.add(pod)
    attempts = 1
    if place != "active":
        attempts = 2
        queued = world.pop()
        if place == "unschedulable":
            world.queue.done(pod.metadata.uid)
            world.add_failed(make_pod("p"), "A")  # not of a group: it is parked
        else:
            world.fail(queued, *([] if place == "error backoff" else ["A"]))
    assert world.place("p") == place
    queued = world.pop_specific(pod)
    assert queued is not None
    assert queued.attempts == attempts
    assert world.place("p") == "in flight"
    forced = world.incoming().get(("active", "ForceActivate"), 0)
    assert forced == (place != "active")
    world.queue.check_invariants()


def test_who_is_gated_in_flight_or_unknown_is_not_had() -> None:
    world = GroupQueueWorld(gates=[Gate("Gate", ["gated"])])
    gated, flying = member("gated"), member("flying")
    world.add(gated, flying)
    assert world.pop_name() == "flying"
    for pod in (gated, flying, member("unknown")):
        assert world.pop_specific(pod) is None
    assert world.place("gated") == "gated"
    world.queue.check_invariants()


def test_a_member_that_a_plugin_rejected_backs_off_whether_or_not_something_happened() -> None:
    for happened in (True, False):
        world = GroupQueueWorld(a_hears(NODE_ADD))
        world.add(member("p"))
        queued = world.pop()
        if happened:
            world.move(NODE_ADD)
        world.fail(queued, "A")
        assert world.place("p") == "backoff"


def test_a_member_that_others_held_up_backs_off_as_after_an_error() -> None:
    world = GroupQueueWorld()
    world.add(member("p"))
    queued = world.pop()
    world.fail(queued)
    assert world.place("p") == "error backoff"
    assert queued.consecutive_errors_count == 1


def test_a_member_serves_its_backoff_and_others_are_taken_out_of_it() -> None:
    world = GroupQueueWorld(a_hears(NODE_ADD))
    world.add_failed(member("p"), "A")
    assert world.pop_name() is None
    world.wait(2)
    assert world.queue.flush_backoff(world.now_ns) == 1
    assert world.pop_name() == "p"
    world.add_failed(make_pod("plain"), "A")
    world.move(NODE_ADD)
    assert world.pop_name() == "plain"
