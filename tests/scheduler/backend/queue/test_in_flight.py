"""Pods in flight and the events recorded for them (docs/reference/03 §5.5, §11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kubesched.api import Pod
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.framework import ActionType, ClusterEvent, QueuedPodInfo
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.testing.objects.builders import make_pod


def event(label: str) -> ClusterEvent:
    return ClusterEvent("Node", ActionType.ADD, label)


def labels(in_flight: InFlight) -> list[str]:
    return [
        entry.metadata.uid if isinstance(entry, Pod) else entry.event.label
        for entry in in_flight.timeline()
    ]


def start(in_flight: InFlight, uid: str) -> None:
    in_flight.start(QueuedPodInfo(make_pod(uid, uid=uid), 0), 0)


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight(SchedulerMetrics(CollectorRegistry()))


@pytest.fixture
def three(in_flight: InFlight) -> InFlight:
    for number in "123":
        start(in_flight, f"p{number}")
        in_flight.record(event(f"e{number}"), None, None)
    return in_flight


def test_a_pod_in_the_middle_leaves_its_events_to_the_pods_before_it(three: InFlight) -> None:
    assert labels(three) == ["p1", "e1", "p2", "e2", "p3", "e3"]
    three.done("p2")
    assert labels(three) == ["p1", "e1", "e2", "p3", "e3"]
    three.done("p1")
    assert labels(three) == ["p3", "e3"]
    three.done("p3")
    assert labels(three) == []


def test_events_since_a_pod_was_popped_are_replayed_for_it(three: InFlight) -> None:
    seen = three.events_since_pop("p2")
    assert seen is not None
    assert [each.event.label for each in seen] == ["e2", "e3"]
    three.done("p1")
    assert three.events_since_pop("p2") == seen


def test_done_is_idempotent(three: InFlight) -> None:
    three.done("p1")
    before = labels(three)
    assert three.done("p1") is None
    assert labels(three) == before


def test_no_event_is_stored_while_no_pod_is_in_flight(in_flight: InFlight) -> None:
    in_flight.record(event("e"), None, None)
    assert labels(in_flight) == []
    assert in_flight.events_since_pop("p") is None


@given(st.lists(st.tuples(st.sampled_from("pde"), st.integers(0, 5)), max_size=60))
def test_the_recorded_events_equal_those_of_a_linked_list(steps: list[tuple[str, int]]) -> None:
    """The list of the reference: markers and events; done drops a marker and leading events."""
    metrics = SchedulerMetrics(CollectorRegistry())
    in_flight = InFlight(metrics)
    model: list[str] = []
    for number, (step, pod) in enumerate(steps):
        uid = f"p{pod}"
        if step == "p" and uid not in model:
            start(in_flight, uid)
            model.append(uid)
        elif step == "e":
            in_flight.record(event(f"e{number}"), None, None)
            if any(entry.startswith("p") for entry in model):
                model.append(f"e{number}")
        elif step == "d" and uid in model:
            in_flight.done(uid)
            model.remove(uid)
            while model and model[0].startswith("e"):
                del model[0]
        in_flight.check_invariants()
        assert labels(in_flight) == model
    kept = {labels["event"] for labels, gauge in metrics.inflight_events.children() if gauge.value}
    assert kept == {"PodPopped" if entry.startswith("p") else entry for entry in model}
