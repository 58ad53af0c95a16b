"""Trial placement of a group: its pods are placed one after another, then all is undone.

docs/reference/09 §7. Nothing is awaited, so the cluster cannot change during the trial. Members are
assumed in the cache itself and removed at the end. Plugins and later members therefore read the
same state as in the real placement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kubesched.errors import CacheError
from kubesched.foundation.util.clock import Clock
from kubesched.framework import (
    Code,
    CycleState,
    Nominating,
    NominatingMode,
    PodInfo,
    QueuedPodInfo,
    Status,
)
from kubesched.framework.pod_groups import GroupCycle, enter_group_cycle
from kubesched.framework.post_filter import nominated_node
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle, about_node, pod_on_node
from kubesched.scheduler.pod_groups.group_results import (
    WAITING_FOR_PREEMPTION,
    GroupResult,
    MemberResult,
    unschedulable,
)
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["GroupAlgorithm", "MemberTrials"]

Undo = Callable[[], None]


class GroupAlgorithm(Protocol):
    """Finds out whether a group can be placed. Nothing stays changed."""

    def run(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        *,
        makes_room: bool = True,
    ) -> GroupResult:
        """Return the verdict on the members; without `makes_room` no PostFilter plugin runs."""
        ...

    def rejection_everywhere(self, framework: Framework) -> Status | None:
        """Return the verdict on a group without constraints of which too few members fit.

        None if only a trial can show it.
        """
        ...


class MemberTrials:
    """Places the members of a group one after another; the default algorithm."""

    def __init__(
        self, cache: Cache, queue: GroupingQueue, scheduling: SchedulingCycle, clock: Clock
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._scheduling = scheduling
        self._clock = clock

    def run(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        *,
        makes_room: bool = True,
    ) -> GroupResult:
        """Return the verdict on the members, tried in this order. The cache is left as it was."""
        outcome = GroupResult(unschedulable(), [])
        undos: list[Undo] = []
        needs_preemption = False
        try:
            for queued in members:
                member, undo = self._try(framework, queued, cycle, makes_room)
                outcome.members.append(member)
                if undo is None:
                    if member.status.is_rejected:
                        continue
                    error = member.status.message
                    outcome.status = Status.failure(
                        f"failed to schedule other pod from a pod group: {error}"
                    )
                    outcome.is_waiting_on_preemption = False
                    break
                undos.append(undo)
                needs_preemption = needs_preemption or member.needs_preemption
                if member.permit is not None and member.permit.is_success:
                    # One permitted member is enough: a gang's Permit counts the others.
                    outcome.is_waiting_on_preemption = needs_preemption
                    outcome.status = (
                        unschedulable(WAITING_FOR_PREEMPTION) if needs_preemption else member.permit
                    )
        finally:
            for undo in reversed(undos):
                undo()
        return outcome

    def rejection_everywhere(self, framework: Framework) -> Status:  # noqa: ARG002
        return unschedulable()

    def _try(
        self, framework: Framework, queued: QueuedPodInfo, cycle: GroupCycle, makes_room: bool
    ) -> tuple[MemberResult, Undo | None]:
        """Place a member if it fits a node; return its result, and how to undo the placement."""
        state = CycleState()
        state.may_pause = True  # it fails instead, and the next attempt continues
        state.plugin_timer = framework.point_metrics.sample()
        enter_group_cycle(state, cycle)
        attempt = Attempt(framework, state, queued, self._clock.monotonic_ns())
        if queued.pod.metadata.uid in cycle.reviewed:
            makes_room = False
        status, node_name, nominating, result = self._scheduling.find_node(
            attempt, makes_room=makes_room
        )
        self._scheduling.observe_algorithm(attempt)
        member = MemberResult(attempt, status, 0, nominating, result=result)
        if not status.is_success:
            # On a node where preemption makes room, it counts as placed for the other members.
            node_name = nominated_node(nominating) or ""
            member.needs_preemption = bool(node_name)
        undo = self._put(member, node_name) if node_name else None
        member.duration_ns = self._clock.monotonic_ns() - attempt.started_ns
        return member, undo

    def _put(self, member: MemberResult, node_name: str) -> Undo | None:
        """Assume a member on a node and run Reserve and Permit; return a function that undoes this.

        Returns None if one of them failed and was undone.
        """
        attempt = member.attempt
        framework, state, queued = attempt.framework, attempt.state, attempt.queued
        assumed = pod_on_node(member.attempt, node_name)
        try:
            self._cache.assume_pod(assumed)
        except CacheError as exc:
            self._fail(member, Status.failure(exc))
            return None
        self._queue.nominator.delete_nominated_pod(queued.pod)

        def undo() -> None:
            self._take_off(member, assumed, node_name)

        status = framework.binding.run_reserve(state, assumed.pod, node_name)
        if status.is_success:
            status = framework.binding.try_permit(state, assumed.pod, node_name)
        if not status.is_success and status.code is not Code.WAIT:
            undo()
            self._fail(member, about_node(node_name, status))
            return None
        member.node_name, member.permit = node_name, status
        return undo

    def _fail(self, member: MemberResult, status: Status) -> None:
        member.status = status
        member.nominating, member.needs_preemption = CLEAR_NOMINATION, False
        member.result = None

    def _take_off(self, member: MemberResult, assumed: PodInfo, node_name: str) -> None:
        attempt = member.attempt
        framework, state, queued = attempt.framework, attempt.state, attempt.queued
        self._scheduling.undo(framework, state, assumed, node_name)
        # A nomination that exists in memory only is lost, as in the reference.
        if nominated := queued.pod.status.nominated_node_name:
            self._queue.nominator.add_nominated_pod(
                queued.pod_info, Nominating(NominatingMode.OVERRIDE, nominated)
            )
