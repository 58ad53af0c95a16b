"""The scheduling cycle of pods that extenders are interested in (docs/reference/04 §18).

As `SchedulingCycle`, but it awaits the extenders: they filter and rank nodes, and review victims.
State is changed only after the last await, in one step with the check that the decision is still
valid.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.errors import drop_tracebacks
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    SUCCESS,
    ClusterVersion,
    FitError,
    Nominating,
    PodInfo,
    QueuedPodInfo,
    Victims,
)
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.binding_cycle import PodPlacement
from kubesched.scheduler.cycles.broken_attempts import BrokenAttempts
from kubesched.scheduler.cycles.extender_attempt import (
    ExtenderAttempt,
    ExtenderContext,
    PodGoneError,
)
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle, status_of
from kubesched.scheduler.extenders.extender import HTTPExtender
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.post_filtering import run_post_filter_with_review

__all__ = ["ExtenderCycle"]

log = get_logger(__name__)


class ExtenderCycle:
    """Finds nodes with the help of extenders. Attempts with different extenders run in parallel."""

    def __init__(
        self,
        context: ExtenderContext,
        cycle: SchedulingCycle,
        queue: SchedulingQueue,
        broken: BrokenAttempts,
        clock: Clock,
    ) -> None:
        self._context = context
        self._cycle = cycle
        self._queue = queue
        self._broken = broken
        self._clock = clock

    async def run(
        self, framework: Framework, queued: QueuedPodInfo, extenders: Sequence[HTTPExtender]
    ) -> PodPlacement | None:
        """Place the pod. Return None if that failed, or if the pod needs no node any more."""
        started_ns = self._clock.monotonic_ns()
        extender_attempt = ExtenderAttempt(self._context, framework, queued, extenders)
        node_name = ""
        nominating: Nominating | None = CLEAR_NOMINATION
        try:
            node_name = await extender_attempt.choose()
            status = SUCCESS
        except PodGoneError:
            self._drop(framework, queued.pod)
            return None
        except FitError as exc:
            status = status_of(exc, queued.pod)
            attempt = Attempt(framework, extender_attempt.state, queued, started_ns)
            nominating = await self._make_room(extender_attempt, attempt, exc)
            if extender_attempt.is_pod_gone:
                self._drop(framework, queued.pod)
                return None
        except Exception as exc:
            status = status_of(exc, queued.pod)
        attempt = Attempt(framework, extender_attempt.state, queued, started_ns)
        return self._cycle.conclude(attempt, status, node_name, nominating)

    def give_up(self, queued: QueuedPodInfo, error: Exception) -> None:
        """Requeue a pod whose attempt ended in an unexpected error."""
        self._broken.put_back(queued, error)

    async def _make_room(
        self, extender_attempt: ExtenderAttempt, attempt: Attempt, error: FitError
    ) -> Nominating | None:
        pod = attempt.queued.pod
        if extender_attempt.is_overtaken:
            # There was room each time, so no victims are needed: try the pod again.
            self._queue.activate({pod_key(pod): pod}, self._clock.now_ns())
            return None
        framework = attempt.framework
        reviewing = [each for each in extender_attempt.extenders if each.settings.preempt_verb]
        if not reviewing or not framework.post_filter_plugins:
            return self._cycle.try_to_make_room(attempt, error)
        review = _Review(self._context, framework, attempt.queued.pod_info, reviewing)
        with framework.point_metrics.timing("PostFilter") as timing:
            result = await run_post_filter_with_review(
                framework.post_filter_plugins,
                attempt.state,
                attempt.queued.pod_info,
                error.diagnosis,
                review,
            )
            timing.code = result.status.code
        error.diagnosis.note_post_filter(result.status)
        drop_tracebacks(result.status.error)
        return result.nominating

    def _drop(self, framework: Framework, pod: Pod) -> None:
        """Mark a pod done that needs no node any more; record an event if it is terminating."""
        current = self._context.pods.get(pod.metadata.name, pod.metadata.namespace)
        if (
            current is not None
            and current.metadata.uid == pod.metadata.uid
            and current.metadata.deletion_timestamp is not None
        ):
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            self._cycle.report_skipped(framework, pod, note)
        log.detail(2, "Pod deleted or bound during calls of extenders", pod=pod)
        self._queue.done(pod.metadata.uid)


class _Review:
    """The `VictimReview` of one pod: the extenders that review its victims."""

    def __init__(
        self,
        context: ExtenderContext,
        framework: Framework,
        pod_info: PodInfo,
        extenders: Sequence[HTTPExtender],
    ) -> None:
        """Must be created in the step that found no node for the pod, without an await between."""
        self._context = context
        self._framework = framework
        self._pod_info = pod_info
        self._extenders = extenders
        self._no_room_at: ClusterVersion = framework.dry_run.version

    async def review(self, preemptor: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        context = self._context
        reviewed = await context.extenders.review_victims(
            self._extenders,
            context.documents.pod(preemptor),
            victims,
            context.cache.snapshot,
            context.documents.pod,
        )
        context.cache.update_snapshot()
        return reviewed

    def fits_now(self) -> bool:
        context = self._context
        context.cache.update_snapshot()
        refused = context.refused.get(self._pod_info.uid, frozenset())
        return context.fit_checks.fits_now(
            self._framework, self._pod_info, self._no_room_at, refused
        )

    def fits_without(self, node_name: str, victims: Collection[PodInfo]) -> bool:
        context = self._context
        context.cache.update_snapshot()
        return context.fit_checks.fits_without(self._framework, self._pod_info, node_name, victims)
