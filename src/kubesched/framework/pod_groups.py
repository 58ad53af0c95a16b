"""Pods that are scheduled together: what plugins see of a group (docs/reference/09 §3, §6.3).

A pod names its group in `spec.schedulingGroup`. The group is known by the pods that name it,
whether or not its PodGroup object exists.
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
    """The pods of one group: those that wait for this scheduler, and those on nodes."""

    @property
    def all_count(self) -> int: ...

    @property
    def scheduled_count(self) -> int:
        """How many have a node, or were given one that is not confirmed yet."""
        ...

    @property
    def assumed(self) -> Collection[str]:
        """Uids of those whose node is not confirmed yet."""
        ...

    def unscheduled_pods(self) -> Mapping[str, Pod]:
        """Those without a node, by "namespace/name"."""
        ...


class PodGroups(Protocol):
    """All groups that some pod names.

    During a group cycle members count as placed where the cycle has put them so far.
    """

    def members(self, namespace: str, name: str) -> PodGroupMembers:
        """Raises UnknownPodGroupError."""
        ...


class GroupCycle:
    """What the attempts at all members share while it is found out whether the group fits.

    Claims that members were given devices for in this cycle, by uid: other members may use them.
    """

    __slots__ = ("claims",)

    def __init__(self) -> None:
        self.claims: set[str] = set()


def enter_group_cycle(state: CycleState, cycle: GroupCycle) -> None:
    state.write(_KEY, cycle)


def leave_group_cycle(state: CycleState) -> None:
    """From here on the attempt is for real."""
    state.write(_KEY, None)


def group_cycle_of(state: CycleState) -> GroupCycle | None:
    """The group cycle that the attempt is part of; None: it is for real."""
    try:
        cycle: GroupCycle | None = state.read(_KEY)
    except StateNotFoundError:
        return None
    return cycle


def is_tried_with_group(state: CycleState) -> bool:
    """Whether the pod was tried with all of its group that could be had, for real or not."""
    try:
        state.read(_KEY)
    except StateNotFoundError:
        return False
    return True


def group_name_of(pod: Pod) -> str:
    """The name of the pod's group in its namespace; empty if it has none."""
    group = pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name or ""
