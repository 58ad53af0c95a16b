"""Carries out the verdict on a group (docs/reference/09 §11).

Members of a group that fits are placed, each on its own from then on. The others are requeued, each
with the status that kept it, or the group, from being placed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kubesched.foundation.util.clock import Clock
from kubesched.framework import CycleState, Nominating, NominatingMode, QueuedPodInfo, Status
from kubesched.framework.pod_groups import leave_group_cycle
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.binding_cycle import PodPlacement
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION, FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle
from kubesched.scheduler.pod_groups.group_results import GroupResult, MemberResult, unschedulable
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["GroupSubmission", "failure_of"]


def failure_of(outcome: GroupResult, member: MemberResult) -> tuple[Status, Nominating | None]:
    """Return why a member is not placed, and what to do with its nomination.

    Must not be called for a feasible member of a feasible group.
    """
    group, own = outcome.status, member.status
    has_node = bool(member.node_name)
    if not group.is_success and not group.is_rejected:
        is_own = not own.is_success and not own.is_rejected
        return own if is_own else group, CLEAR_NOMINATION
    if group.is_success:
        if member.needs_preemption:
            return _held_back(member), CLEAR_NOMINATION
        return own, member.nominating
    if outcome.is_waiting_on_preemption:
        if own.is_success:
            return group, Nominating(NominatingMode.OVERRIDE, member.node_name)
        return own, member.nominating
    if has_node:
        return _held_back(member), CLEAR_NOMINATION
    if outcome.is_without_prospect:
        # An earlier cycle may have nominated it while the group waited for victims.
        return own, CLEAR_NOMINATION
    return own, member.nominating


def _held_back(member: MemberResult) -> Status:
    """Return the status of a member that has a node and waits for members that have none."""
    reasons = () if member.permit is None else member.permit.all_reasons
    return unschedulable(", ".join(reasons)) if reasons else unschedulable()


class GroupSubmission:
    """Places members, or calls the failure handler for them."""

    def __init__(
        self,
        scheduling: SchedulingCycle,
        failures: FailureHandler,
        bind: Callable[[PodPlacement], None],
        clock: Clock,
    ) -> None:
        self._scheduling = scheduling
        self._failures = failures
        self._bind = bind
        self._clock = clock

    def run(
        self, framework: Framework, members: Sequence[QueuedPodInfo], outcome: GroupResult
    ) -> int:
        """Place or requeue every pod of the group; return how many were placed."""
        results = {id(each.attempt.queued): each for each in outcome.members}
        placed = 0
        for queued in members:
            member = results.get(id(queued))
            if member is None:
                # It was not tried, because an error of another member ended the cycle.
                attempt = Attempt(framework, CycleState(), queued, self._clock.monotonic_ns())
                self._fail(attempt, outcome.status, CLEAR_NOMINATION)
            elif outcome.status.is_success and member.status.is_success:
                placed += self._place(self._restarted(member), member)
            else:
                self._fail(self._restarted(member), *failure_of(outcome, member))
        return placed

    def _restarted(self, member: MemberResult) -> Attempt:
        """Return the attempt with a later start: waiting for other members is not part of it."""
        started_ns = self._clock.monotonic_ns() - member.duration_ns
        return replace(member.attempt, started_ns=started_ns)

    def _place(self, attempt: Attempt, member: MemberResult) -> bool:
        leave_group_cycle(attempt.state)
        self._notify_watcher(attempt, member.status, member)
        placement = self._scheduling.place(attempt, member.node_name)
        if placement is not None:
            self._bind(placement)
        return placement is not None

    def _fail(self, attempt: Attempt, status: Status, nominating: Nominating | None) -> None:
        self._notify_watcher(attempt, status, None)
        self._failures.handle(attempt, status, nominating)

    def _notify_watcher(
        self, attempt: Attempt, status: Status, member: MemberResult | None
    ) -> None:
        node_name = "" if member is None else member.node_name
        for watcher in (self._scheduling.watcher, self._scheduling.recorder):
            if watcher is not None:
                # The search result is not valid any more.
                watcher.decided(attempt, status, node_name, None)
