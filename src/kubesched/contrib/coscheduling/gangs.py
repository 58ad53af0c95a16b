"""The pods of each PodGroup: pending, placed, and waiting in Permit.

This class performs no I/O. The plugin passes changes to it, and reads the progress of groups. All
profiles of a scheduler share one object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator

from kubesched.api import Pod, pod_key, pod_priority
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.coscheduling.group_spec import GroupSpec, group_key_of, read_spec

__all__ = ["Gang", "Gangs"]

_ENDED_PHASES = ("Succeeded", "Failed")


class Gang:
    """The members of one PodGroup, by uid. Completed pods are not members."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.spec: GroupSpec | None = None  # None: the PodGroup does not exist
        self.members: dict[str, Pod] = {}
        self.bound: set[str] = set()
        self.gated: set[str] = set()  # blocked by scheduling gates
        # reserved by this scheduler; the binding is not confirmed yet
        self.reserved: set[str] = set()
        self.waiting: set[str] = set()  # waiting in Permit
        # Members that fitted no node since the first member of this round was reserved.
        self.failed: set[str] = set()
        # The cluster version in which the group could not be placed, and the plugins that rejected
        # members.
        self.failed_at: Hashable = None
        self.blamed: set[str] = set()
        self.revision = 0  # Version of the members' specs and labels.
        self.own_changes = 0  # changes to members with a node: see `Gangs.foreign_changes`
        self.retry_ns = 0  # until this time no member is tried
        # The member that waits for events on behalf of the whole group.
        self.representative = ""
        # Whether minMember members existed at the last check.
        self.was_enough = False
        # Keys of groups to retry when this group is placed or has released its nodes.
        self.successors: set[str] = set()
        # Whether a member has completed or was deleted. Then only the API server has the phases of
        # all members.
        self.has_ended = True
        # The time when the first member entered the queue; used for groups without a PodGroup.
        self.first_seen_ns = 0

    @property
    def order(self) -> tuple[int, str]:
        """The sort key among groups of the same priority; the smaller one is first."""
        created_ns = 0 if self.spec is None else self.spec.created_ns
        return created_ns or self.first_seen_ns, self.key

    @property
    def placed(self) -> int:
        """The number of members with a node, bound or reserved."""
        return len(self.bound) + len(self.reserved)

    @property
    def ungated(self) -> int:
        """The number of members without scheduling gates."""
        return len(self.members) - len(self.gated)

    @property
    def priority(self) -> int:
        return max(map(pod_priority, self.members.values()), default=0)

    def pending(self) -> list[Pod]:
        """The members without a node that may be scheduled."""
        return [
            pod
            for uid, pod in self.members.items()
            if uid not in self.bound
            and uid not in self.reserved
            and uid not in self.gated
            and pod.metadata.deletion_timestamp is None
        ]

    def pending_by_key(self) -> dict[str, Pod]:
        return {pod_key(pod): pod for pod in self.pending()}

    def can_be_complete(self, tolerated: int) -> bool:
        """Whether the members that have not failed in this round are enough for minMember."""
        least = 0 if self.spec is None else self.spec.min_member
        hopeful = sum(1 for pod in self.pending() if pod.metadata.uid not in self.failed)
        return self.placed + hopeful + tolerated >= least

    @property
    def is_complete(self) -> bool:
        return self.spec is not None and self.placed >= self.spec.min_member

    @property
    def is_holding(self) -> bool:
        """Whether members hold nodes that the group may have to release."""
        return bool(self.reserved) and not self.is_complete


