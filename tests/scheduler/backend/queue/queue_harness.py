"""A scheduling queue with all it needs, and the steps of a scheduler around it, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key, pod_priority
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    EventResource,
    Plugin,
    PodInfo,
    QueuedPodInfo,
    QueueingHint,
    Status,
)
from kubesched.scheduler.backend.queue import (
    QueueName,
    QueueProfile,
    RegisteredHint,
    SchedulingQueue,
)

START_NS = 1_700_000_000 * SECOND
PROFILE = "default-scheduler"

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(EventResource.POD, ActionType.DELETE)
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)


def always_queue(pod: Pod, old: Any, new: Any) -> QueueingHint:
    return QueueingHint.QUEUE


def always_skip(pod: Pod, old: Any, new: Any) -> QueueingHint:
    return QueueingHint.SKIP


def by_priority(queued: QueuedPodInfo) -> tuple[int, int]:
    return (-pod_priority(queued.pod), queued.timestamp_ns)


class Gate(Plugin):
    """A PreEnqueue plugin that rejects the pods named in `closed_for`."""

    def __init__(self, name: str = "Gate", closed_for: Iterable[str] = ()) -> None:
        super().__init__()
        self.name = name  # type: ignore[misc]
        self.closed_for = set(closed_for)
        self.asked: list[str] = []

    def pre_enqueue(self, pod: Pod) -> Status:
        self.asked.append(pod.metadata.name)
        if pod.metadata.name in self.closed_for:
            return Status.unresolvable(f"{self.name} is closed")
        return SUCCESS


class PodListerStub:
    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}

    def get(self, name: str, namespace: str | None = None) -> Pod | None:
        return self.pods.get(f"{namespace}/{name}")


class QueueHarness:
    """The queue, the lister's pods, the time, and the number of `on_ready` calls."""

    kind: type[SchedulingQueue] = SchedulingQueue

    def __init__(
        self,
        hints: Sequence[RegisteredHint] = (),
        gates: Sequence[Plugin] = (),
        *,
        profiles: dict[str, QueueProfile] | None = None,
        **options: Any,
    ) -> None:
        self.now_ns = START_NS
        self.metrics = SchedulerMetrics(CollectorRegistry())
        self.lister = PodListerStub()
        profile = QueueProfile(PROFILE, by_priority, gates, hints)
        self.queue = self.kind(
            profiles or {PROFILE: profile},
            lister=self.lister,
            metrics=self.metrics,
            random=random.Random(0),
            **options,
        )
        self.woken = 0
        self.queue.on_ready = self._wake

    def _wake(self) -> None:
        self.woken += 1

    def wait(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.lister.pods[pod_key(pod)] = pod
            self.queue.add(pod, self.now_ns)

    def update(self, old: Pod, new: Pod) -> None:
        self.lister.pods[pod_key(new)] = new
        self.queue.update(old, new, self.now_ns)

    def pop(self) -> QueuedPodInfo:
        queued = self.queue.pop(self.now_ns)
        assert queued is not None
        return queued

    def pop_name(self) -> str | None:
        queued = self.queue.pop(self.now_ns)
        return None if queued is None else queued.pod.metadata.name

    def pop_names(self) -> list[str]:
        names = []
        while (name := self.pop_name()) is not None:
            names.append(name)
        return names

    def fail(
        self, queued: QueuedPodInfo, *rejectors: str, pending: Iterable[str] = ()
    ) -> QueueName:
        """What a scheduler does after a failed attempt: note the rejectors, put the pod back."""
        queued.pending_plugins = set(pending)
        queued.unschedulable_plugins = set(rejectors) | queued.pending_plugins
        queued.gating_plugin, queued.gating_events = "", ()
        queued.pod_info = PodInfo(self.lister.pods[pod_key(queued.pod)])
        return self.queue.add_unschedulable_if_not_present(queued, self.now_ns)

    def add_failed(self, pod: Pod, *rejectors: str, pending: Iterable[str] = ()) -> QueuedPodInfo:
        """Add a pod, pop it before all others, and fail its attempt."""
        self.add(pod)
        queued = self.pop()
        assert queued.pod is pod, "another pod was ahead"
        self.fail(queued, *rejectors, pending=pending)
        return queued

    def move(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> int:
        return self.queue.move_all(event, old, new, self.now_ns, pre_check)

    def activate(self, *pods: Pod) -> None:
        self.queue.activate({pod_key(pod): pod for pod in pods}, self.now_ns)

    def place(self, name: str, namespace: str = "default") -> str | None:
        place = self.queue.describe(f"{namespace}/{name}", self.now_ns)
        return None if place is None else place.place.value

    def pending(self) -> dict[str, int]:
        """The gauge `pending_pods`, without the zeros."""
        return {
            labels["queue"]: int(gauge.value)
            for labels, gauge in self.metrics.pending_pods.children()
            if gauge.value
        }

    def incoming(self) -> dict[tuple[str, str], int]:
        """The counter `queue_incoming_pods_total` by queue and event."""
        return {
            (labels["queue"], labels["event"]): int(counter.value)
            for labels, counter in self.metrics.queue_incoming_pods_total.children()
        }

    def rejections(self) -> dict[str, int]:
        """The gauge `unschedulable_pods` by plugin."""
        return {
            labels["plugin"]: int(gauge.value)
            for labels, gauge in self.metrics.unschedulable_pods.children()
        }

    def inflight_events(self) -> dict[str, int]:
        """The gauge `inflight_events`, without the zeros."""
        return {
            labels["event"]: int(gauge.value)
            for labels, gauge in self.metrics.inflight_events.children()
            if gauge.value
        }
