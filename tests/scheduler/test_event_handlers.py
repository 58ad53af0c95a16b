"""From informer events to the real cache and queue (docs/reference/04 §7, 03 §8.1)."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod, PodStatus
from kubesched.foundation.util.clock import SECOND, ManualClock, SteadyClock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import ClusterEvent, PodInfo
from kubesched.scheduler.backend.cache import Cache, CacheCorruptedError
from kubesched.scheduler.backend.queue import QueueProfile, SchedulingQueue
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.runtime.waiting_pods import WaitingPodEntry, WaitingPods
from kubesched.testing import make_node, make_pod

DELETED = "2026-01-01T00:00:00Z"


class ListeningQueue(SchedulingQueue):
    """The real queue, which also records the events that it receives."""

    def __init__(self) -> None:
        profile = QueueProfile("default-scheduler", sort_key=lambda queued: queued.timestamp_ns)
        super().__init__({"default-scheduler": profile}, lister=NoPods(), random=random.Random(0))
        self.announced: list[tuple[str, Any, Any]] = []
        self.pre_checks: list[Any] = []

    def move_all(
        self, event: ClusterEvent, old: Any, new: Any, now_ns: int, pre_check: Any = None
    ) -> int:
        self.announced.append((event.label, old, new))
        self.pre_checks.append(pre_check)
        return super().move_all(event, old, new, now_ns, pre_check)

    @property
    def labels(self) -> list[str]:
        return [label for label, _, _ in self.announced]


class NoPods:
    def get(self, name: str, namespace: str | None = None) -> Pod | None:
        return None


class EventHandlerHarness:
    def __init__(self) -> None:
        self.cache = Cache()
        self.queue = ListeningQueue()
        self.corruptions: list[CacheCorruptedError] = []
        self.waiting_pods = WaitingPods()
        self.handlers = EventHandlers(
            self.cache,
            self.queue,
            self.waiting_pods,
            SteadyClock(ManualClock()),
            lambda pod: pod.spec.scheduler_name == "default-scheduler",
            self.corruptions.append,
        )

    def place(self, name: str) -> str | None:
        found = self.queue.describe(f"default/{name}", 0)
        return None if found is None else found.place.value


@pytest.fixture
def harness() -> EventHandlerHarness:
    made = EventHandlerHarness()
    made.cache.add_node(make_node("n1"))
    return made


def version(pod: Pod, number: int) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, resource_version=str(number)))


def deleting(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=DELETED))


# -- pods ------------------------------------------------------------------------------


def test_an_assigned_pod_is_added_to_the_cache_of_every_scheduler(
    harness: EventHandlerHarness,
) -> None:
    harness.handlers.add_pod(make_pod("p", node_name="n1", scheduler_name="other"))
    assert harness.cache.pod_count == 1
    assert harness.queue.labels == ["AssignedPodAdd"]


def test_a_waiting_pod_enters_the_queue_if_a_profile_serves_it(
    harness: EventHandlerHarness,
) -> None:
    harness.handlers.add_pod(make_pod("ours"))
    harness.handlers.add_pod(make_pod("theirs", scheduler_name="other"))
    assert [pod.metadata.name for pod in harness.queue.active_pods] == ["ours"]
    assert harness.queue.labels == []


def test_a_watched_binding_moves_the_pod_from_queue_to_cache(harness: EventHandlerHarness) -> None:
    waiting = make_pod("p")
    harness.handlers.add_pod(waiting)
    harness.handlers.update_pod(waiting, version(make_pod("p", node_name="n1"), 2))
    assert harness.queue.active_pods == []
    assert harness.cache.pod_count == 1
    assert harness.queue.labels == ["AssignedPodAdd"]


def test_an_update_of_an_assigned_pod_announces_what_changed(harness: EventHandlerHarness) -> None:
    old = make_pod("p", node_name="n1", requests={"cpu": "2"})
    harness.handlers.add_pod(old)
    new = version(make_pod("p", node_name="n1", requests={"cpu": "1"}, labels={"a": "b"}), 2)
    harness.handlers.update_pod(old, new)
    assert harness.queue.labels[1:] == [
        "AssignedPodUpdatePodLabel",
        "AssignedPodUpdatePodScaleDown",
    ]


def test_an_update_with_the_same_version_is_ignored(harness: EventHandlerHarness) -> None:
    pod = make_pod("p")
    harness.handlers.add_pod(pod)
    harness.handlers.update_pod(pod, make_pod("p", labels={"changed": "yes"}))
    assert [each.metadata.labels for each in harness.queue.active_pods] == [{}]


def test_an_update_of_an_assumed_pod_changes_nothing(harness: EventHandlerHarness) -> None:
    pod = make_pod("p")
    harness.cache.assume_pod(PodInfo(make_pod("p", node_name="n1")))
    harness.handlers.update_pod(pod, version(make_pod("p", labels={"a": "b"}), 2))
    assert harness.place("p") is None
    assert harness.cache.get_pod(pod).metadata.labels == {}
    assert harness.queue.labels == []


def test_an_assumed_pod_that_terminates_is_removed_at_once(
    harness: EventHandlerHarness,
) -> None:
    pod = make_pod("p")
    harness.cache.assume_pod(PodInfo(make_pod("p", node_name="n1")))
    harness.handlers.update_pod(pod, version(deleting(pod), 2))
    assert harness.cache.pod_count == 0
    assert harness.queue.labels == ["AssignedPodDelete"]
    assert harness.place("p") is None


@pytest.mark.parametrize("is_told", [False, True])
def test_a_pod_that_waits_on_permit_and_is_bound_by_another_client_stops_waiting(
    harness: EventHandlerHarness, is_told: bool
) -> None:
    """Seed 600000007635: the watch delivers the binding, or only the deletion after it."""
    pod, bound = make_pod("p"), version(make_pod("p", node_name="n2"), 2)

    async def main() -> str:
        harness.cache.assume_pod(PodInfo(make_pod("p", node_name="n1")))
        entry = WaitingPodEntry(pod, {"Plugin": SECOND})
        harness.waiting_pods.add(entry)
        if is_told:
            harness.handlers.update_pod(pod, bound)
        else:
            harness.handlers.delete_pod(bound)
        return (await entry.outcome()).message

    assert run(main) == ("bound by another scheduler" if is_told else "removed")


def test_a_deleted_assigned_pod_leaves_the_cache_and_is_announced(
    harness: EventHandlerHarness,
) -> None:
    pod = make_pod("p", node_name="n1")
    harness.handlers.add_pod(pod)
    harness.handlers.delete_pod(pod)
    assert harness.cache.pod_count == 0
    assert harness.queue.labels == ["AssignedPodAdd", "AssignedPodDelete"]


def test_a_pod_that_is_deleted_before_its_binding_arrived_leaves_the_queue(
    harness: EventHandlerHarness,
) -> None:
    """A watch may go from a pod that waits to its end. Found by fault injection, seed 1373."""
    pod = make_pod("p")
    harness.handlers.add_pod(pod)
    harness.handlers.delete_pod(replace(pod, spec=replace(pod.spec, node_name="n")))
    assert harness.place("p") is None
    newer = make_pod("p", uid="another")
    harness.handlers.add_pod(newer)
    harness.handlers.delete_pod(replace(pod, spec=replace(pod.spec, node_name="n")))
    assert harness.place("p") == "active"


def test_a_stale_tombstone_removes_the_pod_from_cache_and_queue(
    harness: EventHandlerHarness,
) -> None:
    harness.handlers.add_pod(make_pod("bound", node_name="n1"))
    harness.handlers.add_pod(make_pod("waiting"))
    harness.handlers.delete_pod(make_pod("bound"), True)
    harness.handlers.delete_pod(make_pod("waiting"), True)
    assert harness.cache.pod_count == 0
    assert harness.queue.active_pods == []
    assert not harness.corruptions


def nominated(name: str, node: str, priority: int = 5) -> Pod:
    pod = make_pod(name, priority=priority)
    return replace(pod, status=PodStatus(phase="Pending", nominated_node_name=node))


def test_a_lost_nomination_is_announced_to_pods_of_lower_or_equal_priority(
    harness: EventHandlerHarness,
) -> None:
    old = nominated("p", "n1")
    harness.handlers.add_pod(old)
    harness.handlers.update_pod(old, version(nominated("p", ""), 2))
    assert harness.queue.announced == [("AssignedPodDelete", old, None)]
    [pre_check] = harness.queue.pre_checks
    heard = [priority for priority in (4, 5, 6) if pre_check(make_pod("x", priority=priority))]
    assert heard == [4, 5]


def test_a_first_nomination_is_not_announced(harness: EventHandlerHarness) -> None:
    old = nominated("p", "")
    harness.handlers.add_pod(old)
    harness.handlers.update_pod(old, version(nominated("p", "n1"), 2))
    assert harness.queue.labels == []


@pytest.mark.parametrize(("node", "labels"), [("n1", ["AssignedPodDelete"]), ("", [])])
def test_a_deleted_waiting_pod_is_announced_only_if_it_was_nominated(
    harness: EventHandlerHarness, node: str, labels: list[str]
) -> None:
    pod = nominated("p", node)
    harness.handlers.add_pod(pod)
    harness.handlers.delete_pod(pod)
    assert harness.queue.labels == labels


def test_the_event_is_announced_despite_an_error_of_the_cache(
    harness: EventHandlerHarness,
) -> None:
    pod = make_pod("p", node_name="n1")
    harness.handlers.add_pod(pod)
    harness.handlers.add_pod(pod)
    assert harness.queue.labels == ["AssignedPodAdd", "AssignedPodAdd"]
    assert not harness.corruptions


def test_a_pod_that_moved_means_corruption(harness: EventHandlerHarness) -> None:
    old = make_pod("p", node_name="n1")
    harness.handlers.add_pod(old)
    harness.handlers.update_pod(old, version(make_pod("p", node_name="n2"), 2))
    assert len(harness.corruptions) == 1


# -- nodes and other kinds -------------------------------------------------------------


def test_node_events_follow_additions_and_precede_deletions(harness: EventHandlerHarness) -> None:
    seen: list[tuple[str, int]] = []
    announce = harness.queue.move_all

    def note(event: ClusterEvent, *rest: Any) -> int:
        seen.append((event.label, harness.cache.node_count))
        return announce(event, *rest)

    harness.queue.move_all = note  # type: ignore[method-assign]
    harness.handlers.add_node(make_node("n2"))
    harness.handlers.delete_node(make_node("n2"))
    assert seen == [("NodeAdd", 2), ("NodeDelete", 2)]
    assert harness.cache.node_count == 1


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        (make_node("n1"), make_node("n1", labels={"a": "b"}), ["NodeUpdateNodeLabel"]),
        (make_node("n1"), make_node("n1"), []),
        (make_node("n1"), make_node("n1", unschedulable=True), []),
        (
            make_node("n1", unschedulable=True, taints=["k:NoSchedule"]),
            make_node("n1"),
            ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
        ),
    ],
    ids=["a label", "a heartbeat", "cordoned", "uncordoned and its taint removed"],
)
def test_a_node_update_announces_what_changed(
    harness: EventHandlerHarness, old: Any, new: Any, labels: list[str]
) -> None:
    harness.handlers.update_node(old, new)
    assert harness.queue.labels == labels


# -- pods that were deleted and created again between two watches ------------------------


@pytest.mark.parametrize("where", ["n1", "n2", ""])
@pytest.mark.parametrize("was", ["n1", ""])
def test_a_recreated_pod_is_a_different_pod(
    harness: EventHandlerHarness, was: str, where: str
) -> None:
    old = make_pod("p", uid="1", node_name=was, requests={"cpu": "1"})
    new = version(make_pod("p", uid="2", node_name=where, requests={"cpu": "2"}), 2)
    harness.handlers.add_pod(old)
    harness.handlers.update_pod(old, new)
    assert harness.corruptions == []
    harness.cache.check_invariants()
    harness.queue.check_invariants()
    assert harness.cache.pod_count == bool(where)
    assert [pod.metadata.uid for pod in harness.queue.active_pods] == ([] if where else ["2"])
    harness.handlers.delete_pod(new)
    assert (harness.cache.pod_count, harness.queue.active_pods) == (0, [])
    assert harness.cache.nodes["n1"].requested.milli_cpu == 0
    if was:
        assert harness.queue.labels[1] == "AssignedPodDelete"