class Gangs:
    """The gangs of a cluster, derived from its pods and PodGroups."""

    def __init__(self) -> None:
        self._gangs: dict[str, Gang] = {}
        # Priority -> number of pods on nodes, members of groups or not.
        self._priorities: Counter[int] = Counter()
        # Number of changes to pods with a node, and to PodGroups.
        self._changes = 0
        self.group_changes = 0
        # Keys of groups that were complete and have since lost the binding of a member.
        self.broken: set[str] = set()
        # Called when a pod has left its node.
        self.on_room: list[Callable[[], None]] = []
        # Called with the group when its members or its spec changed.
        self.on_change: list[Callable[[Gang], None]] = []

    def find(self, key: str) -> Gang | None:
        return self._gangs.get(key)

    def gang(self, key: str) -> Gang:
        """Return the gang with this key; create it if it does not exist."""
        found = self._gangs.get(key)
        if found is None:
            found = self._gangs[key] = Gang(key)
        return found

    def __iter__(self) -> Iterator[Gang]:
        return iter(list(self._gangs.values()))

    def holding(self) -> Collection[Gang]:
        """The gangs of which only a part is placed."""
        return [gang for gang in self._gangs.values() if gang.is_holding]

    def has_pods_below(self, priority: int) -> bool:
        """Whether a pod with a lower priority is on a node."""
        return any(number > 0 and each < priority for each, number in self._priorities.items())

    def foreign_changes(self, gang: Gang) -> int:
        """The number of changes to pods with a node that are not members of the group."""
        return self._changes - gang.own_changes

    def released(self, pod: Pod) -> None:
        """Record that this scheduler released the node that it had reserved for a pod.

        Not called for groups that were rejected as a whole, because the cluster has not changed for
        them.
        """
        self._count_change(pod)

    def _count_change(self, pod: Pod) -> None:
        self._changes += 1
        if key := group_key_of(pod):
            self.gang(key).own_changes += 1

    def group_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        """Apply a change to a PodGroup."""
        changed = new if new is not None else old
        assert changed is not None, "a change has an object"
        gang = self.gang(f"{changed.metadata.namespace}/{changed.metadata.name}")
        self.group_changes += 1
        spec = None if new is None else read_spec(new)
        if spec != gang.spec:
            gang.spec = spec
            gang.retry_ns = 0
            gang.failed_at = None
        self._report(gang)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Apply a change to a pod."""
        self._count(old, -1)
        self._count(new, 1)
        if _matters(old, new):
            self._count_change(new or old or Pod())
            if new is None and self.broken:
                for listener in self.on_room:
                    listener()
        if old is not None and (key := group_key_of(old)):
            self._move_out(key, old, new)
        if new is not None and (key := group_key_of(new)):
            self._move_in(key, new)

    def _count(self, pod: Pod | None, step: int) -> None:
        if pod is not None and pod.spec.node_name:
            self._priorities[pod_priority(pod)] += step

    def _move_out(self, key: str, old: Pod, new: Pod | None) -> None:
        uid = old.metadata.uid
        if new is not None and new.metadata.uid == uid and group_key_of(new) == key:
            return
        gang = self.gang(key)
        gang.members.pop(uid, None)
        for uids in (gang.bound, gang.reserved, gang.failed, gang.gated):
            uids.discard(uid)
        gang.has_ended = True
        gang.revision += 1
        self._report(gang)

    def _move_in(self, key: str, pod: Pod) -> None:
        if pod.status.phase in _ENDED_PHASES:
            return
        gang, uid = self.gang(key), pod.metadata.uid
        before = gang.members.get(uid)
        gang.members[uid] = pod
        if before is None or _differ(before, pod):
            gang.revision += 1
        if pod.spec.node_name:
            gang.bound.add(uid)
            gang.reserved.discard(uid)
            gang.waiting.discard(uid)
        if pod.spec.scheduling_gates:
            gang.gated.add(uid)
        else:
            gang.gated.discard(uid)
        self._report(gang)

    def _report(self, gang: Gang) -> None:
        for listener in self.on_change:
            listener(gang)
        if gang.spec is None and not gang.members and not gang.reserved:
            self._gangs.pop(gang.key, None)


def _matters(old: Pod | None, new: Pod | None) -> bool:
    """Whether a change to a pod with a node may release resources or satisfy an affinity."""
    if new is None:
        return old is not None and bool(old.spec.node_name)
    if not new.spec.node_name:
        return False
    return old is None or not old.spec.node_name or _differ(old, new)


def _differ(old: Pod, new: Pod) -> bool:
    is_same = old.spec is new.spec and old.metadata.labels is new.metadata.labels
    if is_same or (old.spec.node_name != new.spec.node_name):
        return False  # the binding of a member is no reason to retry its own group
    return old.spec != new.spec or old.metadata.labels != new.metadata.labels
