"""Pod groups in the plugin contract (docs/reference/09 §3, §6.3).

A pod names its group in `spec.schedulingGroup`. A group consists of the pods that name it, even
if no PodGroup object exists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from kubesched.api import Pod
from kubesched.errors import KubeschedError
from kubesched.framework.cycle_state import CycleState, StateNotFoundError

__all__ = [
    "GroupCycle",
    "PodGroupMembers",
    "PodGroups",
    "UnknownPodGroupError",
    "enter_group_cycle",
    "group_cycle_of",
    "group_name_of",
    "is_tried_with_group",
    "leave_group_cycle",
]

_KEY = "PodGroupCycle"


class UnknownPodGroupError(KubeschedError):
    """No pod names this group."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(f"pod group state not found for pod group {namespace}/{name}")


class PodGroupMembers(Protocol):
    """The pods of one group: pending pods of this scheduler, and pods on nodes."""

    @property
    def all_count(self) -> int: ...

    @property
    def scheduled_count(self) -> int:
        """The number of members that are bound or assumed."""
        ...

    @property
    def assumed(self) -> Collection[str]:
        """The uids of assumed members."""
        ...

    def scheduled_pods(self) -> Collection[Pod]:
        """The members that are bound or assumed, with their nodes."""
        ...

    def unscheduled_pods(self) -> Mapping[str, Pod]:
        """The members without a node, by "namespace/name"."""
        ...


class PodGroups(Protocol):
    """All groups that some pod names.

    During a group cycle, members count as placed on the nodes chosen so far.
    """

    def members(self, namespace: str, name: str) -> PodGroupMembers:
        """Return the members of a group.

        Raises:
            UnknownPodGroupError: no pod names the group.
        """
        ...


class GroupCycle:
    """State that the trial attempts of all members of a group share.

    `claims` has the uids of claims that got devices in this cycle; other members may use them.
    `state` is the cycle state of the group, which PlacementGenerate and PlacementScore receive.
    `calls_extenders` says whether extenders take part in the choice of nodes. `reviewed` has the
    uids of pods whose victims extenders review; a trial cannot wait for that.
    """

    __slots__ = ("calls_extenders", "claims", "reviewed", "state")

    def __init__(self, *, calls_extenders: bool = False, reviewed: Collection[str] = ()) -> None:
        self.claims: set[str] = set()
        self.state = CycleState()
        self.calls_extenders = calls_extenders
        self.reviewed = reviewed


def enter_group_cycle(state: CycleState, cycle: GroupCycle) -> None:
    state.write(_KEY, cycle)


def leave_group_cycle(state: CycleState) -> None:
    """Mark the attempt as a real one, after the trial attempts of the group."""
    state.write(_KEY, None)


def group_cycle_of(state: CycleState) -> GroupCycle | None:
    """Return the group cycle of a trial attempt; None for a real attempt."""
    try:
        cycle: GroupCycle | None = state.read(_KEY)
    except StateNotFoundError:
        return None
    return cycle


def is_tried_with_group(state: CycleState) -> bool:
    """Whether the attempt belongs to a group cycle, as a trial or as a real attempt."""
    try:
        state.read(_KEY)
    except StateNotFoundError:
        return False
    return True


def group_name_of(pod: Pod) -> str:
    """Return the name of the pod's group in its namespace; empty if it has none."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""
