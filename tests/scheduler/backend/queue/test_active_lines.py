"""Pods that need a busy extender wait in a line; other pods are popped before them."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kubesched.api import Pod
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue import QueueProfile, SchedulingQueue
from kubesched.scheduler.backend.queue.active_queue import ActiveLines, ActiveQueue
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import START_NS, PodListerStub, by_priority

X, Y = frozenset({"x"}), frozenset({"y"})


def needs(pod: Pod) -> frozenset[str]:
    return frozenset(pod.metadata.labels.get("needs", "").split())


def a_pod(name: str, wants: str = "", priority: int = 0) -> Pod:
    return make_pod(name, labels={"needs": wants}, priority=priority)


def queued(name: str, wants: str = "", priority: int = 0) -> QueuedPodInfo:
    return QueuedPodInfo(a_pod(name, wants, priority), START_NS)


def lines(*pods: QueuedPodInfo) -> ActiveLines:
    made = ActiveLines(by_priority, SchedulerMetrics(CollectorRegistry()), needs)
    for pod in pods:
        made.add(pod)
    made.check_invariants()
    return made


def drain(queue: ActiveLines | ActiveQueue, busy: frozenset[str] = frozenset()) -> list[str]:
    popped = iter(lambda: queue.pop_unless(busy), None)
    return [each.pod.metadata.name for each in popped]


def test_without_busy_extenders_pods_leave_in_queue_order() -> None:
    queue = lines(queued("a", "x"), queued("b"), queued("c", "y", priority=9), queued("d", "x"))
    assert drain(queue) == ["c", "a", "b", "d"]
    assert len(queue) == 0


def test_pods_that_need_a_busy_extender_are_skipped() -> None:
    queue = lines(queued("a", "x", priority=9), queued("b"), queued("c", "y"), queued("d", "x y"))
    assert drain(queue, X) == ["b", "c"]
    assert drain(queue, Y) == ["a"]
    assert drain(queue) == ["d"]


def test_a_pod_whose_needed_extenders_change_moves_to_another_line() -> None:
    pod = queued("a")
    queue = lines(pod, queued("b"))
    changed = queued("a", "x")
    queue.update(changed)
    queue.check_invariants()
    assert queue.get("default/a") is changed
    assert drain(queue, X) == ["b"]
    assert drain(queue) == ["a"]
    with pytest.raises(KeyError):
        queue.update(pod)


def test_deleting_takes_a_pod_out_of_its_line() -> None:
    queue = lines(queued("a", "x"), queued("b"))
    assert queue.delete("default/a") is not None
    assert queue.delete("default/a") is None
    assert "default/a" not in queue
    assert drain(queue) == ["b"]


@given(
    st.lists(st.tuples(st.sampled_from(["", "x", "y", "x y"]), st.integers(0, 3)), max_size=20),
    st.sets(st.integers(0, 19)),
)
def test_lines_pop_pods_in_the_order_of_one_queue(
    pods: list[tuple[str, int]], deleted: set[int]
) -> None:
    one = ActiveQueue(by_priority, SchedulerMetrics(CollectorRegistry()))
    many = lines()
    for number, (wants, priority) in enumerate(pods):
        entry = queued(f"p{number}", wants, priority)
        one.add(entry)
        many.add(entry)
    for number in deleted:
        assert (one.delete(f"default/p{number}") is None) == (
            many.delete(f"default/p{number}") is None
        )
    many.check_invariants()
    assert {each.pod.metadata.name for each in many} == {each.pod.metadata.name for each in one}
    assert drain(many) == drain(one)


class TestSchedulingQueue:
    def queue(self) -> SchedulingQueue:
        profile = QueueProfile("default-scheduler", by_priority)
        return SchedulingQueue(
            {"default-scheduler": profile},
            lister=PodListerStub(),
            random=random.Random(0),
            needs=needs,
        )

    def test_the_first_pod_without_a_busy_extender_is_popped(self) -> None:
        queue = self.queue()
        for pod in (a_pod("waits", "x", priority=9), a_pod("goes")):
            queue.add(pod, START_NS)
        popped = queue.pop(START_NS, X)
        assert popped is not None
        assert popped.pod.metadata.name == "goes"
        assert queue.pop(START_NS, X) is None
        queue.check_invariants()
        assert queue.pop(START_NS) is not None

    def test_updates_and_deletions_reach_pods_in_line(self) -> None:
        queue = self.queue()
        old = a_pod("p", "x")
        queue.add(old, START_NS)
        new = replace(old, metadata=replace(old.metadata, resource_version="2", labels={}))
        queue.update(old, new, START_NS)
        queue.check_invariants()
        popped = queue.pop(START_NS, X)
        assert popped is not None
        assert popped.pod is new
        queue.done(new.metadata.uid)
        queue.add(a_pod("q", "x"), START_NS)
        queue.delete(a_pod("q", "x"))
        assert queue.pop(START_NS) is None

    @pytest.mark.parametrize(("wants", "is_popped"), [("x", False), ("y", True), ("", True)])
    def test_only_a_pod_that_need_not_wait_is_taken_out_of_its_backoff_early(
        self, wants: str, is_popped: bool
    ) -> None:
        queue = self.queue()
        queue.add(a_pod("p", wants), START_NS)
        numbers = itertools.count(1)
        for _ in range(2):
            entry = queue.pop(START_NS + next(numbers) * SECOND)
            assert entry is not None
            entry.unschedulable_plugins = {"A"}
            queue.activate({"default/p": entry.pod}, START_NS)
            queue.add_unschedulable_if_not_present(entry, START_NS + next(numbers) * SECOND)
        assert (queue.pop(START_NS, X) is not None) == is_popped
