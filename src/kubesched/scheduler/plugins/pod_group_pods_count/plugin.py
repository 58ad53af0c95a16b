"""PodGroupPodsCount: prefer the placement on which the most pods of a group fit.

docs/reference/09 §9.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubesched.errors import KubeschedError
from kubesched.framework import (
    MAX_NODE_SCORE,
    CycleState,
    Handle,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
)
from kubesched.framework.pod_groups import PodGroups
from kubesched.scheduler.config.plugin_names import POD_GROUP_PODS_COUNT

__all__ = ["PodGroupPodsCount"]


class PodGroupPodsCount(Plugin):
    """Score a placement by the number of the group's pods that are placed or fit there."""

    name = POD_GROUP_PODS_COUNT
    placement_score_reads_nodes = False

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._members: PodGroups | None = None if handle is None else handle.pod_groups

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        found = len(assignments.pods)
        if self._members is None:
            return found
        return self._members.members(group.namespace, group.name).scheduled_count + found

    def normalize_placement_scores(
        self, state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> list[int]:
        most = max(scores)
        if not most:
            raise KubeschedError(
                "no pods from pod group are assigned to any of the candidate placements"
            )
        return [score * MAX_NODE_SCORE // most for score in scores]
