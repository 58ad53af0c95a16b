"""Event handlers that also update the pod groups (docs/reference/09 §3, §5.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.framework import ActionType, ClusterEvent, EventResource, Lister
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.config.plugin_names import GANG_SCHEDULING
from kubesched.scheduler.events.event_handlers import EventHandlers

__all__ = ["GroupEventHandlers"]

_WAITING_POD_ADD = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD)


class GroupEventHandlers(EventHandlers):
    """Handlers that add waiting pods to their groups. The cache adds pods on nodes."""

    def __init__(
        self,
        cache: GroupingCache,
        *arguments: Any,
        gangs: Lister[PodGroup] | None,
        clear_nomination: Callable[[Pod], None],
    ) -> None:
        """With `gangs`, pods wait for the others of their gang, and a new pod requeues them.

        `clear_nomination` ends the nomination of a waiting pod.
        """
        super().__init__(cache, *arguments)
        self._groups = cache.groups
        self._gangs = gangs
        self._clear_nomination = clear_nomination

    def add_pod(self, pod: Pod) -> None:
        is_waiting = not pod.spec.node_name and self._is_responsible(pod)
        if is_waiting:
            # Before it enters the queue, because PreEnqueue plugins count it.
            self._groups.add(pod)
        super().add_pod(pod)
        if is_waiting and self._gangs is not None:
            self._queue.move_all(
                _WAITING_POD_ADD, None, pod, self._clock.now_ns(), self._except_gated_members(pod)
            )

    def delete_pod(self, pod: Pod, is_tombstone: bool = False) -> None:
        super().delete_pod(pod, is_tombstone)
        if self._gangs is not None and group_name_of(pod):
            self._release_incomplete(pod, self._gangs)

    def _release_incomplete(self, deleted: Pod, gangs: Lister[PodGroup]) -> None:
        """End the nominations in the gang of a deleted pod, if too few pods are left.

        PreEnqueue gates these pods until others are created. Until then their nominations would
        reserve room that no pod can use.
        """
        state = self._groups.find(deleted)
        found = gangs.get(group_name_of(deleted), deleted.metadata.namespace)
        gang = None if found is None else found.spec.scheduling_policy.gang
        if state is None or gang is None or state.all_count >= gang.min_count:
            return
        for pod in state.unscheduled_pods().values():
            if self._queue.nominator.node_of(pod.metadata.uid) is not None:
                self._clear_nomination(pod)
                self._announce_to_lower_priority(pod)

    def forget_waiting(self, pod: Pod) -> None:
        self._groups.delete(pod)

    def _except_gated_members(self, pod: Pod) -> Callable[[Pod], bool] | None:
        """Return a check that excludes the members of the pod's gang, if it gates the pod.

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
