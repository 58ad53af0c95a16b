"""The scheduling cycle: from a popped pod to an assumed pod (docs/reference/04 §10, §13).

It never awaits, so the state that plugins read cannot change during the cycle.
"""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.errors import CacheError, KubeschedError, drop_tracebacks
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    SUCCESS,
    Code,
    CycleState,
    FitError,
    Nominating,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.binding_cycle import PodPlacement
from kubesched.scheduler.cycles.decision_watch import DecisionWatcher
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION, FailureHandler
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import failure_of
from kubesched.scheduler.search.schedule_result import NoNodesError, SchedulePod, ScheduleResult
from kubesched.scheduler.search.verification import EngineMismatchError

__all__ = [
    "MOST_TURNS",
    "AttemptPausedError",
    "SchedulingCycle",
    "about_node",
    "pod_on_node",
    "skip_reason",
    "status_of",
]

log = get_logger(__name__)


# An attempt that needs more iterations of the event loop fails, so that other pods are tried.
# Plugins cache their intermediate results, and the next attempt continues with them.
MOST_TURNS = 50
_SKIPPED = Status.unschedulable("All PostFilter plugins are skipped")
_SCORES_VERBOSITY = 10  # scores are logged from this verbosity on


class AttemptPausedError(KubeschedError):
    """An attempt was interrupted so that the event loop can continue."""

    def __init__(self) -> None:
        super().__init__("the attempt takes too long")


class SchedulingCycle:
    """Finds a node for one pod at a time, assumes the pod there, and runs Reserve and Permit."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        schedule_pod: SchedulePod,
        failures: FailureHandler,
        metrics: SchedulerMetrics,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._schedule_pod = schedule_pod
        self._failures = failures
        self._algorithm_duration = metrics.scheduling_algorithm_duration_seconds
        self._clock = clock
        self._pauses = 0  # of the current attempt
        self.watcher: DecisionWatcher | None = None
        self.recorder: DecisionWatcher | None = None

    def run(self, framework: Framework, queued: QueuedPodInfo) -> PodPlacement | None:
        """Place the pod; if that fails, call the failure handler and return None.

        Raises:
            AttemptPausedError: a plugin needs more time than one iteration of the event loop may
                take. The state is unchanged. Run the attempt again.
        """
        state = CycleState()
        state.may_pause = True
        state.plugin_timer = framework.point_metrics.sample()
        attempt = Attempt(framework, state, queued, self._clock.monotonic_ns())
        found = self.find_node(attempt)
        if state.is_paused and self._pauses < MOST_TURNS:
            self._pauses += 1
            raise AttemptPausedError
        self._pauses = 0
        return self.conclude(attempt, *found)

    def find_node(
        self, attempt: Attempt, *, makes_room: bool = True
    ) -> tuple[Status, str, Nominating | None, ScheduleResult | None]:
        """Search a node for the pod; if none fits, run PostFilter if it `makes_room`.

        Returns:
            The status, the node's name, what to do with the pod's nomination, and the result of
            the search if a node was found.
        """
        queued = attempt.queued
        nominating: Nominating | None = CLEAR_NOMINATION
        try:
            try:
                self._cache.update_snapshot()
                result = self._schedule_pod(attempt.framework, attempt.state, queued.pod_info)
                if log.enabled(_SCORES_VERBOSITY):
                    _log_scores(queued.pod, result)
                return SUCCESS, result.node_name, nominating, result
            except FitError as exc:
                if makes_room:
                    nominating = self.try_to_make_room(attempt, exc)
                else:
                    exc.diagnosis.note_post_filter(_SKIPPED)
                status = status_of(exc, queued.pod)
        except BaseException as exc:
            # Nothing is awaited here, so no exception is a cancellation of the task.
            status = status_of(failure_of(exc).error or exc, queued.pod)
        return status, "", nominating, None

    def conclude(
        self,
        attempt: Attempt,
        status: Status,
        node_name: str,
        nominating: Nominating | None,
        result: ScheduleResult | None = None,
    ) -> PodPlacement | None:
        """Notify the watcher; then place the pod on the node, or call the failure handler."""
        self.observe_algorithm(attempt)
        if self.watcher is not None:
            self.watcher.decided(attempt, status, node_name, result)
        if self.recorder is not None:
            self.recorder.decided(attempt, status, node_name, result)
        if status is SUCCESS or status.is_success:
            return self.place(attempt, node_name)
        self._failures.handle(attempt, status, nominating)
        return None

    def report_skipped(self, framework: Framework, pod: Pod, reason: str) -> None:
        """Report a pod that was popped and needs no attempt."""
        self._failures.report_skipped(framework, pod, reason)

    def observe_algorithm(self, attempt: Attempt) -> None:
        self._algorithm_duration.observe_ns(self._clock.monotonic_ns() - attempt.started_ns)

    def try_to_make_room(self, attempt: Attempt, error: FitError) -> Nominating | None:
        """Run PostFilter; return what to do with the pod's nomination."""
        framework = attempt.framework
        if not framework.post_filter_plugins:
            return CLEAR_NOMINATION
        with framework.point_metrics.timing("PostFilter") as timing:
            result = framework.run_post_filter(
                attempt.state, attempt.queued.pod_info, error.diagnosis
            )
            timing.code = result.status.code
        error.diagnosis.note_post_filter(result.status)
        drop_tracebacks(result.status.error)
        return result.nominating

    def place(self, attempt: Attempt, node_name: str) -> PodPlacement | None:
        """Assume the pod on the node, then run Reserve and Permit."""
        framework, state, queued = attempt.framework, attempt.state, attempt.queued
        assumed = pod_on_node(attempt, node_name)
        try:
            self._cache.assume_pod(assumed)
        except CacheError as exc:
            self._failures.handle(attempt, Status.failure(exc), CLEAR_NOMINATION)
            return None
        self._queue.nominator.delete_nominated_pod(queued.pod)
        binding = framework.binding
        pod = assumed.pod
        status = binding.run_reserve(state, pod, node_name)
        if status is SUCCESS:
            status = binding.run_permit(state, pod, node_name)
        if status is not SUCCESS and status.code is not Code.WAIT:
            self.undo(framework, state, assumed, node_name)
            self._failures.handle(attempt, about_node(node_name, status), CLEAR_NOMINATION)
            return None
        if state.pods_to_activate:
            self._queue.activate(state.pods_to_activate, self._clock.now_ns())
            state.pods_to_activate.clear()
        return PodPlacement(attempt, assumed, node_name)

    def undo(
        self, framework: Framework, state: CycleState, assumed: PodInfo, node_name: str
    ) -> None:
        """Run Unreserve and forget the assumed pod."""
        framework.binding.run_unreserve(state, assumed.pod, node_name)
        try:
            self._cache.forget_pod(assumed.pod)
        except CacheError as exc:
            log.error("Scheduler cache could not forget a pod", exc=exc, pod=assumed.pod)


