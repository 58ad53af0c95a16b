"""DefaultPreemption: evict less important pods to make room.

docs/reference/06 §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventResource,
    Handle,
    Lister,
    Plugin,
    PodGroupDryRun,
    PodGroupInfo,
    PodInfo,
    PostFilterResult,
    QueueingHint,
    Status,
    VictimReview,
)
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.config.plugin_names import DEFAULT_PREEMPTION
from kubesched.scheduler.plugins.default_preemption.evaluator import Evaluator
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions, is_victim
from kubesched.scheduler.plugins.default_preemption.group_preemption import GroupPreemption
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import queue_if

__all__ = ["DefaultPreemption"]

_PREFIX = "preemption: "
_WAITING = Status.unresolvable("waiting for the preemption for this pod to be finished")
_GROUP_WAITING = Status.unresolvable("waiting for the preemption for this pod group to be finished")


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
        # None: pods of groups preempt as other pods do.
        self._groups: Lister[PodGroup] | None = None
        self._group_preemption: GroupPreemption | None = None
        self._is_topology_aware = feature_enabled(handle, "TopologyAwareWorkloadScheduling")
        if handle is not None and handle.pod_groups is not None and self._evictions is not None:
            is_workload_aware = feature_enabled(handle, "WorkloadAwarePreemption")
            if self._is_topology_aware or is_workload_aware:
                self._groups = handle.lister(PodGroup)
            if is_workload_aware:
                self._group_preemption = GroupPreemption(handle, self._evictions)

    def pre_enqueue(self, pod: Pod) -> Status:
        evictions = self._evictions
        if self._group_preemption is not None and group_name_of(pod):
            return _GROUP_WAITING if self._is_evicting_for_group(pod) else SUCCESS
        if self._is_async and evictions is not None and evictions.is_running(pod.metadata.uid):
            return _WAITING
        return SUCCESS

    def _is_evicting_for_group(self, pod: Pod) -> bool:
        """Whether victims of the pod's group are still to be evicted."""
        if self._groups is None or self._evictions is None or not self._is_async:
            return False
        group = self._groups.get(group_name_of(pod), pod.metadata.namespace)
        return group is not None and self._evictions.is_running(group.metadata.uid)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if not self._is_async:
            return ()
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return (ClusterEventWithHint(deleted, self._after_pod_deletion),)

    def _after_pod_deletion(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return QUEUE if the deleted pod was a victim and no eviction gates the pod.

        Normally the plugins that rejected the pod decide whether an event may help it. The event
        that they need may have arrived while the pod was gated, so the deletion of a victim
        suffices.
        """
        uid, evictions = pod.metadata.uid, self._evictions
        if evictions is None or not isinstance(old, Pod) or not is_victim(old):
            return QueueingHint.SKIP
        if self._group_preemption is not None and group_name_of(pod):
            return queue_if(not self._is_evicting_for_group(pod))
        is_awaited = self.handle.nominator.node_of(uid) == old.spec.node_name
        return queue_if(is_awaited and not evictions.is_running(uid))

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        self.handle.metrics.count_preemption_attempt()
        reason = self._reason_against_preemption(pod_info.pod)
        if reason:
            return _prefixed(PostFilterResult(Status.unschedulable(reason)))
        return _prefixed(self._evaluator.preempt(state, pod_info, diagnosis))

    def _reason_against_preemption(self, pod: Pod) -> str:
        """Return why a member of a group may not preempt other pods alone; empty if it may."""
        name = group_name_of(pod)
        if not name or self._groups is None:
            return ""
        if self._is_topology_aware:
            group = self._groups.get(name, pod.metadata.namespace)
            if group is None:
                return "pod group for pod not found"
            if group.spec.scheduling_constraints is not None:
                return "not eligible due to placement-based pod group scheduling limitation"
        if self._group_preemption is not None:
            return "not eligible due to workload aware preemption enabled"
        return ""

    def post_filter_group(self, group: PodGroupInfo, dry_run: PodGroupDryRun) -> Status:
        assert self._group_preemption is not None, "the gate is on"
        return self._group_preemption.preempt(group, dry_run)

    async def post_filter_with_review(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis, review: VictimReview
    ) -> PostFilterResult:
        self.handle.metrics.count_preemption_attempt()
        if reason := self._reason_against_preemption(pod_info.pod):
            return _prefixed(PostFilterResult(Status.unschedulable(reason)))
        evaluator = self._evaluator
        return _prefixed(await evaluator.preempt_with_review(state, pod_info, diagnosis, review))


def _prefixed(result: PostFilterResult) -> PostFilterResult:
    message = result.status.message
    if not message:
        return result
    return PostFilterResult(Status(result.status.code, (_PREFIX + message,)), result.nominating)
