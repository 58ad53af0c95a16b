"""The scheduling queue: the pods that wait to be scheduled (docs/reference/03).

A plain class: it takes events and the time, and changes its state. It reads no clock and starts no
task. It calls only plugins (QueueSort, PreEnqueue, queueing hints), which must not call back, and
`on_ready` when there may be a pod to pop.

A pod waits in one of four containers: active (ready), backoff (ready when its backoff has expired),
unschedulable (waiting for an event) or, as part of the latter, gated (rejected by a PreEnqueue
plugin). A popped pod is in flight until `done`. Events that arrive meanwhile are recorded and
replayed if the attempt fails, so that no pod misses the event that it waits for.
"""

from __future__ import annotations

import enum
import random as random_module
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from typing import Any

from prometheus_client import CollectorRegistry

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.errors import KubeschedError
from kubesched.foundation.metrics.instruments import CounterMetric, KeptChildren
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import MINUTE, SECOND
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    ActionType,
    ClusterEvent,
    EventResource,
    PodInfo,
    QueuedPodInfo,
)
from kubesched.framework.object_changes import pod_update_events
from kubesched.framework.pod_info import PodInfos
from kubesched.scheduler.backend.queue.active_queue import Needs
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.containers import Containers
from kubesched.scheduler.backend.queue.journal import Transition
from kubesched.scheduler.backend.queue.nominator import PodLister, PodNominator
from kubesched.scheduler.backend.queue.pre_enqueue import Gatekeeper
from kubesched.scheduler.backend.queue.queue_profile import QueueProfile
from kubesched.scheduler.backend.queue.queueing_hints import HintTable, Strategy
from kubesched.scheduler.backend.queue.requeue_decision import RequeueDecisions
from kubesched.scheduler.backend.queue.view import Place, PodPlace, describe_pod

__all__ = ["AlreadyQueuedError", "QueueName", "SchedulingQueue"]

log = get_logger(__name__)

