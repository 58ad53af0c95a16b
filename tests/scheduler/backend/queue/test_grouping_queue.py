"""A queue whose pods may belong together (docs/reference/09 §5, §18.2)."""

from __future__ import annotations

import pytest

from kubesched.api import Pod
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.testing import make_pod
from tests.scheduler.backend.queue.queue_harness import NODE_ADD, Gate, QueueHarness
from tests.scheduler.backend.queue.test_scheduling_queue import a_hears
from tests.scheduler.pod_groups.group_harness import member


class GroupQueueHarness(QueueHarness):
    """The harness with a queue for pod groups."""

    kind = GroupingQueue

    def pop_specific(self, pod: Pod) -> QueuedPodInfo | None:
        assert isinstance(self.queue, GroupingQueue)
        return self.queue.pop_specific(pod, self.now_ns)


@pytest.mark.parametrize("place", ["active", "backoff", "error backoff", "unschedulable"])
def test_a_waiting_member_is_found_in_every_queue(place: str) -> None:
    harness = GroupQueueHarness(a_hears(NODE_ADD))
    pod = member("p")
    harness.add(pod)
    attempts = 1
    if place != "active":
        attempts = 2
        queued = harness.pop()
        if place == "unschedulable":
            harness.queue.done(pod.metadata.uid)
            harness.add_failed(make_pod("p"), "A")  # not of a group: it is parked
        else:
            harness.fail(queued, *([] if place == "error backoff" else ["A"]))
    assert harness.place("p") == place
    queued = harness.pop_specific(pod)
    assert queued is not None
    assert queued.attempts == attempts
    assert harness.place("p") == "in flight"
    forced = harness.incoming().get(("active", "ForceActivate"), 0)
    assert forced == (place != "active")
    harness.queue.check_invariants()


def test_gated_in_flight_and_unknown_pods_are_not_returned() -> None:
    harness = GroupQueueHarness(gates=[Gate("Gate", ["gated"])])
    gated, flying = member("gated"), member("flying")
    harness.add(gated, flying)
    assert harness.pop_name() == "flying"
    for pod in (gated, flying, member("unknown")):
        assert harness.pop_specific(pod) is None
    assert harness.place("gated") == "gated"
    harness.queue.check_invariants()


def test_a_member_that_a_plugin_rejected_backs_off_whether_or_not_something_happened() -> None:
    for happened in (True, False):
        harness = GroupQueueHarness(a_hears(NODE_ADD))
        harness.add(member("p"))
        queued = harness.pop()
        if happened:
            harness.move(NODE_ADD)
        harness.fail(queued, "A")
        assert harness.place("p") == "backoff"


def test_a_member_that_others_held_up_backs_off_as_after_an_error() -> None:
    harness = GroupQueueHarness()
    harness.add(member("p"))
    queued = harness.pop()
    harness.fail(queued)
    assert harness.place("p") == "error backoff"
    assert queued.consecutive_errors_count == 1


def test_a_member_completes_its_backoff_and_the_other_members_leave_it() -> None:
    harness = GroupQueueHarness(a_hears(NODE_ADD))
    harness.add_failed(member("p"), "A")
    assert harness.pop_name() is None
    harness.wait(2)
    assert harness.queue.flush_backoff(harness.now_ns) == 1
    assert harness.pop_name() == "p"
    harness.add_failed(make_pod("plain"), "A")
    harness.move(NODE_ADD)
    assert harness.pop_name() == "plain"
