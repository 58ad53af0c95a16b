"""The first half of a placement: from a popped pod to an assumed one (spec 04 §10, §13).

Never awaits: what the plugins see cannot change while they decide.
"""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.backend.cache import Cache
from kubesched.backend.queue import SchedulingQueue
from kubesched.framework import (
    Code,
    CycleState,
    FitError,
    Nominating,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from kubesched.runtime.framework import Framework
from kubesched.scheduler.algorithm import (
    EngineMismatchError,
    NoNodesError,
    ScheduleResult,
    SchedulingAlgorithm,
)
from kubesched.scheduler.binding_cycle import Placement
from kubesched.scheduler.failure import CLEAR_NOMINATION, FailureHandler
from kubesched.util.clock import Clock
from kubesched.util.errors import CacheError, KubeschedError
from kubesched.util.logging import get_logger

__all__ = ["SchedulingCycle", "skip_reason"]

log = get_logger(__name__)


class SchedulingCycle:
    """Finds a node for one pod at a time."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        algorithm: SchedulingAlgorithm,
        failures: FailureHandler,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._algorithm = algorithm
        self._failures = failures
        self._clock = clock

    def run(self, framework: Framework, queued: QueuedPodInfo) -> Placement | None:
        """Place the pod, or hand it to the failure handler and return None."""
        state = CycleState()
        try:
            self._cache.update_snapshot()
            result = self._algorithm.schedule_pod(framework, state, queued.pod_info)
        except FitError as exc:
            self._no_fit(framework, state, queued, exc)
            return None
        except NoNodesError as exc:
            status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (), exc)
            self._failures.handle(framework, queued, status, CLEAR_NOMINATION)
            return None
        except EngineMismatchError:
            raise
        except Exception as exc:
            # One odd object must not stop the loop: the attempt fails for this pod alone.
            if not isinstance(exc, KubeschedError):
                log.exception("Scheduling a pod failed", exc, pod=queued.pod)
            self._failures.handle(framework, queued, Status.failure(exc), CLEAR_NOMINATION)
            return None
        return self._place(framework, state, queued, result)

    def _no_fit(
        self, framework: Framework, state: CycleState, queued: QueuedPodInfo, error: FitError
    ) -> None:
        nominating: Nominating | None = CLEAR_NOMINATION
        if framework.post_filter_plugins:
            result = framework.run_post_filter(state, queued.pod_info, error.diagnosis)
            error.diagnosis.post_filter_message = result.status.message
            nominating = result.nominating
        self._failures.handle(framework, queued, Status(Code.UNSCHEDULABLE, (), error), nominating)

    def _place(
        self,
        framework: Framework,
        state: CycleState,
        queued: QueuedPodInfo,
        result: ScheduleResult,
    ) -> Placement | None:
        """Assume the pod on the node, then Reserve and Permit."""
        node_name = result.node_name
        assumed = queued.pod_info.placed_on(node_name)
        try:
            self._cache.assume_pod(assumed)
        except CacheError as exc:
            self._failures.handle(framework, queued, Status.failure(exc), CLEAR_NOMINATION)
            return None
        self._queue.nominator.delete_nominated_pod(queued.pod)
        points = framework.binding
        status = points.run_reserve(state, assumed.pod, node_name)
        if status.is_success:
            status = points.run_permit(state, assumed.pod, node_name)
        if not status.is_success and status.code is not Code.WAIT:
            self._undo(framework, state, assumed, node_name)
            if status.is_rejected:
                error = FitError.for_one_node(node_name, status)
                status = Status(status.code, (), error, status.plugin)
            self._failures.handle(framework, queued, status, CLEAR_NOMINATION)
            return None
        if state.pods_to_activate:
            self._queue.activate(state.pods_to_activate, self._clock.now_ns())
            state.pods_to_activate.clear()
        return Placement(framework, state, queued, assumed, node_name)

    def _undo(
        self, framework: Framework, state: CycleState, assumed: PodInfo, node_name: str
    ) -> None:
        framework.binding.run_unreserve(state, assumed.pod, node_name)
        try:
            self._cache.forget_pod(assumed.pod)
        except CacheError as exc:
            log.error("Scheduler cache could not forget a pod", exc=exc, pod=assumed.pod)


def skip_reason(pod: Pod, cache: Cache) -> str | None:
    """Why a popped pod needs no attempt, or None; an empty text is nobody's business."""
    if pod.metadata.deletion_timestamp is not None:
        return f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
    return "" if cache.is_assumed(pod) else None
