"""The group cycle: schedules all waiting members of a group (docs/reference/09 §6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from kubesched.api import PodGroup
from kubesched.api.pod_facts import pod_priority
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import SUCCESS, Code, CycleState, Lister, QueuedPodInfo, Status
from kubesched.framework.pod_groups import GroupCycle, group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.broken_attempts import BrokenAttempts
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION, FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import skip_reason
from kubesched.scheduler.pod_groups.group_algorithm import GroupAlgorithm
from kubesched.scheduler.pod_groups.group_condition import PodGroupConditionWriter
from kubesched.scheduler.pod_groups.group_preemption_step import GroupPreemptionStep
from kubesched.scheduler.pod_groups.group_results import GroupResult
from kubesched.scheduler.pod_groups.group_submission import GroupSubmission
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.verification import EngineMismatchError

__all__ = ["PodGroupCycle"]

log = get_logger(__name__)


class PodGroupCycle:
    """Schedules all waiting members of a group together. Never awaits."""

    def __init__(
        self,
        cache: GroupingCache,
        queue: GroupingQueue,
        profiles: Mapping[str, Framework],
        algorithm: GroupAlgorithm,
        submission: GroupSubmission,
        failures: FailureHandler,
        broken: BrokenAttempts,
        groups: Lister[PodGroup],
        conditions: PodGroupConditionWriter,
        preemption: GroupPreemptionStep | None,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._profiles = profiles
        self._algorithm = algorithm
        self._submission = submission
        self._failures = failures
        self._broken = broken
        self._groups = groups
        self._conditions = conditions
        self._preemption = preemption
        self._spawn = spawn
        self._metrics = metrics
        self._clock = clock

    def run(self, popped: QueuedPodInfo) -> bool:
        """Try the group of a popped pod; return whether some member was placed."""
        members = self.collect(popped)
        return self.place(members) if members else False

    def collect(self, popped: QueuedPodInfo) -> list[QueuedPodInfo]:
        """Pop the other members; return those to try. They have one profile."""
        members = self._assemble(popped)
        if members is None:
            # As in the reference, there is no event: the pod is tried again after its backoff.
            self._failures.handle(self._attempt(popped), SUCCESS, None)
            return []
        if self._refuse_mixed_names(members):
            return []
        return [queued for queued in members if not self._skip(queued)]

    def place(
        self, members: list[QueuedPodInfo], *, reviewed: Collection[str] | None = None
    ) -> bool:
        """Try collected members; return whether some member was placed.

        With `reviewed` extenders were called about the members: the uids of those whose victims
        they review.
        """
        if reviewed is not None:
            # Members may have been deleted or bound while the extenders were called.
            members = [queued for queued in members if not self._skip(queued)]
            if not members:
                return False
        cycle = GroupCycle(calls_extenders=reviewed is not None, reviewed=reviewed or ())
        try:
            return self._try(members, cycle)
        except EngineMismatchError:
            raise
        except Exception as exc:
            for queued in members:
                # Members that were placed are being bound and are left alone.
                if skip_reason(queued.pod, self._cache) is None:
                    self._broken.put_back(queued, exc)
            return False

    def _try(self, members: list[QueuedPodInfo], cycle: GroupCycle) -> bool:
        framework = self._profiles[members[0].pod.spec.scheduler_name]
        started_ns = self._clock.monotonic_ns()
        log.detail(3, "Attempting to schedule a pod group", pods=len(members), pod=members[0].pod)
        outcome = self._algorithm.run(framework, members, cycle)
        self._observe_algorithm(self._clock.monotonic_ns() - started_ns)
        self._cache.update_snapshot()
        if self._preemption is not None and outcome.status.code is Code.UNSCHEDULABLE:
            self._preemption.run(framework, members, cycle, outcome)
        placed = self._submission.run(framework, members, outcome)
        self._update_condition(members[0], outcome)
        self._report(framework, members, outcome, self._clock.monotonic_ns() - started_ns)
        return placed > 0

    def _assemble(self, popped: QueuedPodInfo) -> list[QueuedPodInfo] | None:
        """Return the popped pod and all other waiting members, in the order of their attempts."""
        state = self._cache.groups.find(popped.pod)
        if state is None:
            return None
        now_ns = self._clock.now_ns()
        members = [popped]
        for pod in state.unscheduled_pods().values():
            if pod.metadata.name == popped.pod.metadata.name:
                continue
            queued = self._queue.pop_specific(pod, now_ns)
            if queued is None:
                log.detail(5, "A member of the pod group is not in the queue", pod=pod)
            else:
                members.append(queued)
        members.sort(key=_sort_key)
        return members

    def _refuse_mixed_names(self, members: list[QueuedPodInfo]) -> bool:
        first = members[0].pod.spec.scheduler_name
        other = next(
            (name for each in members if (name := each.pod.spec.scheduler_name) != first), None
        )
        if other is None:
            return False
        text = (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{other}" and "{first}"'
        )
        for queued in members:
            self._failures.handle(self._attempt(queued), Status.failure(text), CLEAR_NOMINATION)
        return True

    def _attempt(self, queued: QueuedPodInfo) -> Attempt:
        framework = self._profiles[queued.pod.spec.scheduler_name]
        return Attempt(framework, CycleState(), queued, self._clock.monotonic_ns())

    def _skip(self, queued: QueuedPodInfo) -> bool:
        """Mark a member done if it needs no attempt; return whether it was."""
        reason = skip_reason(queued.pod, self._cache)
        if reason is None:
            return False
        if reason:
            framework = self._profiles[queued.pod.spec.scheduler_name]
            self._failures.report_skipped(framework, queued.pod, reason)
        self._queue.done(queued.pod.metadata.uid)
        return True

    def _update_condition(self, member: QueuedPodInfo, outcome: GroupResult) -> None:
        """Write the condition of the PodGroup if it has changed."""
        name, namespace = group_name_of(member.pod), member.pod.metadata.namespace
        group = self._groups.get(name, namespace)
        if group is None:
            text = f'podgroup.scheduling.k8s.io "{name}" not found'
            log.error("Failed to update PodGroup status", err=text, group=f"{namespace}/{name}")
            return
        self._spawn(self._conditions.write(group, outcome.status), "pod group status")

    def _observe_algorithm(self, duration_ns: int) -> None:
        histogram = self._metrics.podgroup_scheduling_algorithm_duration_seconds
        if histogram is not None:
            histogram.observe_ns(duration_ns)

    def _report(
        self,
        framework: Framework,
        members: list[QueuedPodInfo],
        outcome: GroupResult,
        duration_ns: int,
    ) -> None:
        result, text = _outcome(outcome)
        group = f"{members[0].pod.metadata.namespace}/{group_name_of(members[0].pod)}"
        if result == "error":
            log.error(text, exc=outcome.status.as_error(), group=group)
        else:
            fitting = sum(each.status.is_success for each in outcome.members)
            failing = len(members) - fitting
            log.detail(2, text, group=group, scheduled_pods=fitting, unschedulable_pods=failing)
        labels = (result, framework.profile_name)
        attempts = self._metrics.podgroup_schedule_attempts_total
        durations = self._metrics.podgroup_scheduling_attempt_duration_seconds
        if attempts is not None and durations is not None:
            attempts.labels(*labels).inc()
            durations.labels(*labels).observe_ns(duration_ns)


def _sort_key(queued: QueuedPodInfo) -> tuple[int, int, str]:
    """Return the sort key of members: by priority, then by waiting time, then by name.

    The name makes the order the same in every cycle. Otherwise members would preempt pods on other
    nodes each time.
    """
    since_ns = queued.initial_attempt_timestamp_ns or 0
    return -pod_priority(queued.pod), since_ns, queued.pod.metadata.name


def _outcome(outcome: GroupResult) -> tuple[str, str]:
    """Return the metric label and the log message for the outcome of a cycle."""
    if outcome.status.is_success:
        return "scheduled", "Successfully scheduled a pod group"
    if outcome.is_waiting_on_preemption:
        return "waiting_on_preemption", "Pod group is waiting for preemption"
    if outcome.status.is_rejected:
        return "unschedulable", "Unable to schedule a pod group"
    return "error", "Error scheduling pod group"
