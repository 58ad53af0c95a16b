"""Trial placements of a group, one per topology domain (docs/reference/09 §8).

A placement restricts the nodes that searches may choose from. The group is tried on each, and of
those with room for it the PlacementScore plugins choose the best.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from kubesched.api import PodGroup
from kubesched.errors import PluginError, text_of
from kubesched.framework import (
    Code,
    Lister,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
    QueuedPodInfo,
    Status,
)
from kubesched.framework.pod_groups import GroupCycle, group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.pod_groups.equal_members import equal_members
from kubesched.scheduler.pod_groups.group_algorithm import MemberTrials
from kubesched.scheduler.pod_groups.group_needs import members_needed
from kubesched.scheduler.pod_groups.group_results import GroupResult, unschedulable
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["PlacementAlgorithm"]

_Placements = Sequence[PodGroupPlacement]


class PlacementAlgorithm:
    """Tries a group on every placement, and chooses one of those with room for it."""

    def __init__(
        self,
        cache: GroupingCache,
        trials: MemberTrials,
        groups: Lister[PodGroup],
        rng: random.Random,
    ) -> None:
        """`rng` draws one of several placements with the same, highest score."""
        self._cache = cache
        self._trials = trials
        self._groups = groups
        self._random = rng
        # Whether equal members are counted. Tests turn it off to compare the results.
        self.counts_members = True

    def run(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        *,
        makes_room: bool = True,
    ) -> GroupResult:
        """Return the verdict on the members, and their nodes in the best placement."""
        snapshot = self._cache.update_snapshot()
        first = members[0].pod
        name, namespace = group_name_of(first), first.metadata.namespace
        group = PodGroupInfo(namespace, name, tuple(queued.pod for queued in members))
        points = framework.placements
        points.start(cycle.state)
        parent = PodGroupPlacement("", snapshot.nodes)
        try:
            status, placements = points.generate(cycle.state, group, parent, snapshot)
            if not status.is_success:
                return GroupResult(status, [])
            if len(placements) > 1 and self._is_counted(framework, group):
                found = self._count(framework, members, cycle, group, placements, makes_room)
                if found is not None:
                    return found
            return self._try_all(framework, members, cycle, group, placements, makes_room)
        except PluginError as exc:
            return GroupResult(Status.failure(exc), [])

    def rejection_everywhere(self, framework: Framework) -> Status | None:
        if not framework.placements.follow_constraints:
            return None
        return _none_fits(GroupResult(unschedulable(), []), 1).status

    def _try_all(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        group: PodGroupInfo,
        placements: _Placements,
        makes_room: bool,
    ) -> GroupResult:
        """Place the members on every placement; return the result of the best one."""
        first: GroupResult | None = None
        good: list[tuple[PodGroupPlacement, GroupResult]] = []
        for placement in placements:
            outcome = self._try(framework, members, cycle, placement, makes_room)
            if not outcome.status.is_success and not outcome.status.is_rejected:
                return outcome
            first = first or outcome
            if outcome.status.is_success or outcome.is_waiting_on_preemption:
                good.append((placement, outcome))
        assert first is not None, "there is at least one placement"
        if not good:
            return _none_fits(first, len(placements))
        if len(good) == 1:
            return good[0][1]
        assignments = [_assignments(placement, outcome) for placement, outcome in good]
        return good[self._best(framework, cycle, group, assignments)][1]

    def _try(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        placement: PodGroupPlacement,
        makes_room: bool,
    ) -> GroupResult:
        with self._cache.snapshot.restricted_to(placement.nodes):
            return self._trials.run(framework, members, cycle, makes_room=makes_room)

    def _best(
        self,
        framework: Framework,
        cycle: GroupCycle,
        group: PodGroupInfo,
        candidates: Sequence[PodGroupAssignments],
    ) -> int:
        """Return the number of the candidate with the highest score.

        Raises:
            PluginError: a plugin failed.
        """
        self._cache.update_snapshot()  # without the members that were placed on trial
        totals = framework.placements.score(cycle.state, group, candidates)
        highest = max(totals)
        best = [number for number, total in enumerate(totals) if total == highest]
        if framework.own_ties is not None:
            return min(best, key=lambda number: candidates[number].placement.name)
        return self._random.choice(best)

    def _is_counted(self, framework: Framework, group: PodGroupInfo) -> bool:
        """Whether counting members may replace placing them on every placement.

        Members of a group with constraints do not preempt others, and the scores of the profile do
        not depend on the nodes that the members get.
        """
        found = self._groups.get(group.name, group.namespace)
        return (
            self.counts_members
            and not framework.placements.read_nodes
            and found is not None
            and found.spec.scheduling_constraints is not None
        )

    def _count(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        group: PodGroupInfo,
        placements: _Placements,
        makes_room: bool,
    ) -> GroupResult | None:
        """Return the result of the best placement, found by counting; None if that is impossible.

        Raises:
            PluginError: a plugin failed.
        """
        snapshot = self._cache.snapshot
        needed = members_needed(framework, self._groups, self._cache.groups, members[0].pod)
        equal = None if needed is None else equal_members(framework, snapshot, members, cycle)
        if equal is None or needed is None:
            return None
        room = np.zeros(snapshot.table.capacity, dtype=np.int64)
        rows = np.unique(np.concatenate([each.nodes.rows for each in placements]))
        room[rows] = equal.room_now(rows)
        counts = [min(int(room[each.nodes.rows].sum()), len(members)) for each in placements]
        good = [number for number, count in enumerate(counts) if count >= needed]
        if not good:
            outcome = self._try(framework, members, cycle, placements[0], makes_room)
            return _none_fits(outcome, len(placements)) if _is_plain_rejection(outcome) else None
        chosen = 0
        if len(good) > 1:
            candidates = [
                PodGroupAssignments(placements[number], group.pods[: counts[number]])
                for number in good
            ]
            chosen = self._best(framework, cycle, group, candidates)
        outcome = self._try(framework, members, cycle, placements[good[chosen]], makes_room)
        placed = sum(bool(member.node_name) for member in outcome.members)
        is_expected = outcome.status.is_success and placed == counts[good[chosen]]
        return outcome if is_expected else None


def _is_plain_rejection(outcome: GroupResult) -> bool:
    return outcome.status.is_rejected and not outcome.is_waiting_on_preemption


def _none_fits(first: GroupResult, count: int) -> GroupResult:
    """Return the result if the group fits no placement: the members' own results on the first."""
    error = first.status.error
    text = first.status.message if error is None else text_of(error)
    first.status = Status(
        Code.UNSCHEDULABLE,
        (f"0/{count} placements are available, first placement status: {text}",),
    )
    return first


def _assignments(placement: PodGroupPlacement, outcome: GroupResult) -> PodGroupAssignments:
    placed = [member for member in outcome.members if member.node_name]
    return PodGroupAssignments(
        placement,
        tuple(member.attempt.queued.pod for member in placed),
        tuple(member.node_name for member in placed),
    )
