"""Decides whether events requeue rejected pods (docs/reference/03 §10, §11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import ClusterEvent, QueuedPodInfo
from kubesched.scheduler.backend.queue.in_flight import SeenEvent
from kubesched.scheduler.backend.queue.queueing_hints import (
    HintAnswer,
    HintTable,
    RegisteredHint,
    Strategy,
    worth_requeuing,
)

__all__ = ["RequeueDecisions"]

log = get_logger(__name__)


class RequeueDecisions:
    """Calls the hints of a pod's rejectors, and observes their durations."""

    def __init__(
        self,
        hints: HintTable,
        metrics: SchedulerMetrics,
        monotonic_ns: Callable[[], int] | None,
    ) -> None:
        self._hints = hints
        self._durations = metrics.queueing_hint_execution_duration_seconds
        self._monotonic_ns = monotonic_ns

    def decide(self, queued: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        return self.about(event, old, new)(queued)

    def about(self, event: ClusterEvent, old: Any, new: Any) -> Callable[[QueuedPodInfo], Strategy]:
        """Return a function that decides on an event for each given pod."""
        hints = self._hints.interest_in(event).hints
        monotonic_ns, observe = self._monotonic_ns, partial(self._observe, event.label)

        def decide(queued: QueuedPodInfo) -> Strategy:
            return worth_requeuing(
                queued,
                event,
                old,
                new,
                hints.get(queued.pod_info.pod.spec.scheduler_name),
                monotonic_ns=monotonic_ns,
                observe=observe,
            )

        return decide

    def replay(self, queued: QueuedPodInfo, events: Sequence[SeenEvent] | None) -> Strategy:
        """Decide on the events since a pod was popped, by the plugins that reject it now.

        None for events means that the pod was not in flight.
        """
        if not queued.unschedulable_plugins and not queued.pending_plugins:
            return Strategy.AFTER_BACKOFF
        if events is None:
            log.error(
                "in flight Pod isn't found in the scheduling queue. "
                "If you see this error log, it's likely a bug in the scheduler",
                pod=queued.pod,
            )
            return Strategy.AFTER_BACKOFF
        outcome = Strategy.SKIP
        for seen in events:
            strategy = self.decide(queued, seen.event, seen.old, seen.new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                if not queued.pending_plugins:
                    return strategy
                # a plugin that returned Pending may still requeue it immediately
                outcome = strategy
        return outcome

    def _observe(
        self, event: str, hint: RegisteredHint, answer: HintAnswer, elapsed_ns: int
    ) -> None:
        self._durations.labels(hint.plugin, event, answer).observe_ns(elapsed_ns)
