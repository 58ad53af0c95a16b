"""Pods in flight, and the events that arrived while they are.

docs/reference/03 §11. An event that arrives during an attempt does not find the pod among the
waiting ones. It is recorded here, and replayed if the attempt fails. An event is stored as long as
a pod is in flight that was popped before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.foundation.metrics.instruments import GaugeMetric, KeptChildren
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.framework import ClusterEvent, QueuedPodInfo

__all__ = ["InFlight", "InFlightPod", "SeenEvent"]

POD_POPPED = "PodPopped"


class SeenEvent(msgspec.Struct, frozen=True):
    """An event, with the object before and after it."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlightPod(msgspec.Struct, frozen=True, gc=False):
    """A popped pod whose attempt has not ended."""

    queued: QueuedPodInfo
    popped: Pod  # the pod at the time when it was popped
    since_ns: int
    position: int  # how many events had been recorded when it was popped


class InFlight:
    """The pods in flight by uid, and the recorded events in the order of arrival."""

    def __init__(self, metrics: SchedulerMetrics) -> None:
        self._kept: KeptChildren[str, GaugeMetric] = KeptChildren(metrics.inflight_events.labels)
        self._pods: OrderedDict[str, InFlightPod] = OrderedDict()
        self._events: list[SeenEvent] = []
        self._dropped = 0  # the number of events dropped before self._events[0]

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[InFlightPod]:
        """Iterate in the order the pods were popped."""
        return iter(self._pods.values())

    def get(self, uid: str) -> InFlightPod | None:
        return self._pods.get(uid)

    def start(self, queued: QueuedPodInfo, now_ns: int) -> None:
        pod = queued.pod
        self._pods[pod.metadata.uid] = InFlightPod(
            queued, pod, now_ns, self._dropped + len(self._events)
        )
        self._kept[POD_POPPED].value += 1

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event for the pods in flight, if there are any."""
        if self._pods:
            self._events.append(SeenEvent(event, old, new))
            self._kept[event.label].value += 1

    def events_since_pop(self, uid: str) -> Sequence[SeenEvent] | None:
        """Return the events since the pod was popped; None if it is not in flight."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        return self._events[pod.position - self._dropped :]

    def done(self, uid: str) -> InFlightPod | None:
        """Remove the pod, and the events that no pod in flight needs any more."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._kept[POD_POPPED].value -= 1
        kept_from = self._dropped + len(self._events)
        if self._pods:
            kept_from = next(iter(self._pods.values())).position
        if obsolete := kept_from - self._dropped:
            for seen in self._events[:obsolete]:
                self._kept[seen.event.label].value -= 1
            del self._events[:obsolete]
            self._dropped = kept_from
        return pod

    def timeline(self) -> list[Pod | SeenEvent]:
        """Return pops and events in chronological order."""
        entries: list[Pod | SeenEvent] = []
        position = self._dropped
        for pod in self._pods.values():
            entries += self._events[position - self._dropped : pod.position - self._dropped]
            entries.append(pod.popped)
            position = pod.position
        return entries + self._events[position - self._dropped :]

    def check_invariants(self) -> None:
        positions = [pod.position for pod in self._pods.values()]
        assert positions == sorted(positions), "pods in flight are not in the order of their pops"
        if positions:
            assert positions[0] == self._dropped, "an event is stored that no pod in flight needs"
        else:
            assert not self._events, "events are stored while no pod is in flight"
        for uid, pod in self._pods.items():
            assert uid == pod.popped.metadata.uid, f"a pod in flight is stored under {uid!r}"
