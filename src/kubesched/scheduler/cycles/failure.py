"""Handles failed attempts: requeue, event, condition, nomination (docs/reference/04 §15)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from kubesched.api import Pod, PodCondition
from kubesched.api.access import ApiError
from kubesched.errors import KubeschedError, drop_tracebacks, place_of
from kubesched.foundation.client.event_recorder import truncate_note
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    FitError,
    Lister,
    Nominating,
    NominatingMode,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from kubesched.framework.pod_status_writer import POD_SCHEDULED, StatusWriter
from kubesched.framework.post_filter import nominated_node
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.decision_watch import FailureWatcher
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["CLEAR_NOMINATION", "LONGEST_MESSAGE", "FailureHandler", "FailureNote", "HandleFailure"]

log = get_logger(__name__)

# The limit for messages of other conditions; an API server refuses much longer ones.
LONGEST_MESSAGE = 32_768

CLEAR_NOMINATION = Nominating(NominatingMode.OVERRIDE, "")


# Handles a pod whose attempt ended in this status; it must requeue the pod or mark it done.
HandleFailure = Callable[[Attempt, Status, Nominating | None], None]
# Returns more about a pod that fits nowhere, appended to the reference's text in the event's note.
FailureNote = Callable[[Attempt, FitError], str]


class FailureHandler:
    """Requeues the pod, records an event, and writes the PodScheduled condition.

    `spawn` starts the API write: the scheduling loop does not wait for it.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        pods: Lister[Pod],
        writer: StatusWriter,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        instead: HandleFailure | None = None,
        note: FailureNote | None = None,
    ) -> None:
        """`instead`, if given, replaces this handler: it is called, and nothing else happens."""
        self._note = note
        self._queue = queue
        self._pods = pods
        self._writer = writer
        self._clock = clock
        self._spawn = spawn
        self._instead = instead
        self.watcher: FailureWatcher | None = None
        self.recorder: FailureWatcher | None = None

    def handle(self, attempt: Attempt, status: Status, nominating: Nominating | None) -> None:
        if self._instead is not None:
            self._instead(attempt, status, nominating)
            return
        self._handle(attempt, status, nominating)
        drop_tracebacks(status.error)

    def _handle(self, attempt: Attempt, status: Status, nominating: Nominating | None) -> None:
        framework, queued = attempt.framework, attempt.queued
        reason = "Unschedulable" if status.is_rejected else "SchedulerError"
        framework.metrics.observe_attempt(
            "unschedulable" if status.is_rejected else "error",
            framework.profile_name,
            self._clock.monotonic_ns() - attempt.started_ns,
        )
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        queued.gating_plugin = ""
        queued.gating_events = ()
        if isinstance(status.error, FitError):
            diagnosis = status.error.diagnosis
            # If PostFilter failed, the pod waits for no event: the next try may succeed.
            if not diagnosis.post_filter_failed:
                queued.unschedulable_plugins |= diagnosis.unschedulable_plugins
                queued.pending_plugins |= diagnosis.pending_plugins
        pod = queued.pod
        current = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        if _is_another(current, pod):
            log.detail(2, "Pod was re-created, not put back", pod=pod)
            self._queue.done(pod.metadata.uid)
            return
        # The event and the condition are written even if the pod was not requeued.
        self._requeue(queued, current)
        if self._queue.serves(pod):
            self._queue.nominator.add_nominated_pod(queued.pod_info, nominating)
        if self.recorder is not None:
            self.recorder.failed(queued.pod, status)
        if status.as_error() is None:
            return
        message = _shortened(status.message)
        if reason == "SchedulerError":
            error = status.as_error()
            log.error(
                "Error scheduling pod; retrying", exc=error, pod=queued.pod, at=place_of(error)
            )
        else:
            log.detail(2, "Unable to schedule pod", pod=queued.pod, err=message)
        note = message
        if self._note is not None and isinstance(status.error, FitError):
            note = f"{message} {self._note(attempt, status.error)}".rstrip()
        framework.recorder.event(
            queued.pod, "Warning", "FailedScheduling", "Scheduling", truncate_note(note)
        )
        if self.watcher is not None:
            self.watcher.failed(queued.pod, status)
        condition = PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=reason,
            message=message,
            observed_generation=queued.pod.metadata.generation,
        )
        self._spawn(self._write(queued.pod, condition, nominating), "status")

    def clear_nomination(self, pod: Pod) -> None:
        """End the nomination of a waiting pod that cannot be placed for now."""
        self._queue.nominator.add_nominated_pod(PodInfo(pod), CLEAR_NOMINATION)
        self._spawn(self._write(pod, None, CLEAR_NOMINATION), "status")

    def report_skipped(self, framework: Framework, pod: Pod, reason: str) -> None:
        """Report a pod that was popped and needs no attempt."""
        framework.recorder.event(pod, "Warning", "FailedScheduling", "Scheduling", reason)
        if self.watcher is not None:
            self.watcher.failed(pod, Status.unschedulable(reason))

    def _requeue(self, queued: QueuedPodInfo, current: Pod | None) -> None:
        """Put the pod back into the queue, unless it is gone or has a node."""
        if current is None or current.spec.node_name:
            log.detail(2, "Pod is gone or assigned, not put back", pod=queued.pod)
            self._queue.done(queued.pod.metadata.uid)
            return
        queued.pod_info = PodInfo(current)
        if not self._queue.serves(current):
            log.detail(2, "Pod's profile was removed, not put back", pod=queued.pod)
            self._queue.done(queued.pod.metadata.uid)
            return
        try:
            self._queue.add_unschedulable_if_not_present(queued, self._clock.now_ns())
        except KubeschedError as exc:
            log.error("Pod could not be put back", exc=exc, pod=queued.pod)

    async def _write(
        self, pod: Pod, condition: PodCondition | None, nominating: Nominating | None
    ) -> None:
        try:
            await self._writer.write(pod, condition, nominated_node(nominating))
        except ApiError as exc:
            if exc.code:
                log.error("Error updating pod", exc=exc, pod=pod)
            else:
                # An unreachable server is logged elsewhere and has nothing to do with this pod.
                log.detail(4, "Error updating pod", err=exc, pod=pod)


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 3]}..."


def _is_another(current: Pod | None, pod: Pod) -> bool:
    """Whether a new pod with the same name has replaced the one of the attempt."""
    return (
        current is not None
        and not current.spec.node_name
        and current.metadata.uid != pod.metadata.uid
    )
