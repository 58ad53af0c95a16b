"""The results of a group cycle: for the group, and for each of its pods."""

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
    """Return the status of a group that does not fit, or of a member that waits for others."""
    return Status(Code.UNSCHEDULABLE, reasons, GroupUnschedulableError())


class MemberResult(msgspec.Struct, eq=False):
    """The result of one pod of the group, with the members before it placed."""

    attempt: Attempt
    status: Status
    duration_ns: int
    # What to do with its nomination after a failure; None: nothing.
    nominating: Nominating | None = None
    # Its node, if any: a feasible one, or one where preemption makes room.
    node_name: str = ""
    needs_preemption: bool = False
    # The status of Permit on that node: success or wait.
    permit: Status | None = None
    result: ScheduleResult | None = None


class GroupResult(msgspec.Struct, eq=False):
    """The verdict on the group, and the results of the members that were tried."""

    status: Status
    members: list[MemberResult]
    is_waiting_on_preemption: bool = False
    # Preemption cannot make room for the group: nominations of earlier cycles end.
    is_without_prospect: bool = False