def pod_on_node(attempt: Attempt, node_name: str) -> PodInfo:
    """Return the pod of an attempt as it will be on the node."""
    assumed = attempt.queued.pod_info.placed_on(node_name)
    adjust = attempt.state.adjust_assumed
    return assumed if adjust is None else PodInfo(adjust(assumed.pod, node_name))


def about_node(node_name: str, status: Status) -> Status:
    """Return a rejection by Reserve or Permit as a FitError for the chosen node."""
    if not status.is_rejected:
        return status
    error = FitError.for_one_node(node_name, status)
    return Status(status.code, (), error, status.plugin)


def status_of(error: BaseException, pod: Pod) -> Status:
    """Return the status of an attempt that ended with an exception.

    Raises:
        EngineMismatchError: it is re-raised, because it is not a verdict on a pod and ends the
            process.
    """
    if isinstance(error, FitError | NoNodesError):
        drop_tracebacks(error)  # an expected outcome, which is not reported with its place
    if isinstance(error, FitError):
        return Status(Code.UNSCHEDULABLE, (), error)
    if isinstance(error, NoNodesError):
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), error)
    if isinstance(error, EngineMismatchError):
        raise error
    # An unexpected error fails the attempt of this pod alone, and the loop continues.
    if not isinstance(error, KubeschedError):
        log.exception("Scheduling a pod failed", error, pod=pod)
    return Status.failure(error)


def skip_reason(pod: Pod, cache: Cache) -> str | None:
    """Return why a popped pod needs no attempt; None if it needs one.

    An empty text means that no event is recorded: the pod is assumed already.
    """
    if pod.metadata.deletion_timestamp is not None:
        return f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
    try:
        return "" if cache.is_assumed(pod) else None
    except CacheError as error:
        # A pod without a uid: its attempt will fail with an error.
        log.error("failed to check whether pod is assumed", exc=error, pod=pod)
        return None


def _log_scores(pod: Pod, result: ScheduleResult) -> None:
    """Log the scores of every feasible node: each plugin's, and the total."""
    scores = result.scores
    if scores is None:
        return
    names = result.feasible.names
    for plugin, values in scores.by_plugin.items():
        for node, score in zip(names, values.tolist(), strict=True):
            message = "Plugin scored node for pod"
            log.detail(_SCORES_VERBOSITY, message, pod=pod, plugin=plugin, node=node, score=score)
    for node, score in zip(names, scores.total.tolist(), strict=True):
        log.detail(
            _SCORES_VERBOSITY,
            "Calculated node's final score for pod",
            pod=pod,
            node=node,
            score=score,
        )
