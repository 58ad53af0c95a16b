"""DefaultPreemption: evict less important pods to make room.

docs/reference/06 §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventResource,
    Handle,
    Plugin,
    PodInfo,
    PostFilterResult,
    QueueingHint,
    Status,
    VictimReview,
)
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.config.plugin_names import DEFAULT_PREEMPTION
from kubesched.scheduler.plugins.default_preemption.evaluator import Evaluator
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions, is_victim
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import queue_if

__all__ = ["DefaultPreemption"]

_PREFIX = "preemption: "
_WAITING = Status.unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption(Plugin):
    """PostFilter plugin: evict pods of lower priority to make room for a pod."""

    name = DEFAULT_PREEMPTION
    args_type = DefaultPreemptionArgs

    def __init__(
        self, args: DefaultPreemptionArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(DefaultPreemptionArgs() if args is None else args, handle)
        self._is_async = feature_enabled(handle, "SchedulerAsyncPreemption")
        self._evictions: Evictions | None = None
        if handle is not None:
            self._evictions = Evictions(self.name, handle, is_gating=self._is_async)
            self._evaluator = Evaluator(handle, self.args, self._evictions)

    def pre_enqueue(self, pod: Pod) -> Status:
        evictions = self._evictions
        if self._is_async and evictions is not None and evictions.is_running(pod.metadata.uid):
            return _WAITING
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if not self._is_async:
            return ()
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return (ClusterEventWithHint(deleted, self._after_pod_deletion),)

    def _after_pod_deletion(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return QUEUE if the deleted pod was a victim and no eviction gates the pod.

        The plugins that rejected the pod normally decide whether an event may help it. The event
        that they wait for may have come while the pod was gated, so a deleted victim is enough.
        """
        uid, evictions = pod.metadata.uid, self._evictions
        if evictions is None or not isinstance(old, Pod) or not is_victim(old):
            return QueueingHint.SKIP
        is_awaited = self.handle.nominator.node_of(uid) == old.spec.node_name
        return queue_if(is_awaited and not evictions.is_running(uid))

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        self.handle.metrics.count_preemption_attempt()
        return _prefixed(self._evaluator.preempt(state, pod_info, diagnosis))

    async def post_filter_with_review(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis, review: VictimReview
    ) -> PostFilterResult:
        self.handle.metrics.count_preemption_attempt()
        evaluator = self._evaluator
        return _prefixed(await evaluator.preempt_with_review(state, pod_info, diagnosis, review))


def _prefixed(result: PostFilterResult) -> PostFilterResult:
    message = result.status.message
    if not message:
        return result
    return PostFilterResult(Status(result.status.code, (_PREFIX + message,)), result.nominating)
