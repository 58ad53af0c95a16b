"""Coscheduling: the pods of a PodGroup are placed together or not at all.

A member with a node waits in Permit until minMember members have nodes. When the group can no
longer be completed, all of its waiting members are rejected, so a group does not hold nodes that it
cannot use. If several incomplete groups hold nodes, the first one in the queue keeps them.
docs/contrib/coscheduling.md describes the behaviour.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec

from kubesched.api import Node, Pod, Resources
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.coscheduling.gang_causes import (
    GangIncomplete,
    GangRejected,
    GangTooLarge,
    PodGroupMissing,
)
from kubesched.contrib.coscheduling.gangs import Gang, Gangs
from kubesched.contrib.coscheduling.group_panel import group_panel
from kubesched.contrib.coscheduling.group_spec import (
    POD_GROUP_KIND,
    POD_GROUPS,
    group_key_of,
    pod_group_type,
    read_spec,
)
from kubesched.contrib.coscheduling.group_status import GroupStatusLoop
from kubesched.contrib.coscheduling.room import missing_resources, places_for, smallest_requests
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    ClusterVersion,
    CycleState,
    Diagnosis,
    EventResource,
    Explaining,
    Handle,
    NodeView,
    Panel,
    Plugin,
    PodInfo,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    StateNotFoundError,
    Status,
    Wait,
)

__all__ = ["Coscheduling", "CoschedulingArgs"]

_SECOND_NS: Final = 10**9
# After this time a pod whose binding failed is in the queue again.
_REPAIR_NS: Final = 10**7
_REJECTED: Final = "PreFilterCoscheduling"
_NO_VICTIMS: Final = PostFilterResult(Status.unschedulable())


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of Coscheduling."""

    # Seconds that a member waits in Permit, unless its PodGroup has scheduleTimeoutSeconds.
    permit_waiting_time_seconds: int = 60
    # Seconds after a rejection of the group in which no member is tried.
    pod_group_backoff_seconds: int = 0
    # The percentage of minMember that may lack a node without a rejection of the others.
    pod_group_reject_percentage: int = 0

    def __post_init__(self) -> None:
        for name in ("permit_waiting_time_seconds", "pod_group_backoff_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            raise ValueError("podGroupRejectPercentage must be between 0 and 100")


class Coscheduling(Plugin):
    """Place the pods with the label `scheduling.x-k8s.io/pod-group` as groups."""

    name = "Coscheduling"
    args_type = CoschedulingArgs
    custom_kinds = (POD_GROUP_KIND.kind,)

    def __init__(self, args: CoschedulingArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args or CoschedulingArgs(), handle)
        self._gangs = Gangs()
        # The group, the version of the cluster, and why the group has no room in it.
        self._no_room: dict[str, tuple[ClusterVersion, Status | None]] = {}
        if handle is not None:
            self._gangs = handle.shared.get("coscheduling gangs", lambda: _follow(handle))
            self._gangs.on_change.append(self._members_changed)
            self._gangs.on_room.append(self._repair)

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, int, str, int, str]:
        """Order by priority, then by the age of the group, so that members stay together."""
        pod = queued.pod
        priority, since_ns = -(pod.spec.priority or 0), queued.timestamp_ns
        group = group_key_of(pod)
        if not group:
            first_ns = queued.initial_attempt_timestamp_ns or since_ns
            return priority, first_ns, queued.key, since_ns, queued.key
        gang = self._gangs.gang(group)
        gang.first_seen_ns = gang.first_seen_ns or since_ns
        return priority, *gang.order, since_ns, queued.key

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        key = group_key_of(pod_info.pod)
        if not key:
            return SKIP
        rejection = self._rejection(key, pod_info.pod, nodes)
        if rejection is None:
            return SKIP
        state.write(_REJECTED, True)
        return rejection

    def _rejection(self, key: str, pod: Pod, nodes: NodeView) -> Status | None:
        """Return why no member of the group is tried at present, or None."""
        gang = self._gangs.find(key)
        if gang is None or gang.spec is None:
            return Status.unresolvable(
                f"pod group {key} does not exist", causes=(PodGroupMissing(key),)
            )
        if gang.waiting or gang.is_complete:
            return None
        needed, ungated = gang.spec.min_member, gang.ungated
        if ungated < needed:
            return Status.unresolvable(
                f"pod group {key} has {ungated} of the {needed} pods that it needs",
                causes=(GangIncomplete(key, ungated, needed),),
            )
        if gang.failed_at is not None:
            if gang.failed_at == self._version(gang):
                return Status.unresolvable(
                    f"pod group {key} did not fit as a whole, and nothing has changed since",
                    causes=(GangRejected(key),),
                )
            gang.failed_at = None
            gang.blamed = set()
        if gang.retry_ns > self.handle.clock.now_ns():
            return Status.unresolvable(
                f"pod group {key} was rejected, and is tried again after its backoff",
                causes=(GangRejected(key),),
            )
        return self._room_rejection(gang, pod, nodes)

    def _version(self, gang: Gang) -> Hashable:
        """A version that changes with everything that may help the group, except its own pods."""
        version = self.handle.dry_run.version
        objects = version.objects - self._gangs.group_changes
        return version.nodes, objects, self._gangs.foreign_changes(gang), gang.revision

    def _room_rejection(self, gang: Gang, pod: Pod, nodes: NodeView) -> Status | None:
        version = self.handle.dry_run.version
        before = self._no_room.get(gang.key)
        if before is not None and before[0] == version:
            return before[1]
        rejection = self._compare_with_room(gang, nodes)
        if rejection is None:
            self._no_room.pop(gang.key, None)
        else:
            self._no_room[gang.key] = version, rejection
            gang.representative = pod.metadata.uid
        return rejection

    def _compare_with_room(self, gang: Gang, nodes: NodeView) -> Status | None:
        spec = gang.spec
        assert spec is not None, "checked before"
        evicting = self._gangs.has_pods_below(gang.priority)
        if spec.min_resources is not None:
            used = Resources()
            for uid in (*gang.bound, *gang.reserved):
                used.add(PodInfo(gang.members[uid]).requested)
            missing = missing_resources(nodes, spec.min_resources, used, evicting=evicting)
            if missing:
                text = ", ".join(f"{amount} of {name}" for name, amount in missing.items())
                return Status.unresolvable(
                    f"pod group {gang.key}: the nodes lack {text} of its minResources",
                    causes=(GangTooLarge(gang.key, missing=tuple(sorted(missing.items()))),),
                )
        needed = spec.min_member - gang.placed
        request = smallest_requests(PodInfo(each) for each in gang.pending())
        places = places_for(nodes, request, evicting=evicting)
        if places >= needed:
            return None
        return Status.unresolvable(
            f"pod group {gang.key}: the nodes have room for {places} of the {needed} pods "
            "that it still needs",
            causes=(GangTooLarge(gang.key, places, needed),),
        )

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Reject the waiting members if the group cannot be completed without this pod."""
        gang = self._gangs.find(group_key_of(pod_info.pod))
        if gang is None or gang.spec is None or gang.is_complete:
            return _NO_VICTIMS
        if _has(state, _REJECTED):
            if gang.representative == pod_info.uid:
                # An event that helps the member that failed first helps the whole group.
                diagnosis.unschedulable_plugins |= gang.blamed
            return _NO_VICTIMS
        gang.failed.add(pod_info.uid)
        gang.blamed |= diagnosis.unschedulable_plugins
        tolerated = gang.spec.min_member * self.args.pod_group_reject_percentage // 100
        if gang.can_be_complete(tolerated):
            return _NO_VICTIMS
        if self._take_room_of_later_groups(gang):
            gang.failed.discard(pod_info.uid)
            return _NO_VICTIMS
        # The plugins that rejected the pod determine which events help.
        gang.representative = pod_info.uid
        gang.failed_at = self._version(gang)
        self._reject(gang, f"pod {pod_info.pod.metadata.name} fits no node")
        return _NO_VICTIMS

    def _take_room_of_later_groups(self, gang: Gang) -> bool:
        """Reject incomplete groups behind this one in the queue; return whether there were any.

        Otherwise two groups that each hold a part of the nodes would wait for each other. A
        rejected group is retried when a group before it in the queue has released its nodes.
        """
        mine = -gang.priority, gang.order
        others = [other for other in self._gangs.holding() if other is not gang]
        later = [other for other in others if (-other.priority, other.order) > mine]
        for other in others:
            other.successors.add(gang.key)
        for other in later:
            gang.successors.add(other.key)
            self._reject(other, f"pod group {gang.key} needs the nodes and is first in the queue")
        return bool(later)

    def _reject(self, gang: Gang, why: str) -> None:
        """Reject the waiting members of a group, and begin a new round."""
        waiting, gang.waiting = gang.waiting, set()
        gang.failed.clear()
        if not gang.is_holding:
            self._end_round(gang)
        gang.representative = gang.representative or min(waiting, default="")
        if waiting and self.args.pod_group_backoff_seconds:
            delay_ns = self.args.pod_group_backoff_seconds * _SECOND_NS
            gang.retry_ns = self.handle.clock.now_ns() + delay_ns
            self.handle.spawn(self._retry_after(gang.key, delay_ns), f"backoff of {gang.key}")
        message = f"pod group {gang.key} cannot be placed as a whole: {why}"
        for uid in sorted(waiting):
            entry = self.handle.waiting_pod(uid)
            if entry is not None:
                entry.reject(self.name, message)

    def _end_round(self, gang: Gang) -> None:
        gang.failed.clear()
        successors, gang.successors = gang.successors, set()
        for key in sorted(successors):
            if (other := self._gangs.find(key)) is not None:
                if not gang.is_complete:
                    other.failed_at = None
                self.handle.activate(other.pending_by_key())

    async def _retry_after(self, key: str, delay_ns: int) -> None:
        await self.handle.clock.sleep(delay_ns)
        if (gang := self._gangs.find(key)) is not None:
            self.handle.activate(gang.pending_by_key())

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        if key := group_key_of(pod):
            gang = self._gangs.gang(key)
            if pod.metadata.uid not in gang.bound:
                gang.reserved.add(pod.metadata.uid)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        gang = self._gangs.find(group_key_of(pod))
        if gang is None or gang.is_complete:
            self._gangs.released(pod)
        if gang is None:
            return
        uid = pod.metadata.uid
        was_waiting = uid in gang.waiting
        gang.reserved.discard(uid)
        gang.waiting.discard(uid)
        if was_waiting and not gang.is_complete:
            gang.representative = uid
            self._reject(gang, f"pod {pod.metadata.name} lost its node")
        elif not gang.is_holding:
            self._end_round(gang)
        if gang.bound and not gang.is_complete and not gang.waiting:
            self._gangs.broken.add(gang.key)
            self.handle.spawn(self._retry_after(gang.key, _REPAIR_NS), f"repair of {gang.key}")

    def _repair(self) -> None:
        """Try the missing members of partly running groups at once, without backoff.

        This happens when the binding of a member failed, and other pods may have taken its node.
        """
        for key in sorted(self._gangs.broken):
            gang = self._gangs.find(key)
            if gang is None or gang.is_complete or not gang.bound:
                self._gangs.broken.discard(key)
            else:
                self.handle.activate(gang.pending_by_key())

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        key = group_key_of(pod)
        if not key:
            return SUCCESS
        gang = self._gangs.gang(key)
        if gang.spec is None:
            return Status.unresolvable(
                f"pod group {key} does not exist", causes=(PodGroupMissing(key),)
            )
        if (
            gang.is_complete
            and gang.placed - self._count_losing_members(gang) >= gang.spec.min_member
        ):
            self._allow(gang)
            return SUCCESS
        if not gang.waiting:
            # Members may be in backoff, or wait for events; they are tried at once.
            state.pods_to_activate.update(gang.pending_by_key())
        gang.waiting.add(pod.metadata.uid)
        timeout_ns = gang.spec.timeout_ns
        if timeout_ns is None:
            timeout_ns = self.args.permit_waiting_time_seconds * _SECOND_NS
        missing = gang.spec.min_member - gang.placed
        return Wait(timeout_ns, (f"pod group {key} needs {missing} more pods with a node",))

    def _count_losing_members(self, gang: Gang) -> int:
        """Return how many members will lose their node because of a timeout or a preemption."""
        entries = map(self.handle.waiting_pod, gang.waiting)
        return sum(1 for entry in entries if entry is None or entry.is_decided)

    def _allow(self, gang: Gang) -> None:
        waiting, gang.waiting = gang.waiting, set()
        self._end_round(gang)
        for uid in sorted(waiting):
            entry = self.handle.waiting_pod(uid)
            if entry is not None:
                entry.allow(self.name)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        # The creation or deletion of a member is handled by `_members_changed`, not by an event.
        more_room = (
            ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_TAINT
        )
        changed_group = ActionType.ADD | ActionType.UPDATE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), self._after_pod_deleted
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN),
                self._after_pod_shrunk,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, more_room), self._after_node_changed
            ),
            ClusterEventWithHint(
                ClusterEvent(POD_GROUPS, changed_group), self._after_group_changed
            ),
        )

    def _after_pod_deleted(self, pod: Pod, old: Pod | None, new: Any) -> QueueingHint:
        if old is None or not old.spec.node_name or group_key_of(old) == group_key_of(pod):
            return QueueingHint.SKIP
        return self._if_represents(pod)

    def _after_pod_shrunk(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """The pod itself requests less now, or one that has a node."""
        if new.metadata.uid == pod.metadata.uid:
            return QueueingHint.QUEUE
        return self._if_represents(pod) if new.spec.node_name else QueueingHint.SKIP

    def _after_node_changed(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        return self._if_represents(pod)

    def _if_represents(self, pod: Pod) -> QueueingHint:
        """Requeue the member that represents the group; with a node, it activates the others."""
        gang = self._gangs.find(group_key_of(pod))
        represents = gang is not None and gang.representative == pod.metadata.uid
        return QueueingHint.QUEUE if represents else QueueingHint.SKIP

    def _after_group_changed(
        self, pod: Pod, old: CustomObject | None, new: CustomObject
    ) -> QueueingHint:
        is_own = group_key_of(pod) == f"{new.metadata.namespace}/{new.metadata.name}"
        has_changed = old is None or read_spec(old) != read_spec(new)
        return QueueingHint.QUEUE if is_own and has_changed else QueueingHint.SKIP

    def _members_changed(self, gang: Gang) -> None:
        """Retry the members if enough of them exist, or if the representing member was removed."""
        if gang.spec is None or gang.waiting or gang.is_complete:
            return
        enough = gang.ungated >= gang.spec.min_member
        was_enough, gang.was_enough = gang.was_enough, enough
        is_orphaned = bool(gang.representative) and gang.representative not in gang.members
        if is_orphaned:
            gang.representative = ""
        if enough and (is_orphaned or not was_enough):
            self.handle.activate(gang.pending_by_key())

    async def work_as_leader(self) -> None:
        """Write the status of PodGroups. One profile writes it for all profiles."""
        loop = self.handle.shared.get(
            "coscheduling status", lambda: GroupStatusLoop(self._gangs, self.handle)
        )
        await loop.run_once()

    def panels(self) -> Sequence[Panel]:
        lister = self.handle.lister(pod_group_type())

        def phase_of(key: str) -> str:
            namespace, _, name = key.partition("/")
            group = lister.get(name, namespace)
            return "" if group is None else str(group.status.get("phase", ""))

        return (group_panel(self._gangs, phase_of, self._reason_of),)

    def _reason_of(self, gang: Gang) -> str:
        """Why a group was rejected, in a sentence; empty if it is tried next."""
        if gang.spec is None or gang.ungated < gang.spec.min_member or gang.is_complete:
            return ""
        if (rejection := self._compare_with_room(gang, self.handle.snapshot.nodes)) is not None:
            return f"{rejection.reasons[0]}."
        if gang.failed_at is not None:
            by = f" Its pods were rejected by {', '.join(sorted(gang.blamed))}." * bool(gang.blamed)
            return f"It did not fit as a whole, and nothing has changed since.{by}"
        if gang.retry_ns > self.handle.clock.now_ns():
            return "It was rejected, and is tried again after its backoff."
        return ""

    def explaining(self) -> Explaining:
        from kubesched.contrib.coscheduling.explaining import CoschedulingExplaining

        return CoschedulingExplaining()


def _has(state: CycleState, key: str) -> bool:
    try:
        state.read(key)
    except StateNotFoundError:
        return False
    return True


def _follow(handle: Handle) -> Gangs:
    gangs = Gangs()
    handle.lister(pod_group_type()).follow(gangs.group_changed)
    handle.lister(Pod).follow(gangs.pod_changed)
    return gangs
