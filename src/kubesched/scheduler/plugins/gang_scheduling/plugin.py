"""GangScheduling: place the pods of a gang together or not at all.

docs/reference/09 §9.1.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.foundation.util.clock import MINUTE
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    Lister,
    Plugin,
    QueueingHint,
    Status,
    Wait,
)
from kubesched.framework.pod_groups import (
    PodGroups,
    UnknownPodGroupError,
    group_name_of,
    is_tried_with_group,
)
from kubesched.scheduler.config.plugin_names import GANG_SCHEDULING
from kubesched.scheduler.plugins.helpers.hints import expect, queue_if

__all__ = ["GangScheduling"]

TOO_FEW_KNOWN = Status.unresolvable(
    "waiting for minCount pods from a gang to appear in scheduling queue"
)
TOO_FEW_PLACED = "waiting for minCount pods from a gang to be scheduled"
_LONGEST_WAIT_NS = 5 * MINUTE
_MOST_WAITING_GROUPS = 1_024


class GangScheduling(Plugin):
    """Hold pods back until their gang is complete, then bind them together.

    PreEnqueue rejects pods until the queue has `minCount` pods of their gang. Permit makes a pod
    wait until `minCount` of them have a node. If the scheduler does not support pod groups, both
    let every pod pass.
    """

    name = GANG_SCHEDULING

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._members: PodGroups | None = None if handle is None else handle.pod_groups
        self._groups: Lister[PodGroup] | None = None
        # By namespace and name of a group: the uids of pods that Permit made wait since the group
        # had enough members the last time.
        self._waiting: dict[tuple[str, str], set[str]] = {}
        if handle is not None and self._members is not None:
            self._groups = handle.lister(PodGroup)

    def pre_enqueue(self, pod: Pod) -> Status:
        name = group_name_of(pod)
        if not name or self._groups is None or self._members is None:
            return SUCCESS
        namespace = pod.metadata.namespace
        group = self._groups.get(name, namespace)
        if group is None:
            return Status.unresolvable(
                f'waiting for pods\'s pod group "{name}" to appear in scheduling queue'
            )
        gang = group.spec.scheduling_policy.gang
        if gang is None:
            return SUCCESS
        try:
            members = self._members.members(namespace, name)
        except UnknownPodGroupError as exc:
            return Status.failure(exc)
        return TOO_FEW_KNOWN if members.all_count < gang.min_count else SUCCESS

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        name = group_name_of(pod)
        if not name or self._groups is None or self._members is None:
            return SUCCESS
        namespace = pod.metadata.namespace
        group = self._groups.get(name, namespace)
        if group is None:
            return Status.failure(
                f"failed to get podGroup {namespace}/{name}: "
                f'podgroup.scheduling.k8s.io "{name}" not found'
            )
        gang = group.spec.scheduling_policy.gang
        if gang is None:
            return SUCCESS
        try:
            members = self._members.members(namespace, name)
        except UnknownPodGroupError as exc:
            return Status.failure(exc)
        if members.scheduled_count < gang.min_count:
            if not is_tried_with_group(state):  # in a group cycle the others are tried anyway
                self.handle.activate(members.unscheduled_pods())
            self._drop_deleted_groups()
            self._waiting.setdefault((namespace, name), set()).add(pod.metadata.uid)
            return Wait(_LONGEST_WAIT_NS, (TOO_FEW_PLACED,))
        for uid in self._waiting.pop((namespace, name), ()):
            if (waiting := self.handle.waiting_pod(uid)) is not None:
                waiting.allow(self.name)
        return SUCCESS

    def _drop_deleted_groups(self) -> None:
        """Drop groups of which no pod waits any more, once there are many."""
        if len(self._waiting) > _MOST_WAITING_GROUPS:
            self._waiting = {
                group: uids
                for group, uids in self._waiting.items()
                if any(self.handle.waiting_pod(uid) is not None for uid in uids)
            }

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.ADD), self._after_pod_added
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD_GROUP, ActionType.ADD), self._after_group_added
            ),
        )

    def _after_pod_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        added, name = expect(Pod, new), group_name_of(pod)
        return queue_if(
            bool(name)
            and group_name_of(added) == name
            and added.metadata.namespace == pod.metadata.namespace
        )

    def _after_group_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        metadata = expect(PodGroup, new).metadata
        return queue_if(
            metadata.namespace == pod.metadata.namespace and metadata.name == group_name_of(pod)
        )
