"""Event handlers that also update the pod groups (docs/reference/09 §3, §5.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.api import Pod
from kubesched.framework import ActionType, ClusterEvent, EventResource
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.config.plugin_names import GANG_SCHEDULING
from kubesched.scheduler.events.event_handlers import EventHandlers

__all__ = ["GroupEventHandlers"]

_WAITING_POD_ADD = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)


class GroupEventHandlers(EventHandlers):
    """Handlers that add waiting pods to their groups. The cache adds pods on nodes."""

    def __init__(self, cache: GroupingCache, *arguments: Any, announces_waiting_pods: bool) -> None:
        """With `announces_waiting_pods`, a new pod requeues pods that wait for group members."""
        super().__init__(cache, *arguments)
        self._groups = cache.groups
        self._announces_waiting_pods = announces_waiting_pods

    def add_pod(self, pod: Pod) -> None:
        is_waiting = not pod.spec.node_name and self._is_responsible(pod)
        if is_waiting:
            # Before it enters the queue, because PreEnqueue plugins count it.
            self._groups.add(pod)
        super().add_pod(pod)
        if is_waiting and self._announces_waiting_pods:
            self._queue.move_all(
                _WAITING_POD_ADD, None, pod, self._clock.now_ns(), self._except_gated_members(pod)
            )

    def forget_waiting(self, pod: Pod) -> None:
        self._groups.delete(pod)

    def _except_gated_members(self, pod: Pod) -> Callable[[Pod], bool] | None:
        """Return a check that leaves out the members of the pod's gang, if it gates the pod.

        Otherwise every new member of an incomplete gang would requeue all others.
        """
        queued = self._queue.get_pod(pod.metadata.name, pod.metadata.namespace)
        if queued is None or queued.gating_plugin != GANG_SCHEDULING:
            return None
        name, namespace = group_name_of(pod), pod.metadata.namespace
        return lambda other: group_name_of(other) != name or other.metadata.namespace != namespace

    def _update_waiting(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            self._groups.update(new)
        super()._update_waiting(old, new)

    def _delete_waiting(self, pod: Pod) -> None:
        self._groups.delete(pod)
        super()._delete_waiting(pod)