# Labels of the queue's own operations in metrics.
POD_ADDED = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD).label
POD_UPDATED = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE).label
ATTEMPT_FAILED = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POPPED_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ForceActivate")
PROFILES_REPLACED = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "ProfilesReplaced")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(EventResource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")


class AlreadyQueuedError(KubeschedError):
    """A failed pod was put back although a pod with its key is waiting."""


class QueueName(enum.Enum):
    """The container that a pod was put into."""

    ACTIVE = "Active"
    BACKOFF = "Backoff"
    UNSCHEDULABLE = "Unschedulable"


class SchedulingQueue:
    """The queue of all profiles, ordered by the first profile's QueueSort plugin."""

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        *,
        lister: PodLister,
        random: random_module.Random,
        metrics: SchedulerMetrics | None = None,
        monotonic_ns: Callable[[], int] | None = None,
        initial_backoff_ns: int = 1 * SECOND,
        max_backoff_ns: int = 10 * SECOND,
        max_in_unschedulable_ns: int = 5 * MINUTE,
        needs: Needs | None = None,
        pops_from_backoff: bool = True,
    ) -> None:
        """`monotonic_ns` is for durations in metrics; without it none are observed.

        `needs` returns the extenders that an attempt at a pod waits for; without it there are none.
        `pops_from_backoff` is the gate SchedulerPopFromBackoffQ. Without it no pod leaves its
        backoff early, and PreEnqueue runs when a pod leaves its backoff, not when it enters it.
        """
        # Called when there may be a pod to pop.
        self.on_ready: Callable[[], None] | None = None
        # Called when a pod enters the empty backoff queue.
        self.on_backoff: Callable[[], None] | None = None
        self.scheduling_cycle = 0
        self.is_closed = False
        self._metrics = metrics or SchedulerMetrics(CollectorRegistry())
        incoming = self._metrics.queue_incoming_pods_total
        self._incoming: KeptChildren[tuple[str, str], CounterMetric] = KeptChildren(
            lambda labels: incoming.labels(*labels)
        )
        self._max_in_unschedulable_ns = max_in_unschedulable_ns
        self._random, self._monotonic_ns = random, monotonic_ns
        self._use(profiles)
        self._pops_from_backoff = pops_from_backoff
        window_ns = SECOND if pops_from_backoff else 1
        self._backoff = Backoff(initial_backoff_ns, max_backoff_ns, window_ns)
        containers = Containers(
            self._sort_key, self._backoff, frozenset(profiles), self._metrics, needs
        )
        self._needs = needs
        self._containers = containers
        self._active = containers.active
        self._backing_off = containers.backoff
        self._unschedulable = containers.unschedulable
        self._in_flight = containers.in_flight
        self._journal = containers.journal
        self._infos = PodInfos()
        self.nominator = PodNominator(lister, containers.find_pod_info)

    def _use(self, profiles: Mapping[str, QueueProfile]) -> None:
        self._profiles = frozenset(profiles)
        self._sort_key = next(iter(profiles.values())).sort_key
        self._hints = HintTable({name: profile.hints for name, profile in profiles.items()})
        self._decisions = RequeueDecisions(self._hints, self._metrics, self._monotonic_ns)
        self._gatekeeper = Gatekeeper(
            {name: profile.pre_enqueue for name, profile in profiles.items()},
            self._hints.events_of,
            self._metrics,
            self._random,
            self._monotonic_ns,
        )

    def replace_profiles(
        self,
        profiles: Mapping[str, QueueProfile],
        now_ns: int,
        *,
        initial_backoff_ns: int,
        max_backoff_ns: int,
    ) -> list[Pod]:
        """Use other profiles and backoffs from now on (docs/decisions/0045).

        All waiting pods enter the queue again: their new PreEnqueue plugins are called, and pods
        that were rejected are requeued after their backoff. Pods without a profile leave the queue,
        and are returned. Pods in flight that are rejected by old plugins are requeued too. A pod
        that is backing off keeps its time.
        """
        by_container = self._containers.take_all()
        self._use(profiles)
        self._containers.use_profiles(self._sort_key, self._profiles)
        self._backoff.initial_ns, self._backoff.max_ns = initial_backoff_ns, max_backoff_ns
        label, dropped = PROFILES_REPLACED.label, []
        for taken in chain(*by_container):
            if not self.serves(taken.pod):
                self._drop(taken, now_ns)
                dropped.append(taken.pod)
        for queued in filter(self._is_served, by_container.active):
            self._move_to_active(queued, label, now_ns)
        for queued in filter(self._is_served, by_container.backoff):
            self._move_to_backoff(queued, label, now_ns)
        for queued in filter(self._is_served, by_container.unschedulable):
            self._requeue(queued, Strategy.AFTER_BACKOFF, label, now_ns)
        self._in_flight.record(PROFILES_REPLACED, None, None)
        self._wake()
        return dropped

    def _drop(self, queued: QueuedPodInfo, now_ns: int) -> None:
        """Discard the state of a pod that was removed from its container."""
        self.nominator.delete_nominated_pod(queued.pod)
        self._count_rejectors(queued, -1)
        self._journal.leave(queued.key, "gone", "profile removed", now_ns)

    def _is_served(self, queued: QueuedPodInfo) -> bool:
        return self.serves(queued.pod)

    def serves(self, pod: Pod) -> bool:
        """Whether the scheduler name of the pod is the name of a profile."""
        return pod.spec.scheduler_name in self._profiles

    def holds(self, pod: Pod) -> bool:
        """Whether the pod waits here or is in flight."""
        return pod.metadata.uid in self._in_flight or self._journal.is_waiting(pod_key(pod))

    def add(self, pod: Pod, now_ns: int) -> None:
        """Add a pod that waits for a node. It replaces a pod with the same key."""
        if self._move_to_active(self._new_entry(pod, now_ns), POD_ADDED, now_ns):
            self._wake()

    def update(self, old: Pod, new: Pod, now_ns: int) -> None:
        """Replace a waiting pod by a newer version.

        An unschedulable pod is requeued if the hints of its rejectors say that the change may make
        it schedulable. Other pods are not requeued.
        """
        if new.metadata.uid in self._in_flight:
            for event in pod_update_events(old, new):
                self._in_flight.record(event, old, new)
            return
        for heap in (self._active, self._backing_off):
            queued = heap.get(pod_key(old))
            if queued is not None:
                self._replace_pod(queued, old, new)
                heap.update(queued)
                return
        queued = self._unschedulable.get(pod_key(new))
        if queued is not None:
            self._replace_pod(queued, old, new)
            self._unschedulable.put(queued)
            self._requeue_updated(queued, old, new, now_ns)
        elif self._move_to_active(self._new_entry(new, now_ns), POD_UPDATED, now_ns):
            self._wake()

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted or bound. If it is in flight, it stays in flight."""
        self.nominator.delete_nominated_pod(pod)
        key = pod_key(pod)
        if not self._journal.is_waiting(key):  # the usual case for a pod that was bound
            return
        if self._active.delete(key) is None and self._backing_off.delete(key) is None:
            queued = self._unschedulable.delete(key)
            if queued is None:
                return
            self._count_rejectors(queued, -1)
        self._journal.leave(key, "gone", "delete")

    def pop(self, now_ns: int, busy: Collection[str] = ()) -> QueuedPodInfo | None:
        """Remove and return the pod to try next; None if no pod is ready.

        If no pod is active, the first rejected pod leaves its backoff early. Pods whose attempts
        need an extender that is `busy` are skipped.
        """
        while (queued := self._pop_first(busy)) is not None:
            if self._take_off(queued, now_ns):
                return queued
        return None

    def _take_off(self, queued: QueuedPodInfo, now_ns: int) -> bool:
        """Mark a pod that left its container as in flight; False if it already was."""
        queued.attempts += 1
        key, uid = queued.key, queued.pod.metadata.uid
        if uid in self._in_flight:
            log.error("the same pod is tracked in multiple places in the scheduler", pod=queued.pod)
            self._journal.leave(key, "gone", "popped while in flight", now_ns)
            return False
        self._in_flight.start(queued, now_ns)
        self.nominator.touch(uid)
        self._journal.leave(key, Place.IN_FLIGHT, "pop", now_ns)
        self.scheduling_cycle += 1
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._count_rejectors(queued, -1)
        return True

    def done(self, uid: str) -> None:
        """End the attempt of a popped pod that was placed or needs no node. Idempotent."""
        pod = self._in_flight.done(uid)
        if pod is not None:
            self._journal.note(pod.queued.key, "done", "done")

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo, now_ns: int) -> QueueName:
        """Put back a popped pod whose attempt failed, and return the container. It is then done.

        The caller has set the pod's new rejectors. Events that arrived while the pod was in flight
        are replayed first, so that it does not wait for an event that has already happened.

        Raises:
            AlreadyQueuedError: a pod with this key is waiting; the popped one is dropped.
        """
        uid = queued.pod.metadata.uid
        try:
            self._refuse_if_present(queued)
            self._record_failure(queued, now_ns)
            self._count_rejectors(queued, 1)
            strategy = self._strategy_after_failure(queued)
            went_to = self._requeue(queued, strategy, ATTEMPT_FAILED, now_ns)
        finally:
            self._in_flight.done(uid)
            self.nominator.touch(uid)
        if went_to is not QueueName.UNSCHEDULABLE:
            self._wake()
        return went_to

    def _record_failure(self, queued: QueuedPodInfo, now_ns: int) -> None:
        """Update what the backoff of a pod is computed from."""
        if queued.unschedulable_plugins or queued.pending_plugins:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp_ns = now_ns
        queued.backoff_expiration_ns = None
        queued.flush_timestamp_ns = 0
        queued.was_flushed_from_unschedulable = False

    def _strategy_after_failure(self, queued: QueuedPodInfo) -> Strategy:
        if self.is_closed:
            return Strategy.AFTER_BACKOFF  # `close` has ended the attempt, with its events
        events = self._in_flight.events_since_pop(queued.pod.metadata.uid)
        return self._decisions.replay(queued, events)

    def activate(self, pods: Mapping[str, Pod], now_ns: int) -> None:
        """Move pods to the active queue, whatever they wait for, unless they are gated.

        A pod in flight is tried again after its backoff if its attempt fails.
        """
        activated = False
        for pod in pods.values():
            if self._activate(pod, now_ns):
                activated = True
            elif pod.metadata.uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, pod)
        if activated:
            self._wake()

    def move_all(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now_ns: int,
        pre_check: Callable[[Pod], bool] | None = None,
    ) -> int:
        """Requeue the unschedulable pods that an event may make schedulable; return how many.

        `pre_check` restricts the waiting pods. For pods in flight the event is always recorded.
        """
        interest = self._hints.interest_in(event)
        if event.is_wildcard:
            candidates = list(self._unschedulable)
        elif interest:
            candidates = self._unschedulable.candidates(interest)
        else:
            return 0
        if pre_check is not None:
            candidates = [queued for queued in candidates if pre_check(queued.pod)]
        moved = 0
        if candidates:
            decide = self._decisions.about(event, old, new)
            for queued in candidates:
                strategy = decide(queued)
                if strategy is not Strategy.SKIP:
                    self._unschedulable.delete(queued.key)
                    went_to = self._requeue(queued, strategy, event.label, now_ns)
                    moved += went_to is not QueueName.UNSCHEDULABLE
        self._in_flight.record(event, old, new)
        if moved:
            self._wake()
        return moved

    def flush_backoff(self, now_ns: int) -> int:
        """Move pods whose backoff has expired to the active queue; return how many.

        To be called every second.
        """
        completed = self._backing_off.pop_completed(now_ns)
        for queued in completed:
            is_checked = self._pops_from_backoff
            self._move_to_active(queued, BACKOFF_COMPLETE, now_ns, is_checked=is_checked)
        if completed:
            self._wake()
        return len(completed)

    def flush_unschedulable(self, now_ns: int) -> int:
        """Requeue pods that have waited very long without an event; return how many.

        This covers events that a plugin failed to register. To be called every 30 seconds.
        """
        self._infos = PodInfos()  # it has the last pod, which may be large and deleted
        overdue = self._unschedulable.take_older_than(now_ns - self._max_in_unschedulable_ns)
        moved = 0
        for queued in overdue:
            queued.was_flushed_from_unschedulable = True
            queued.flush_timestamp_ns = now_ns
            label = UNSCHEDULABLE_TIMEOUT.label
            went_to = self._requeue(queued, Strategy.AFTER_BACKOFF, label, now_ns)
            moved += went_to is not QueueName.UNSCHEDULABLE
        if overdue:
            self._in_flight.record(UNSCHEDULABLE_TIMEOUT, None, None)
        if moved:
            self._wake()
        return moved

    def close(self) -> None:
        """End all attempts and call `on_ready`. Waiting pods may still be popped."""
        for pod in list(self._in_flight):
            self._in_flight.done(pod.popped.metadata.uid)
        self.is_closed = True
        self._wake()

    @property
    def active_pods(self) -> list[Pod]:
        """The pods that are ready, in no particular order."""
        return [queued.pod for queued in self._active]

    @property
    def has_backoff(self) -> bool:
        """Whether any pod is backing off."""
        return len(self._backing_off) > 0

    @property
    def backoff_pods(self) -> list[Pod]:
        return [queued.pod for queued in self._backing_off]

    @property
    def unschedulable_pods(self) -> list[Pod]:
        """The pods that wait for an event, including gated ones."""
        return [queued.pod for queued in self._unschedulable]

    @property
    def in_flight_pods(self) -> list[Pod]:
        """The pods being tried, as they were when they were popped."""
        return [pod.popped for pod in self._in_flight]

    def pending_pods(self) -> tuple[list[Pod], str]:
        """Return all waiting pods and a summary by container, without those in flight."""
        summary = (
            f"activeQ:{len(self._active)}; backoffQ:{len(self._backing_off)}; "
            f"unschedulablePods:{len(self._unschedulable)}"
        )
        return self.active_pods + self.backoff_pods + self.unschedulable_pods, summary

    def lengths(self) -> dict[str, int]:
        """Return the number of pods in each container; gated pods are counted separately."""
        gated = self._unschedulable.gated_count
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def transitions(self, key: str) -> tuple[Transition, ...]:
        """Return the recent transitions of the pods with this key, including removed ones."""
        return self._journal.transitions(key)

    def get_pod(self, name: str, namespace: str) -> QueuedPodInfo | None:
        """Return the waiting pod with this name."""
        return self._containers.find(f"{namespace}/{name}")

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None:
        """Return the container of a pod and the events that it waits for.

        None if it is not in the queue.

        A key ("namespace/name") is looked up; a uid is searched in the whole queue.
        """
        located = self._containers.locate(pod_key_or_uid)
        if located is None:
            return None
        queued, place, since_ns = located
        pod = queued.pod
        return describe_pod(
            queued,
            place,
            since_ns=since_ns,
            now_ns=now_ns,
            backoff=self._backoff,
            max_in_unschedulable_ns=self._max_in_unschedulable_ns,
            hints=self._hints.of_profile(pod.spec.scheduler_name),
            nominated_to=self.nominator.node_of(pod.metadata.uid) or "",
            transitions=self._journal.transitions(pod_key(pod)),
        )

    def line(self) -> list[str]:
        """Return the keys of the active pods in the order in which they will be popped."""
        return [queued.key for queued in sorted(self._active, key=self._sort_key)]

    def check_invariants(self) -> None:
        """Assert that the queue is consistent; a failure lists the pod's transitions."""
        self._containers.check_invariants()
        self.nominator.check_invariants()

    def _move_to_active(
        self, queued: QueuedPodInfo, label: str, now_ns: int, *, is_checked: bool = False
    ) -> bool:
        """Move a pod to the active queue unless PreEnqueue rejects it; return whether it moved.

        `is_checked`: PreEnqueue accepted the pod before it entered the backoff queue.
        """
        key = queued.key
        if not is_checked and not self._gatekeeper.check(queued):
            if key not in self._active and key not in self._backing_off:
                self._park_gated(queued, key, label, now_ns)
            return False
        if queued.initial_attempt_timestamp_ns is None:
            queued.initial_attempt_timestamp_ns = now_ns
        self._active.add(queued)
        if self._journal.is_waiting(key):  # a new pod is in no other container
            self._unschedulable.delete(key)
            self._backing_off.delete(key)
        self._entered(queued, key, "active", Place.ACTIVE, label, now_ns)
        if label in (POD_ADDED, POD_UPDATED):
            self.nominator.add_nominated_pod(queued.pod_info, None)
        return True

    def _move_to_backoff(self, queued: QueuedPodInfo, label: str, now_ns: int) -> bool:
        key = queued.key
        if self._pops_from_backoff and not self._gatekeeper.check(queued):
            self._park_gated(queued, key, label, now_ns)
            return False
        self._unschedulable.delete(key)
        if self._backing_off.add(queued):
            if len(self._backing_off) == 1 and self.on_backoff is not None:
                self.on_backoff()
            place = self._backing_off.place_of(key)
            self._entered(queued, key, "backoff", place, label, now_ns)
        return True

    def _park_gated(self, queued: QueuedPodInfo, key: str, label: str, now_ns: int) -> None:
        queued.was_flushed_from_unschedulable = False
        self._park(queued, key, label, now_ns)

    def _park(self, queued: QueuedPodInfo, key: str, label: str, now_ns: int) -> None:
        if self._unschedulable.put(queued):
            place = Place.GATED if queued.is_gated else Place.UNSCHEDULABLE
            self._entered(queued, key, "unschedulable", place, label, now_ns)

    def _entered(
        self, queued: QueuedPodInfo, key: str, queue: str, place: str, label: str, now_ns: int
    ) -> None:
        self._incoming[queue, label].value += 1
        self._journal.enter(key, place, label, now_ns)
        if log.enabled(5):
            pod = queued.pod
            log.detail(
                5, "Pod moved to an internal scheduling queue", pod=pod, event=label, queue=queue
            )

    def _requeue(
        self, queued: QueuedPodInfo, strategy: Strategy, label: str, now_ns: int
    ) -> QueueName:
        if strategy is Strategy.SKIP:
            self._park(queued, queued.key, label, now_ns)
            return QueueName.UNSCHEDULABLE
        must_wait = strategy is Strategy.AFTER_BACKOFF
        if must_wait and self._backoff.is_backing_off(queued, now_ns):
            if self._move_to_backoff(queued, label, now_ns):
                return QueueName.BACKOFF
        elif self._move_to_active(queued, label, now_ns):
            return QueueName.ACTIVE
        return QueueName.UNSCHEDULABLE

    def _requeue_updated(self, queued: QueuedPodInfo, old: Pod, new: Pod, now_ns: int) -> None:
        """Requeue a pod by the events of its own update, until one of them requeues it."""
        for event in pod_update_events(old, new):
            strategy = self._decisions.decide(queued, event, old, new)
            if self._requeue(queued, strategy, event.label, now_ns) is not QueueName.UNSCHEDULABLE:
                self._wake()
                return

    def _activate(self, pod: Pod, now_ns: int) -> bool:
        key, label = pod_key(pod), FORCE_ACTIVATE.label
        queued = self._unschedulable.get(key)
        if queued is not None:
            return self._move_to_active(queued, label, now_ns)
        queued = self._backing_off.delete(key)
        if queued is not None:
            return self._move_to_active(queued, label, now_ns, is_checked=self._pops_from_backoff)
        return False

    def _pop_first(self, busy: Collection[str]) -> QueuedPodInfo | None:
        queued = self._active.pop_unless(busy)
        if queued is not None or not self._pops_from_backoff or not self._backing_off.rejected:
            return queued
        if busy and self._needs is not None:
            needs = self._needs
            queued = self._backing_off.pop(lambda head: needs(head.pod).isdisjoint(busy))
        else:
            queued = self._backing_off.pop()
        if queued is not None:
            self._metrics.queue_incoming_pods_total.labels("active", POPPED_FROM_BACKOFF).inc()
        return queued

    def _refuse_if_present(self, queued: QueuedPodInfo) -> None:
        key = queued.key
        if key in self._unschedulable:
            where = "unschedulable queue"
        elif key in self._active:
            where = "the active queue"
        elif key in self._backing_off:
            where = "the backoff queue"
        else:
            return
        raise AlreadyQueuedError(f"Pod {key} is already present in {where}")

    def _new_entry(self, pod: Pod, now_ns: int) -> QueuedPodInfo:
        queued = QueuedPodInfo(pod, now_ns, self._infos.info_of(pod))
        self.nominator.touch(pod.metadata.uid)
        return queued

    def _replace_pod(self, queued: QueuedPodInfo, old: Pod, new: Pod) -> None:
        # A pod may be resized while it waits, so nothing computed from the old one is reused.
        queued.pod_info = PodInfo(new)
        self.nominator.update_nominated_pod(old, queued.pod_info)

    def _count_rejectors(self, queued: QueuedPodInfo, delta: int) -> None:
        profile = queued.pod.spec.scheduler_name
        for plugin in queued.rejectors:
            self._metrics.unschedulable_pods.labels(plugin, profile).inc(delta)

    def _wake(self) -> None:
        if self.on_ready is not None:
            self.on_ready()
