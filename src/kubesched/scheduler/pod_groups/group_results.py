"""What an attempt at a group comes to: for the group, and for each of its pods."""

from __future__ import annotations

import msgspec

from kubesched.errors import KubeschedError
from kubesched.framework import Code, Nominating, Status
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["GroupResult", "GroupUnschedulableError", "MemberResult", "unschedulable"]

WAITING_FOR_PREEMPTION = "pod group is waiting for preemption to complete"


class GroupUnschedulableError(KubeschedError):
    """Not enough members of the group could be placed."""

    def __init__(self) -> None:
        super().__init__("pod group is unschedulable")


def unschedulable(*reasons: str) -> Status:
    """The verdict on a group that does not fit, or on a member that would have."""
    return Status(Code.UNSCHEDULABLE, reasons, GroupUnschedulableError())


class MemberResult(msgspec.Struct, eq=False):
    """How one pod of the group fared while the others were where they would be."""

    attempt: Attempt
    status: Status
    duration_ns: int
    # What the failure means for its nomination; None: nothing.
    nominating: Nominating | None = None
    # The node it was put on, if any: one that fits, or one where room is being made.
    node_name: str = ""
    needs_preemption: bool = False
    # What Permit said there: success or wait.
    permit: Status | None = None
    result: ScheduleResult | None = None


class GroupResult(msgspec.Struct, eq=False):
    """The verdict on the group, and the results of those members that were tried."""

    status: Status
    members: list[MemberResult]
    is_waiting_on_preemption: bool = False
