"""Penalties and their whole-second windows (docs/reference/03 §3.1 to §3.3)."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.backoff_queue import BackoffQueue
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import by_priority

DEFAULT = Backoff(1 * SECOND, 10 * SECOND)


def queued(
    name: str = "p",
    *,
    at: float = 0,
    rejections: int = 0,
    errors: int = 0,
    priority: int = 0,
    rejector: str = "",
) -> QueuedPodInfo:
    info = QueuedPodInfo(make_pod(name, priority=priority), round(at * SECOND))
    info.unschedulable_count = rejections
    info.consecutive_errors_count = errors
    info.unschedulable_plugins = {rejector} if rejector else set()
    return info


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (7, 10)]
)
def test_a_penalty_doubles_up_to_its_limit(count: int, seconds: int) -> None:
    assert DEFAULT.duration_ns(count) == seconds * SECOND


def test_a_penalty_does_not_overflow_sixty_four_bits() -> None:
    assert Backoff(1, 2**63 - 1).duration_ns(64) == 2**63 - 1


@given(st.integers(1, 2**40), st.integers(0, 2**63 - 1), st.integers(1, 10_000))
def test_a_backoff_stays_within_its_bounds_and_never_decreases(
    initial: int, more: int, count: int
) -> None:
    backoff = Backoff(initial, initial + more)
    assert initial <= backoff.duration_ns(count) <= initial + more
    assert backoff.duration_ns(count) <= backoff.duration_ns(count + 1)


class Case(NamedTuple):
    pod: QueuedPodInfo
    now: float
    want: bool
    backoff: Backoff = DEFAULT


BACKING_OFF = {
    "failed at 10.3, looked at in the second of expiry": Case(
        queued(at=10.3, rejections=1), 11.9, True
    ),
    "failed at 10.3, looked at in the second after": Case(queued(at=10.3, rejections=1), 12, False),
    "failed at a whole second, a full second longer": Case(
        queued(at=10, rejections=1), 11.999, True
    ),
    "failed just before a whole second": Case(queued(at=10.9, rejections=1), 12.0, False),
    "never attempted": Case(queued(at=10), 10, False),
    "without windows the expiry is exact": Case(
        queued(at=10.5, rejections=1), 11.5, True, Backoff(SECOND, 10 * SECOND, 1)
    ),
    "without windows the backoff ends right after its expiry": Case(
        queued(at=10.5, rejections=1), 11.500001, False, Backoff(SECOND, 10 * SECOND, 1)
    ),
    "backoff is turned off": Case(queued(at=10, rejections=3), 10, False, Backoff(0, 0)),
    "an initial penalty of zero still waits for the next second": Case(
        queued(at=10.5, rejections=1), 10.9, True, Backoff(0, 10 * SECOND)
    ),
    "that next second has come": Case(
        queued(at=10.5, rejections=1), 11, False, Backoff(0, 10 * SECOND)
    ),
    "errors in a row count, not rejections: at its limit": Case(
        queued(at=0, rejections=5, errors=16), 32.9, True, Backoff(SECOND, 32 * SECOND)
    ),
    "errors in a row count, not rejections: after its limit": Case(
        queued(at=0, rejections=5, errors=16), 33, False, Backoff(SECOND, 32 * SECOND)
    ),
    "a first error waits one second however often the pod was rejected": Case(
        queued(at=0, rejections=5, errors=1), 2, False
    ),
    "times before the first second of all": Case(queued(at=0), 0, False),
}


@pytest.mark.parametrize("case", BACKING_OFF.values(), ids=BACKING_OFF)
def test_is_backing_off(case: Case) -> None:
    assert case.backoff.is_backing_off(case.pod, round(case.now * SECOND)) is case.want


@given(st.integers(0, 10**12), st.integers(1, 8))
def test_the_served_wait_is_more_than_the_penalty_by_at_most_a_second(
    failed_ns: int, count: int
) -> None:
    pod = queued(rejections=count)
    pod.timestamp_ns = failed_ns
    penalty_ns = DEFAULT.duration_ns(count)
    freed_ns = DEFAULT.expiration_ns(pod) + SECOND
    assert not DEFAULT.is_backing_off(pod, freed_ns)
    assert DEFAULT.is_backing_off(pod, freed_ns - 1)
    assert penalty_ns < freed_ns - failed_ns <= penalty_ns + SECOND


def make_queue(*pods: QueuedPodInfo) -> BackoffQueue:
    queue = BackoffQueue(DEFAULT, by_priority, SchedulerMetrics(CollectorRegistry()))
    for pod in pods:
        assert queue.add(pod)
    queue.check_invariants()
    return queue


def names(pods: list[QueuedPodInfo]) -> list[str]:
    return [pod.pod.metadata.name for pod in pods]


def test_rejected_pods_of_one_second_leave_by_priority() -> None:
    queue = make_queue(
        queued("old", at=10.1, rejections=1, priority=1, rejector="A"),
        queued("important", at=10.5, rejections=1, priority=2, rejector="A"),
        queued("earlier", at=9.9, rejections=1, priority=0, rejector="A"),
    )
    assert names(queue.pop_completed(13 * SECOND)) == ["earlier", "important", "old"]


def test_errored_pods_of_one_second_leave_regardless_of_priority() -> None:
    queue = make_queue(
        queued("first", at=10.1, errors=1, priority=1),
        queued("second", at=10.5, errors=1, priority=2),
        queued("earlier", at=9.9, errors=1, priority=0),
    )
    assert names(queue.pop_completed(13 * SECOND)) == ["earlier", "first", "second"]


def test_of_all_that_are_due_the_rejected_leave_first() -> None:
    queue = make_queue(
        queued("errored", at=8, errors=1),
        queued("rejected", at=10, rejections=1, rejector="A"),
        queued("not yet", at=11, rejections=3, rejector="A"),
        queued("not yet either", at=12, errors=1),
    )
    assert names(queue.pop_completed(13 * SECOND)) == ["rejected", "errored"]
    assert names(list(queue)) == ["not yet", "not yet either"]


def test_only_rejected_pods_can_be_taken_early() -> None:
    queue = make_queue(
        queued("errored", at=8, errors=1), queued("rejected", at=10, rejections=1, rejector="A")
    )
    first = queue.pop()
    assert first is not None
    assert first.pod.metadata.name == "rejected"
    assert queue.pop() is None
    assert len(queue) == 1


def test_a_pod_that_changes_heaps_is_counted_once() -> None:
    pod = queued("p", at=8, errors=1)
    queue = make_queue(pod)
    pod.unschedulable_plugins = {"A"}
    assert not queue.add(pod)
    assert len(queue) == 1
    queue.check_invariants()
