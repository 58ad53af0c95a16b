"""All containers of the scheduling queue together: lookups and invariants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubesched.api.pod_facts import pod_key
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.framework import PodInfo, QueuedPodInfo
from kubesched.scheduler.backend.queue.active_queue import ActiveLines, ActiveQueue, Needs
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.backoff_queue import BackoffQueue
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.scheduler.backend.queue.journal import Journal
from kubesched.scheduler.backend.queue.queue_profile import QueueSortKey
from kubesched.scheduler.backend.queue.unschedulable_pods import UnschedulablePods
from kubesched.scheduler.backend.queue.view import Place

__all__ = ["Containers", "WaitingPodsByContainer"]


class WaitingPodsByContainer(NamedTuple):
    """The pods that were removed from the containers."""

    active: list[QueuedPodInfo]
    backoff: list[QueuedPodInfo]
    unschedulable: list[QueuedPodInfo]


class Containers:
    """The containers of waiting pods, the pods in flight, and the journal. Moves no pods."""

    def __init__(
        self,
        sort_key: QueueSortKey,
        backoff: Backoff,
        profiles: frozenset[str],
        metrics: SchedulerMetrics,
        needs: Needs | None = None,
    ) -> None:
        self.active: ActiveQueue | ActiveLines = (
            ActiveQueue(sort_key, metrics)
            if needs is None
            else ActiveLines(sort_key, metrics, needs)
        )
        self.backoff = BackoffQueue(backoff, sort_key, metrics)
        self.unschedulable = UnschedulablePods(profiles, metrics)
        self.in_flight = InFlight(metrics)
        self.journal = Journal()

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Iterate over all waiting pods."""
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable

    def take_all(self) -> WaitingPodsByContainer:
        """Remove and return all waiting pods, each list in its order. The journal stays."""
        active: list[QueuedPodInfo] = []
        while (queued := self.active.pop_unless(())) is not None:
            active.append(queued)
        backoff = [*self.backoff.rejected.in_order(), *self.backoff.errored.in_order()]
        for queued in backoff:
            self.backoff.delete(queued.key)
        unschedulable = list(self.unschedulable)
        for queued in unschedulable:
            self.unschedulable.delete(queued.key)
        return WaitingPodsByContainer(active, backoff, unschedulable)

    def use_profiles(self, sort_key: QueueSortKey, profiles: frozenset[str]) -> None:
        """Order and index pods by other profiles from now on; there must be no waiting pod."""
        self.active.order_by(sort_key)
        self.backoff.order_by(sort_key)
        self.unschedulable.use_profiles(profiles)

    def find(self, key: str) -> QueuedPodInfo | None:
        """Return the waiting pod with this key."""
        return self.active.get(key) or self.unschedulable.get(key) or self.backoff.get(key)

    def find_pod_info(self, key: str) -> PodInfo | None:
        queued = self.find(key)
        return None if queued is None else queued.pod_info

    def locate(self, key_or_uid: str) -> tuple[QueuedPodInfo, Place, int] | None:
        """Return a pod, its place, and since when it is there.

        Of two pods with the same key, the waiting one is returned. The uid of a waiting pod is
        searched in all containers.
        """
        if (queued := self.find(key_or_uid)) is not None:
            return self._waiting_place(queued)
        if (flying := self.in_flight.get(key_or_uid)) is not None:
            return flying.queued, Place.IN_FLIGHT, flying.since_ns
        for queued in self:
            if queued.pod.metadata.uid == key_or_uid:
                return self._waiting_place(queued)
        for flying in self.in_flight:
            if pod_key(flying.popped) == key_or_uid:
                return flying.queued, Place.IN_FLIGHT, flying.since_ns
        return None

    def check_invariants(self) -> None:
        """Assert that the containers agree; a failure lists the pod's transitions."""
        for container in (self.active, self.backoff, self.unschedulable, self.in_flight):
            container.check_invariants()
        seen: set[str] = set()
        for queued in self:
            key = queued.key
            if problem := self._problem_of(queued, key, seen):
                lines = (f"{key} {problem}", *map(str, self.journal.transitions(key)))
                raise AssertionError("\n  ".join(lines))
            seen.add(key)
        self.journal.check_invariants(seen)

    def _waiting_place(self, queued: QueuedPodInfo) -> tuple[QueuedPodInfo, Place, int]:
        key = queued.key
        if key in self.active:
            place = Place.ACTIVE
        elif key in self.backoff:
            place = self.backoff.place_of(key)
        else:
            place = Place.GATED if queued.is_gated else Place.UNSCHEDULABLE
        return queued, place, self.journal.since_ns(key)

    def _problem_of(self, queued: QueuedPodInfo, key: str, seen: set[str]) -> str:
        """Return what is inconsistent about a waiting pod; empty if nothing is."""
        if key in seen:
            return "waits in two places"
        if queued.pod.metadata.uid in self.in_flight:
            return "waits and is in flight"
        if queued.is_gated and key not in self.unschedulable:
            return f"is gated by {queued.gating_plugin} but not parked"
        return ""
