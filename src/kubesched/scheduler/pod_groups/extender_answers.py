"""The search for a group's members with earlier responses of extenders (decision 0047)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from kubesched.framework import CycleState, Diagnosis, FitError, NodeView, PodInfo, Status
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.backend.queue.queueing_hints import EXTENDER
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.node_filtering import NodeFiltering
from kubesched.scheduler.search.node_scoring import NodeScoring
from kubesched.scheduler.search.schedule_result import SchedulePod, ScheduleResult
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["AnsweredSearch", "ExtenderAnswer"]

_NOT_ASKED = Status.unschedulable("extenders were not called about the node")


class ExtenderAnswer(msgspec.Struct, frozen=True, eq=False):
    """The responses of the extenders about the nodes for one pod."""

    accepted: frozenset[str] = frozenset()
    refusals: Mapping[str, Status] = {}  # by node
    scores: Mapping[str, int] = {}  # scores that they add to the nodes' totals
    error: Exception | None = None  # of an extender that is not ignorable


class AnsweredSearch:
    """Searches a node among those that extenders accepted.

    Pods without such responses are searched as usual.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        filtering: NodeFiltering,
        scoring: NodeScoring,
        schedule_pod: SchedulePod,
    ) -> None:
        self._snapshot = snapshot
        self._filtering = filtering
        self._scoring = scoring
        self._schedule_pod = schedule_pod
        # The responses for the members of the current group, by uid.
        self.answers: Mapping[str, ExtenderAnswer] = {}

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node for the pod. Raises as `FullSearch.schedule_pod`, and `ExtenderError`."""
        answer = self.answers.get(pod_info.uid)
        if answer is None:
            return self._schedule_pod(framework, state, pod_info)
        if answer.error is not None:
            raise answer.error
        attempt = SearchAttempt(framework, state, pod_info)
        diagnosis = Diagnosis(self._snapshot.table.names)
        accepted = self._accepted(attempt, answer, diagnosis)
        if not len(accepted):
            raise FitError(len(self._snapshot.candidates), diagnosis)
        names = list(accepted.names)
        name, scores = names[0], None
        if len(names) > 1:
            scores = self._scoring.score(attempt, accepted)
            added = np.array([answer.scores.get(each, 0) for each in names], dtype=np.int64)
            name = self._scoring.choose_named(framework, scores.total + added, names)
        evaluated = len(accepted) + diagnosis.explicit_count
        return ScheduleResult(name, accepted, evaluated, lambda: scores, lambda: diagnosis)

    def _accepted(
        self, attempt: SearchAttempt, answer: ExtenderAnswer, diagnosis: Diagnosis
    ) -> NodeView:
        """Return the nodes that plugins and extenders accept; record the others."""
        filtering = self._filtering
        outcome = filtering.pre_filter(attempt)
        if not outcome.status.is_success:
            return filtering.reject_all(outcome, diagnosis)
        with attempt.framework.point_metrics.timing("Filter"):
            if attempt.pod.status.nominated_node_name:
                nominated = filtering.nominated_node(attempt, diagnosis)
                if nominated is not None and nominated.info(0).name in answer.accepted:
                    return nominated
            feasible = filtering.find_enough(attempt, outcome, diagnosis)
        if not len(feasible):
            return feasible
        names = list(feasible.names)
        keep = np.array([name in answer.accepted for name in names], dtype=bool)
        if not keep.all():
            diagnosis.unschedulable_plugins.add(EXTENDER)
        for name, is_kept in zip(names, keep.tolist(), strict=True):
            if not is_kept:
                diagnosis.add_node_status(name, answer.refusals.get(name, _NOT_ASKED))
        return feasible.subset(keep)
