"""Mutants of the scheduling queue: backoff, requeueing, nominations."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from typing import Any

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key, pod_priority
from kubesched.errors import KubeschedError
from kubesched.framework import FitError, PodInfo, QueuedPodInfo
from kubesched.scheduler.backend.queue.requeue_decision import Strategy
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    nothing,
    replace,
    replace_names,
    skip_every,
    with_value,
    without_call,
    wrap,
    yes,
    zero,
)

__all__ = ["MUTANTS"]

_PACKAGE = "kubesched.scheduler.backend.queue"
_QUEUE = "kubesched.scheduler.backend.queue.scheduling_queue.SchedulingQueue"
_BACKOFF = "kubesched.scheduler.backend.queue.backoff.Backoff"
_BACKOFF_QUEUE = "kubesched.scheduler.backend.queue.backoff_queue.BackoffQueue"
_IN_FLIGHT = "kubesched.scheduler.backend.queue.in_flight.InFlight"
_NOMINATOR = "kubesched.scheduler.backend.queue.nominator.PodNominator"
_UNSCHEDULABLE = "kubesched.scheduler.backend.queue.unschedulable_pods.UnschedulablePods"
_DECISIONS = "kubesched.scheduler.backend.queue.requeue_decision.RequeueDecisions"
_FAILURES = "kubesched.scheduler.cycles.failure.FailureHandler"
_STATUS_PATCH = "kubesched.framework.pod_status_writer.status_patch"


class _KeepsEntries(Overlay):
    """A list from which nothing is deleted."""

    def __delitem__(self, key: Any) -> None:
        pass


def _pop_least_important(original: Any, self: Any, busy: Any) -> Any:
    if len(self._active) < 2:
        return original(self, busy)
    least = min(self._active, key=lambda queued: pod_priority(queued.pod))
    return self._active.delete(least.key)


def _move_only_the_first(
    original: Any, self: Any, event: Any, old: Any, new: Any, *args: Any, **options: Any
) -> Any:
    def about(*event_and_objects: Any) -> Any:
        decide, calls = self._decisions.about(*event_and_objects), itertools.count()
        return lambda queued: Strategy.SKIP if next(calls) else decide(queued)

    queue = Overlay(self, _decisions=Overlay(self._decisions, about=about))
    return original(queue, event, old, new, *args, **options)


def _record_events_only_with_candidates(
    original: Any, self: Any, event: Any, old: Any, new: Any, *args: Any, **options: Any
) -> Any:
    has_candidates = False

    def about(*event_and_objects: Any) -> Any:
        nonlocal has_candidates
        has_candidates = True
        return self._decisions.about(*event_and_objects)

    def record(*event_and_objects: Any) -> None:
        if has_candidates:
            self._in_flight.record(*event_and_objects)

    queue = Overlay(
        self,
        _decisions=Overlay(self._decisions, about=about),
        _in_flight=Overlay(self._in_flight, record=record),
    )
    return original(queue, event, old, new, *args, **options)


def _ignore_updates_of_ready_pods(
    original: Any, self: Any, old: Pod, new: Pod, now_ns: int
) -> None:
    is_ready = any(heap.get(pod_key(old)) for heap in (self._active, self._backing_off))
    if new.metadata.uid in self._in_flight or not is_ready:
        original(self, old, new, now_ns)


def _lose_activated_pod_from_backoff(original: Any, self: Any, pod: Pod, now_ns: int) -> Any:
    if self._unschedulable.get(pod_key(pod)) is not None:
        return original(self, pod, now_ns)
    self._backing_off.delete(pod_key(pod))
    return False


def _keep_old_pod_info(original: Any, self: Any, queued: QueuedPodInfo, old: Pod, new: Pod) -> None:
    self.nominator.update_nominated_pod(old, queued.pod_info)


def _count_incoming_pod_twice(
    original: Any, self: Any, queued: Any, key: str, queue: str, place: str, label: str, now_ns: int
) -> None:
    self._incoming[queue, label].value += 1
    original(self, queued, key, queue, place, label, now_ns)


def _count_rejectors_up_only(original: Any, self: Any, queued: Any, delta: int) -> None:
    original(self, queued, max(delta, 0))


def _delete_without_counting(_original: Any, self: Any, key: str) -> Any:
    return self.rejected.delete(key) or self.errored.delete(key)


def _grow_without_limit(original: Any, self: Any, count: int) -> int:
    duration_ns: int = original(self, count)
    return 1000 * duration_ns if duration_ns == self.max_ns else duration_ns


def _miss_first_event(original: Any, self: Any, uid: str) -> Any:
    events = original(self, uid)
    return None if events is None else events[1:]


def _see_last_event_only(original: Any, self: Any, uid: str) -> Any:
    events = original(self, uid)
    return None if events is None else events[-1:]


def _stop_replay_at_first_useless_event(
    original: Any, self: Any, queued: QueuedPodInfo, events: Sequence[Any] | None
) -> Any:
    def is_useful(seen: Any) -> bool:
        decision = self.decide(queued, seen.event, seen.old, seen.new)
        return decision is not Strategy.SKIP

    if events is not None:
        events = list(itertools.takewhile(is_useful, events))
    return original(self, queued, events)


def _keep(attribute: str) -> Any:
    """A wrapper that leaves one attribute of a failed pod as it was."""

    def record_failure(original: Any, self: Any, queued: QueuedPodInfo, now_ns: int) -> None:
        before = getattr(queued, attribute)
        original(self, queued, now_ns)
        setattr(queued, attribute, before)

    return record_failure


def _never_end_error_streak(original: Any, self: Any, queued: QueuedPodInfo, now_ns: int) -> None:
    before = queued.consecutive_errors_count
    original(self, queued, now_ns)
    queued.consecutive_errors_count = max(before, queued.consecutive_errors_count)


def _requeue_deleted_pod(
    original: Any, self: Any, queued: QueuedPodInfo, current: Pod | None
) -> None:
    original(self, queued, current or queued.pod)


def _requeue_assigned_pod(
    original: Any, self: Any, queued: QueuedPodInfo, current: Pod | None
) -> None:
    if current is None or not current.spec.node_name:
        original(self, queued, current)
        return
    queued.pod_info = PodInfo(current)
    with contextlib.suppress(KubeschedError):
        self._queue.add_unschedulable_if_not_present(queued, self._clock.now_ns())


def _lose_rejectors(original: Any, self: Any, attempt: Any, status: Any, nominating: Any) -> None:
    error = status.error
    if isinstance(error, FitError):
        diagnosis = Overlay(error.diagnosis, unschedulable_plugins=frozenset())
        status = Overlay(status, error=Overlay(error, diagnosis=diagnosis))
    original(self, attempt, status, nominating)


def _never_clear_nomination(
    original: Any, pod: Pod, condition: Any, nominated_node: str | None, now_ns: int
) -> Any:
    return original(pod, condition, nominated_node or None, now_ns)


def _match_equal_actions(original: Any, self: Any, incoming: Any) -> bool:
    return original(self, incoming) and (self.is_wildcard or incoming.action == self.action)


def _events_of_first_part(old: Pod, new: Pod) -> Any:
    from kubesched.scheduler.backend.queue import scheduling_queue

    return scheduling_queue.pod_update_events(old, new)[:1]


def _nominate_anew(_original: Any, self: Any, old: Pod, pod_info: PodInfo) -> None:
    self.delete_nominated_pod(old)
    self.add_nominated_pod(pod_info, None)


MUTANTS = {
    "events do not requeue any pod": Mutant(
        0, (replace(f"{_QUEUE}.move_all", zero), replace(f"{_QUEUE}.flush_unschedulable", zero))
    ),
    "events during an attempt are not recorded": Mutant(
        10, (replace(f"{_IN_FLIGHT}.record", nothing),)
    ),
    "backoff never ends": Mutant(1, (replace(f"{_QUEUE}.flush_backoff", zero),)),
    "a failed pod is not requeued": Mutant(0, (replace(f"{_FAILURES}._requeue", nothing),)),
    "pods stay in flight for ever": Mutant(0, (replace(f"{_QUEUE}.done", nothing),)),
    "deleted pods stay in the queue": Mutant(0, (replace(f"{_QUEUE}.delete", nothing),)),
    "updates of waiting pods are ignored": Mutant(0, (replace(f"{_QUEUE}.update", nothing),)),
    "a nomination outlives its pod": Mutant(
        0, (replace(f"{_NOMINATOR}.delete_nominated_pod", nothing),)
    ),
    "the least important pod is tried first": Mutant(
        0, (wrap(f"{_QUEUE}._pop_first", _pop_least_important),)
    ),
    "the gauge of pods in backoff is not decremented": Mutant(
        9, (wrap(f"{_BACKOFF_QUEUE}.delete", _delete_without_counting),)
    ),
    "an event requeues only the first candidate": Mutant(
        0, (wrap(f"{_QUEUE}.move_all", _move_only_the_first),)
    ),
    "backoff grows without limit": Mutant(
        3, (wrap(f"{_BACKOFF}.duration_ns", _grow_without_limit),)
    ),
    "a pod that was deleted during its attempt is requeued": Mutant(
        12, (wrap(f"{_FAILURES}._requeue", _requeue_deleted_pod),)
    ),
    "gated pods are tried": Mutant(4, (replace(f"{_PACKAGE}.pre_enqueue.Gatekeeper.check", yes),)),
    "a parked pod is filed under no plugin": Mutant(
        0, (replace(f"{_UNSCHEDULABLE}._buckets_for", tuple),)
    ),
    "events of ended attempts are not dropped": Mutant(
        0, (with_value(f"{_IN_FLIGHT}.done", "self._events", _KeepsEntries),)
    ),
    "a nomination is never cleared": Mutant(1, (wrap(_STATUS_PATCH, _never_clear_nomination),)),
    "nominated pods are invisible to other pods": Mutant(
        2,
        (
            replace(f"{_NOMINATOR}.nominated_pods", lambda *_: ()),
            replace(f"{_NOMINATOR}.nominated_nodes", lambda *_: ()),
        ),
    ),
    "pods that enter a queue are counted twice": Mutant(
        0, (wrap(f"{_QUEUE}._entered", _count_incoming_pod_twice),)
    ),
    "backoff ends at once": Mutant(438, (replace(f"{_BACKOFF}.duration_ns", zero),)),
    "the first event of an attempt is missed": Mutant(
        90, (wrap(f"{_IN_FLIGHT}.events_since_pop", _miss_first_event),)
    ),
    "a pod that is activated in flight is not tried again": Mutant(
        10, (with_value(f"{_QUEUE}.activate", "self._in_flight.record", lambda _: nothing),)
    ),
    "a pod that is activated during backoff is lost": Mutant(
        438, (wrap(f"{_QUEUE}._activate", _lose_activated_pod_from_backoff),)
    ),
    "of several pods that are flushed all but the last are lost": Mutant(
        39,
        (wrap(f"{_UNSCHEDULABLE}.take_older_than", lambda original, *args: original(*args)[-1:]),),
    ),
    "a pod that changes while it waits is tried as it was": Mutant(
        0, (wrap(f"{_QUEUE}._replace_pod", _keep_old_pod_info),)
    ),
    "the end of a backoff does not wake the scheduler": Mutant(
        11, (without_call(f"{_QUEUE}.flush_backoff", "self._wake"),)
    ),
    "no nomination is recorded": Mutant(7, (replace(f"{_NOMINATOR}.add_nominated_pod", nothing),)),
    "changes of nominations are not logged": Mutant(7, (replace(f"{_NOMINATOR}._note", nothing),)),
    "a failed pod loses its rejectors": Mutant(
        12,
        (wrap(f"{_FAILURES}.handle", _lose_rejectors),),
    ),
    "a pod that was recreated is requeued as the deleted one": Mutant(
        6, (replace("kubesched.scheduler.cycles.failure._is_another", lambda *_: False),)
    ),
    "the counts of rejectors are never decremented": Mutant(
        438, (wrap(f"{_QUEUE}._count_rejectors", _count_rejectors_up_only),)
    ),
    "of several events during an attempt only the last counts": Mutant(
        13, (wrap(f"{_IN_FLIGHT}.events_since_pop", _see_last_event_only),)
    ),
    "the replay of events stops at the first that does not help": Mutant(
        10, (wrap(f"{_DECISIONS}.replay", _stop_replay_at_first_useless_event),)
    ),
    "events are recorded for attempts only if parked pods are candidates": Mutant(
        10, (wrap(f"{_QUEUE}.move_all", _record_events_only_with_candidates),)
    ),
    "an event that requeues pods does not wake the scheduler": Mutant(
        0, (without_call(f"{_QUEUE}.move_all", "self._wake"),)
    ),
    "updates of pods in the active queue or in backoff are ignored": Mutant(
        2, (wrap(f"{_QUEUE}.update", _ignore_updates_of_ready_pods),)
    ),
    "of an update with two kinds of changes only the first counts": Mutant(
        58,
        (replace_names(f"{_QUEUE}._requeue_updated", pod_update_events=_events_of_first_part),),
    ),
    "a streak of errors never ends": Mutant(
        1, (wrap(f"{_QUEUE}._record_failure", _never_end_error_streak),)
    ),
    "the end of a backoff is computed once per pod": Mutant(
        0, (wrap(f"{_QUEUE}._record_failure", _keep("backoff_expiration_ns")),)
    ),
    "every backoff begins with the first failure": Mutant(
        0, (wrap(f"{_QUEUE}._record_failure", _keep("timestamp_ns")),)
    ),
    "pods whose attempt ended in an error are never tried again": Mutant(
        1,
        (
            with_value(
                f"{_BACKOFF_QUEUE}.pop_completed",
                "self.errored",
                lambda heap: Overlay(heap, peek=nothing),
            ),
        ),
    ),
    "an event matches only a registration of the very same actions": Mutant(
        0, (wrap("kubesched.framework.cluster_events.ClusterEvent.matches", _match_equal_actions),)
    ),
    "an assigned pod is requeued after a failed attempt": Mutant(
        6, (wrap(f"{_FAILURES}._requeue", _requeue_assigned_pod),)
    ),
    "a third of the calls that record an attempt are left out": Mutant(
        0,
        (
            skip_every(
                "kubesched.foundation.metrics.scheduler_metrics.SchedulerMetrics.observe_attempt", 3
            ),
        ),
    ),
    "the end of an attempt drops the events of other attempts": Mutant(
        173, (replace_names(f"{_IN_FLIGHT}.done", iter=reversed),)
    ),
    "a nomination that is not written is lost with an update": Mutant(
        7, (wrap(f"{_NOMINATOR}.update_nominated_pod", _nominate_anew),)
    ),
}
