"""The queue's operations, one situation each (docs/reference/03 §5 and §17)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    ActionType,
    ClusterEvent,
    EventResource,
    PodInfo,
    QueuedPodInfo,
    QueueingHint,
)
from kubesched.scheduler.backend.queue import (
    AlreadyQueuedError,
    QueueName,
    QueueProfile,
    RegisteredHint,
    SchedulingQueue,
)
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    START_NS,
    Gate,
    PodListerStub,
    QueueHarness,
    always_queue,
    always_skip,
    by_priority,
)

OWN_TOLERATION = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION)
OWN_SCALE_DOWN = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN)
OWN_LABEL = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_LABEL)


def a_hears(event: ClusterEvent, hint: Any = always_queue) -> list[RegisteredHint]:
    return [RegisteredHint(event, "A", hint)]


class TestOrder:
    def test_by_priority_and_then_by_arrival(self) -> None:
        harness = QueueHarness()
        for name, priority in (("low", 0), ("high", 9), ("mid", 5), ("high too", 9)):
            harness.add(make_pod(name, priority=priority))
            harness.wait(1)
        assert harness.pop_names() == ["high", "high too", "mid", "low"]

    def test_a_failed_pod_is_queued_behind_equal_pods(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add(make_pod("x"))
        failed = harness.pop()
        harness.wait(1)
        harness.add(make_pod("y"))
        harness.wait(1)
        harness.fail(failed, "A")
        harness.wait(3)
        harness.move(NODE_ADD)
        assert harness.place("x") == "active"
        assert harness.pop_names() == ["y", "x"]

    def test_an_update_of_the_priority_reorders(self) -> None:
        harness = QueueHarness()
        low = make_pod("low", priority=0)
        harness.add(make_pod("mid", priority=1), low)
        harness.update(low, make_pod("low", priority=2))
        assert harness.pop_names() == ["low", "mid"]


class TestAdd:
    @pytest.mark.parametrize("place", ["active", "backoff", "error backoff", "unschedulable"])
    def test_a_pod_with_the_same_key_is_replaced_wherever_it_waits(self, place: str) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add(make_pod("p", uid="1"))
        if place != "active":
            harness.fail(harness.pop(), *([] if place == "error backoff" else ["A"]))
        if place == "backoff":
            harness.move(NODE_ADD)
        assert harness.place("p") == place
        harness.add(make_pod("p", uid="2"))
        harness.queue.check_invariants()
        assert harness.pending() == {"active": 1}
        assert harness.pop().pod.metadata.uid == "2"


class TestPop:
    def test_active_pods_then_rejected_ones_in_backoff_never_errored_ones(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add_failed(make_pod("backing off", priority=9), "A")
        harness.move(NODE_ADD)
        harness.add_failed(make_pod("errored", priority=9))
        harness.add_failed(make_pod("parked", priority=9), "B")
        harness.add(make_pod("mid", priority=5))
        assert harness.pop_names() == ["mid", "backing off"]
        assert harness.incoming()["active", "PopFromBackoffQ"] == 1
        assert harness.pending() == {"backoff": 1, "unschedulable": 1}

    def test_without_the_gate_no_pod_leaves_its_backoff_early(self) -> None:
        gate = Gate()
        harness = QueueHarness(a_hears(NODE_ADD), [gate], pops_from_backoff=False)
        harness.add_failed(make_pod("p"), "A")
        gate.asked.clear()
        harness.move(NODE_ADD)
        assert gate.asked == [], "PreEnqueue runs when the pod leaves the backoff queue"
        assert harness.pop_names() == []
        harness.wait(1)
        assert harness.queue.flush_backoff(harness.now_ns) == 0, "the expiry itself still waits"
        harness.wait(0.001)
        assert harness.queue.flush_backoff(harness.now_ns) == 1
        assert gate.asked == ["p"]
        assert harness.pop_names() == ["p"]

    def test_without_the_gate_a_pod_is_gated_when_it_leaves_its_backoff(self) -> None:
        gate = Gate()
        harness = QueueHarness(a_hears(NODE_ADD), [gate], pops_from_backoff=False)
        harness.add_failed(make_pod("p"), "A")
        harness.move(NODE_ADD)
        gate.closed_for.add("p")
        harness.wait(2)
        harness.queue.flush_backoff(harness.now_ns)
        assert harness.place("p") == "gated"
        harness.queue.check_invariants()

    def test_an_errored_pod_is_ready_only_when_its_backoff_was_flushed(self) -> None:
        harness = QueueHarness()
        harness.add(make_pod("p"))
        harness.fail(harness.pop())
        harness.wait(1.999)
        assert harness.queue.flush_backoff(harness.now_ns) == 0
        assert harness.pop_name() is None
        harness.wait(0.001)
        assert harness.queue.flush_backoff(harness.now_ns) == 1
        assert harness.pop_name() == "p"

    def test_the_same_pod_is_not_tried_twice_at_a_time(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        harness = QueueHarness()
        harness.add(make_pod("p", priority=9))
        harness.pop()
        harness.add(make_pod("p", priority=9), make_pod("next"))
        with caplog.at_level(logging.ERROR, "kubesched"):
            assert harness.pop_names() == ["next"]
        assert "the same pod is tracked in multiple places in the scheduler" in caplog.text
        assert "pod=default/p" in caplog.text

    def test_pop_counts_attempts_and_cycles(self) -> None:
        harness = QueueHarness()
        assert harness.queue.scheduling_cycle == 0
        harness.add(make_pod("p"))
        queued = harness.pop()
        harness.fail(queued, "A")
        harness.activate(queued.pod)
        assert harness.pop() is queued
        assert (queued.attempts, harness.queue.scheduling_cycle) == (2, 2)

    def test_close_wakes_the_popper_and_leaves_what_waits(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add(make_pod("flying", priority=9), make_pod("waiting"))
        harness.pop()
        harness.move(NODE_ADD)
        woken = harness.woken
        harness.queue.close()
        assert (harness.woken, harness.queue.is_closed) == (woken + 1, True)
        assert harness.inflight_events() == {}
        assert harness.queue.in_flight_pods == []
        assert harness.pop_names() == ["waiting"]


class TestFailure:
    def test_a_rejected_pod_is_parked(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        queued = harness.add_failed(make_pod("p"), "A")
        assert harness.place("p") == "unschedulable"
        assert (queued.unschedulable_count, queued.consecutive_errors_count) == (1, 0)
        assert harness.queue.in_flight_pods == []

    def test_errors_wait_longer_and_longer_until_a_rejection(self) -> None:
        harness = QueueHarness()
        harness.add(make_pod("p"))
        queued = harness.pop()
        for errors, seconds in ((1, 2), (2, 3)):
            assert harness.fail(queued) is QueueName.BACKOFF
            assert harness.place("p") == "error backoff"
            assert (queued.consecutive_errors_count, queued.unschedulable_count) == (errors, 0)
            harness.wait(seconds)
            harness.queue.flush_backoff(harness.now_ns)
            assert harness.pop() is queued
        harness.fail(queued, "A")
        assert (queued.consecutive_errors_count, queued.unschedulable_count) == (0, 1)

    @pytest.mark.parametrize(
        ("elsewhere", "want"),
        [
            ("unschedulable", "Pod default/p is already present in unschedulable queue"),
            ("active", "Pod default/p is already present in the active queue"),
            ("backoff", "Pod default/p is already present in the backoff queue"),
        ],
    )
    def test_a_failed_pod_is_dropped_if_its_key_already_waits(
        self, elsewhere: str, want: str
    ) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add(make_pod("p", uid="1"))
        failed = harness.pop()
        harness.add(make_pod("p", uid="2"))
        if elsewhere != "active":
            other = harness.pop()
            harness.fail(other, "A")
        if elsewhere == "backoff":
            harness.move(NODE_ADD)
        assert harness.place("p") == elsewhere
        with pytest.raises(AlreadyQueuedError) as raised:
            harness.queue.add_unschedulable_if_not_present(failed, harness.now_ns)
        assert str(raised.value) == want
        assert harness.queue.in_flight_pods == []

    def test_a_pod_that_is_not_in_flight_is_retried(self, caplog: pytest.LogCaptureFixture) -> None:
        harness = QueueHarness()
        harness.add(make_pod("p"))
        queued = harness.pop()
        harness.queue.done(queued.pod.metadata.uid)
        with caplog.at_level(logging.ERROR, "kubesched"):
            assert harness.fail(queued, "A") is QueueName.BACKOFF
        assert "in flight Pod isn't found in the scheduling queue" in caplog.text

    @pytest.mark.parametrize(
        ("pause", "want"), [(0.5, "backoff"), (2, "active")], ids=["soon", "later"]
    )
    def test_backoff_is_computed_when_the_event_arrives(self, pause: float, want: str) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add_failed(make_pod("p"), "A")
        harness.wait(pause)
        assert harness.move(NODE_ADD) == 1
        assert harness.place("p") == want

    def test_without_backoff_a_pod_is_ready_at_once(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD), max_backoff_ns=0, initial_backoff_ns=0)
        harness.add_failed(make_pod("p"), "A")
        harness.move(NODE_ADD)
        assert harness.place("p") == "active"


class Replay(NamedTuple):
    hints: dict[str, Any]  # plugin -> hint on NodeAdd
    want: QueueName
    rejectors: tuple[str, ...] = ("A",)
    pending: tuple[str, ...] = ()
    event: ClusterEvent = NODE_ADD


REPLAYS = {
    "a chance seen in flight is taken": Replay({"A": always_queue}, QueueName.BACKOFF),
    "an event that does not help is not": Replay({"A": always_skip}, QueueName.UNSCHEDULABLE),
    "a pending plugin's chance needs no backoff": Replay(
        {"A": always_queue, "B": always_queue}, QueueName.ACTIVE, ("B",), ("A",)
    ),
    "another plugin's chance does": Replay(
        {"A": always_skip, "B": always_queue}, QueueName.BACKOFF, ("B",), ("A",)
    ),
    "an event that only others registered is not asked about": Replay(
        {"B": always_queue}, QueueName.UNSCHEDULABLE
    ),
    "an event without a registered plugin is not stored": Replay(
        {"A": always_queue}, QueueName.UNSCHEDULABLE, event=NODE_LABEL
    ),
    "after an error the pod is tried again whatever happened": Replay({}, QueueName.BACKOFF, ()),
}


class TestInFlight:
    @pytest.mark.parametrize("case", REPLAYS.values(), ids=REPLAYS)
    def test_events_are_replayed_when_the_attempt_fails(self, case: Replay) -> None:
        harness = QueueHarness(
            [RegisteredHint(NODE_ADD, plugin, hint) for plugin, hint in case.hints.items()]
        )
        harness.add(make_pod("p"))
        queued = harness.pop()
        harness.move(case.event)
        assert harness.fail(queued, *case.rejectors, pending=case.pending) is case.want
        assert harness.inflight_events() == {}

    def test_a_later_chance_without_backoff_wins(self) -> None:
        harness = QueueHarness(
            [
                RegisteredHint(NODE_ADD, "A", always_queue),
                RegisteredHint(NODE_LABEL, "B", always_queue),
            ]
        )
        harness.add(make_pod("p"))
        queued = harness.pop()
        harness.move(NODE_ADD)
        harness.move(NODE_LABEL)
        assert harness.fail(queued, "A", pending=["B"]) is QueueName.ACTIVE

    def test_events_before_the_pop_are_not_replayed(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add(make_pod("p", priority=9), make_pod("q"))
        harness.pop()
        harness.move(NODE_ADD)
        assert harness.fail(harness.pop(), "A") is QueueName.UNSCHEDULABLE

    def test_events_are_stored_only_while_a_pod_is_in_flight(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.move(NODE_ADD)
        assert harness.inflight_events() == {}
        harness.add(make_pod("p"))
        uid = harness.pop().pod.metadata.uid
        harness.move(NODE_ADD)
        assert harness.inflight_events() == {"PodPopped": 1, "NodeAdd": 1}
        harness.queue.done(uid)
        harness.queue.done(uid)
        assert harness.inflight_events() == {}

    def test_a_flush_that_moved_anything_counts_for_all_in_flight(self) -> None:
        harness = QueueHarness()
        harness.add_failed(make_pod("waiting"), "B")
        harness.wait(301)
        harness.add(make_pod("flying"))
        queued = harness.pop()
        harness.queue.flush_unschedulable(harness.now_ns)
        assert harness.fail(queued, "A") is QueueName.BACKOFF

    def test_a_flush_that_moved_nothing_does_not(self) -> None:
        harness = QueueHarness()
        harness.add(make_pod("flying"))
        queued = harness.pop()
        harness.queue.flush_unschedulable(harness.now_ns)
        assert harness.fail(queued, "A") is QueueName.UNSCHEDULABLE

    def test_activation_in_flight_counts_for_the_pod_it_names(self) -> None:
        harness = QueueHarness()
        harness.add(make_pod("named", priority=9), make_pod("other"))
        named, other = harness.pop(), harness.pop()
        harness.activate(named.pod)
        assert harness.place("named") == "in flight"
        assert harness.fail(other, "A") is QueueName.UNSCHEDULABLE
        assert harness.fail(named, "A") is QueueName.BACKOFF

    def test_an_update_of_the_pod_in_flight_is_replayed_after_a_failure(self) -> None:
        harness = QueueHarness([RegisteredHint(OWN_TOLERATION, "TaintToleration", always_queue)])
        pod = make_pod("p")
        harness.add(pod)
        queued = harness.pop()
        harness.update(pod, make_pod("p", tolerations=["a=b:NoSchedule"]))
        assert harness.place("p") == "in flight"
        assert harness.fail(queued, "TaintToleration") is QueueName.BACKOFF


class TestUpdate:
    @pytest.mark.parametrize("place", ["active", "backoff", "error backoff"])
    def test_a_pod_that_is_ready_or_backs_off_stays_where_it_is(self, place: str) -> None:
        gate = Gate()
        harness = QueueHarness(a_hears(NODE_ADD), [gate])
        old = make_pod("p")
        harness.add(old)
        if place != "active":
            harness.fail(harness.pop(), *(["A"] if place == "backoff" else []))
            harness.move(NODE_ADD)
        gate.asked.clear()
        new = make_pod("p", labels={"a": "b"})
        harness.update(old, new)
        assert harness.place("p") == place
        queued = harness.queue.get_pod("p", "default")
        assert queued is not None
        assert queued.pod is new
        assert gate.asked == []

    def test_amounts_are_computed_from_the_new_pod(self) -> None:
        harness = QueueHarness([RegisteredHint(OWN_SCALE_DOWN, "Fit")])
        old = make_pod("p", requests={"cpu": "2"})
        queued = harness.add_failed(old, "Fit")
        assert queued.pod_info.requested.milli_cpu == 2000
        harness.update(old, make_pod("p", requests={"cpu": "1"}))
        assert queued.pod_info.requested.milli_cpu == 1000
        assert harness.place("p") == "backoff"
        assert harness.incoming()["backoff", "UnschedulablePodUpdatePodScaleDown"] == 1

    def test_a_change_that_no_rejector_registered_changes_nothing(self) -> None:
        harness = QueueHarness([RegisteredHint(OWN_SCALE_DOWN, "Fit")])
        old = make_pod("p")
        harness.add_failed(old, "Fit")
        woken = harness.woken
        harness.update(old, make_pod("p", annotations={"a": "b"}))
        assert harness.place("p") == "unschedulable"
        assert harness.woken == woken

    def test_several_changes_are_tried_until_one_helps(self) -> None:
        asked: list[str] = []

        def noting(label: str) -> Callable[[Pod, Any, Any], QueueingHint]:
            def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
                asked.append(label)
                return QueueingHint.SKIP if label == "label" else QueueingHint.QUEUE

            return hint

        harness = QueueHarness(
            [
                RegisteredHint(OWN_TOLERATION, "A", noting("toleration")),
                RegisteredHint(OWN_SCALE_DOWN, "A", noting("scale down")),
                RegisteredHint(OWN_LABEL, "A", noting("label")),
            ]
        )
        old = make_pod("p", requests={"cpu": "2"})
        harness.add_failed(old, "A")
        harness.update(
            old,
            make_pod("p", requests={"cpu": "1"}, labels={"a": "b"}, tolerations=["a:NoSchedule"]),
        )
        assert asked == ["label", "scale down"]
        assert harness.place("p") == "backoff"

    def test_an_update_concerns_no_other_pod(self) -> None:
        harness = QueueHarness([RegisteredHint(OWN_LABEL, "A")])
        old = make_pod("p")
        harness.add_failed(old, "B")
        harness.add_failed(make_pod("other"), "A")
        harness.update(old, make_pod("p", labels={"a": "b"}))
        assert harness.place("other") == "unschedulable"

    def test_an_unknown_pod_is_taken_in(self) -> None:
        harness = QueueHarness()
        harness.update(make_pod("p"), make_pod("p", labels={"a": "b"}, nominated_node_name="n"))
        assert harness.place("p") == "active"
        assert harness.incoming() == {("active", "UnschedulablePodUpdate"): 1}
        assert list(harness.queue.nominator.nominated_nodes()) == ["n"]

    def test_a_recreated_pod_retains_the_history_of_its_name(self) -> None:
        harness = QueueHarness()
        old = make_pod("p", uid="1")
        queued = harness.add_failed(old, "A")
        timestamp_ns = queued.timestamp_ns
        harness.wait(1)
        harness.update(old, make_pod("p", uid="2"))
        assert harness.queue.get_pod("p", "default") is queued
        assert (queued.pod.metadata.uid, queued.attempts) == ("2", 1)
        assert queued.timestamp_ns == timestamp_ns

    def test_a_recreated_pod_of_another_profile_is_found_by_that_profiles_events(self) -> None:
        harness = QueueHarness(
            profiles={
                "default-scheduler": QueueProfile("default-scheduler", by_priority),
                "other": QueueProfile("other", by_priority, hints=a_hears(NODE_ADD)),
            }
        )
        old = make_pod("p", uid="1")
        harness.add_failed(old, "A")
        assert harness.move(NODE_ADD) == 0
        harness.update(old, make_pod("p", uid="2", scheduler_name="other"))
        harness.queue.check_invariants()
        assert harness.move(NODE_ADD) == 1

    def test_a_recreated_pod_of_an_unknown_profile_is_retried(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        old = make_pod("p", uid="1")
        harness.add_failed(old, "A")
        harness.update(old, make_pod("p", uid="2", scheduler_name="stranger"))
        assert harness.place("p") == "backoff"


class TestDelete:
    @pytest.mark.parametrize(
        ("place", "rejections"), [("unschedulable", 0), ("backoff", 1), ("active", 1)]
    )
    def test_a_deleted_pod_leaves_the_queue_and_its_metrics(
        self, place: str, rejections: int
    ) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        pod = make_pod("p")
        harness.add_failed(pod, "A")
        if place == "backoff":
            harness.move(NODE_ADD)
        elif place == "active":
            harness.activate(pod)
        assert harness.place("p") == place
        harness.queue.delete(pod)
        assert harness.place("p") is None
        assert harness.pending() == {}
        assert harness.rejections() == {"A": rejections}
        harness.queue.check_invariants()

    def test_a_pod_in_flight_stays_in_flight(self) -> None:
        harness = QueueHarness()
        pod = make_pod("p")
        harness.add(pod)
        harness.pop()
        harness.queue.delete(pod)
        assert harness.place("p") == "in flight"


class TestActivate:
    def test_activate_moves_pods_from_every_container(self) -> None:
        gate = Gate()
        harness = QueueHarness(a_hears(NODE_ADD), [gate])
        parked, backing_off, errored = (make_pod(name) for name in ("parked", "backing", "errored"))
        harness.add_failed(backing_off, "A")
        harness.move(NODE_ADD)
        harness.add(errored, parked)
        first, second = harness.pop(), harness.pop()
        harness.fail(first)
        harness.fail(second, "A")
        gate.asked.clear()
        woken = harness.woken
        harness.activate(parked, backing_off, errored, make_pod("unknown"))
        assert [harness.place(name) for name in ("parked", "backing", "errored")] == ["active"] * 3
        assert gate.asked == ["parked"]
        assert harness.woken == woken + 1
        assert harness.incoming()["active", "ForceActivate"] == 3
        assert harness.place("unknown") is None

    def test_a_pod_that_is_ready_is_not_changed(self) -> None:
        harness = QueueHarness()
        pod = make_pod("p")
        harness.add(pod)
        woken = harness.woken
        harness.activate(pod)
        assert harness.woken == woken
        assert harness.incoming() == {("active", "UnschedulablePodAdd"): 1}


class TestMoveAll:
    def test_an_event_without_registration_is_not_checked(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add_failed(make_pod("p"), "A")

        def never(pod: Pod) -> bool:
            raise AssertionError("asked in vain")

        assert harness.move(NODE_LABEL, pre_check=never) == 0

    def test_a_check_narrows_the_pods_that_are_matched_but_not_the_stored_events(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        for priority in range(5):
            harness.add_failed(make_pod(f"p{priority}", priority=priority), "A")
        harness.add(make_pod("flying"))
        flying = harness.pop()
        assert harness.move(NODE_ADD, pre_check=lambda pod: pod_priority(pod) >= 2) == 3
        assert [harness.place(f"p{number}") for number in range(5)] == [
            "unschedulable",
            "unschedulable",
            "backoff",
            "backoff",
            "backoff",
        ]
        assert harness.fail(flying, "A") is QueueName.BACKOFF

    def test_a_moved_nomination_requeues_pods_of_equal_or_lower_priority(self) -> None:
        """As the event handler announces it: the nominated pod is among those looked at."""
        harness = QueueHarness(a_hears(POD_DELETE))
        mid = make_pod("mid", priority=5, nominated_node_name="n1")
        for pod in (
            mid,
            make_pod("high", priority=9),
            make_pod("low"),
            make_pod("equal", priority=5),
        ):
            harness.add_failed(pod, "A")
        moved = replace(mid, status=replace(mid.status, nominated_node_name="n2"))
        harness.update(mid, moved)
        harness.move(ASSIGNED_POD_DELETE, mid, None, lambda pod: pod_priority(pod) <= 5)
        assert {name: harness.place(name) for name in ("high", "mid", "low", "equal")} == {
            "high": "unschedulable",
            "mid": "backoff",
            "low": "backoff",
            "equal": "backoff",
        }

    def test_only_pods_whose_rejectors_registered_the_event_are_matched(self) -> None:
        asked: list[str] = []

        def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
            asked.append(pod.metadata.name)
            return QueueingHint.SKIP

        harness = QueueHarness(
            [RegisteredHint(NODE_ADD, "A", hint), RegisteredHint(NODE_LABEL, "B", hint)]
        )
        for name, rejectors in (("a", "A"), ("b", "B"), ("ab", "AB"), ("c", "C")):
            harness.add_failed(make_pod(name), *rejectors)
        harness.move(NODE_ADD)
        assert sorted(asked) == ["a", "ab"]

    def test_an_event_does_not_touch_pods_that_it_cannot_concern(self) -> None:
        gate = Gate(closed_for={f"gated{number}" for number in range(50)})
        harness = QueueHarness(
            [
                RegisteredHint(NODE_ADD, "A"),
                RegisteredHint(NODE_LABEL, "B"),
                RegisteredHint(NODE_LABEL, "Gate"),
            ],
            [gate],
        )
        for number in range(50):
            harness.add_failed(make_pod(f"b{number}"), "B")
            harness.add(make_pod(f"gated{number}"))
        looked_at: list[str] = []

        def note(pod: Pod) -> bool:
            looked_at.append(pod.metadata.name)
            return True

        gate.asked.clear()
        assert harness.move(NODE_ADD, pre_check=note) == 0
        assert (looked_at, gate.asked) == ([], [])
        harness.move(NODE_LABEL, pre_check=note)
        assert len(looked_at) == 100

    def test_a_failing_hint_is_a_retry_and_counted_as_an_error(self) -> None:
        def broken(pod: Pod, old: Any, new: Any) -> QueueingHint:
            raise RuntimeError("oops")

        ticks = iter(range(0, 10**9, 1000))
        harness = QueueHarness(a_hears(NODE_ADD, broken), monotonic_ns=lambda: next(ticks))
        harness.add_failed(make_pod("p"), "A")
        assert harness.move(NODE_ADD) == 1
        observed = [
            (*labels.values(), histogram.count, histogram.sum)
            for labels, histogram in (
                harness.metrics.queueing_hint_execution_duration_seconds.children()
            )
        ]
        assert observed == [("A", "NodeAdd", "Error", 1, 1e-6)]

    def test_the_popper_is_woken_only_for_pods_that_became_ready(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD, always_skip))
        harness.add_failed(make_pod("p"), "A")
        woken = harness.woken
        harness.move(NODE_ADD)
        assert harness.woken == woken
        harness.queue.flush_backoff(harness.now_ns)
        harness.queue.flush_unschedulable(harness.now_ns)
        assert harness.woken == woken


class TestFlush:
    @pytest.mark.parametrize(
        ("late_ns", "want"), [(0, "unschedulable"), (1, "active")], ids=["at the limit", "after it"]
    )
    def test_a_pod_that_waited_too_long_is_retried(self, late_ns: int, want: str) -> None:
        harness = QueueHarness()
        queued = harness.add_failed(make_pod("p"), "A")
        harness.now_ns += 300 * SECOND + late_ns
        moved = harness.queue.flush_unschedulable(harness.now_ns)
        assert moved == late_ns
        assert harness.place("p") == want
        assert queued.was_flushed_from_unschedulable is bool(late_ns)
        if late_ns:
            assert harness.incoming()["active", "UnschedulableTimeout"] == 1

    def test_the_limit_can_be_set(self) -> None:
        harness = QueueHarness(max_in_unschedulable_ns=20 * SECOND)
        harness.add_failed(make_pod("p"), "A")
        harness.wait(21)
        assert harness.queue.flush_unschedulable(harness.now_ns) == 1

    def test_an_attempt_resets_the_flush_marker(self) -> None:
        harness = QueueHarness()
        queued = harness.add_failed(make_pod("p"), "A")
        harness.wait(301)
        harness.queue.flush_unschedulable(harness.now_ns)
        harness.fail(harness.pop(), "A")
        assert not queued.was_flushed_from_unschedulable
        assert queued.flush_timestamp_ns == 0

    def test_pods_leave_backoff_in_order_and_without_changing_their_age(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        harness.add_failed(make_pod("rejected"), "A")
        harness.move(NODE_ADD)
        harness.add(make_pod("errored", priority=9))
        errored = harness.pop()
        harness.fail(errored)
        harness.wait(2)
        assert harness.queue.flush_backoff(harness.now_ns) == 2
        assert harness.incoming()["active", "BackoffComplete"] == 2
        assert errored.timestamp_ns == START_NS
        assert harness.pop_names() == ["errored", "rejected"]


class TestQueries:
    def test_pending_pods_and_their_summary(self) -> None:
        harness = QueueHarness(a_hears(NODE_ADD))
        for name, rejectors in (("backing", ["A"]), ("errored", [])):
            harness.add_failed(make_pod(name, priority=9), *rejectors)
            harness.move(NODE_ADD)
        harness.add_failed(make_pod("parked", priority=9), "B")
        harness.add(make_pod("flying", priority=9), make_pod("ready"))
        harness.pop()
        pods, summary = harness.queue.pending_pods()
        assert summary == "activeQ:1; backoffQ:2; unschedulablePods:1"
        assert sorted(pod.metadata.name for pod in pods) == [
            "backing",
            "errored",
            "parked",
            "ready",
        ]
        assert [pod.metadata.name for pod in harness.queue.in_flight_pods] == ["flying"]

    def test_the_queue_works_without_metrics(self) -> None:
        profile = QueueProfile("default-scheduler", by_priority)
        queue = SchedulingQueue(
            {"default-scheduler": profile}, lister=PodListerStub(), random=random.Random(0)
        )
        queue.add(make_pod("p"), 0)
        assert queue.pop(0) is not None
        queue.check_invariants()

    def test_a_broken_invariant_reports_the_history_of_the_pod(self) -> None:
        harness = QueueHarness()
        queued = harness.add_failed(make_pod("p"), "A")
        stray = QueuedPodInfo(queued.pod, harness.now_ns)
        stray.pod_info = PodInfo(queued.pod)
        harness.queue._active.add(stray)
        with pytest.raises(AssertionError) as raised:
            harness.queue.check_invariants()
        text = str(raised.value)
        assert text.startswith("default/p waits in two places")
        assert "default/p -> active (UnschedulablePodAdd)" in text
        assert "default/p -> unschedulable (ScheduleAttemptFailure)" in text
