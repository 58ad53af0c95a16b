"""The full search: the definition of a scheduling decision (docs/reference/04 §11).

PreFilter, then Filter on the nodes that are left, then PreScore and Score on the feasible nodes.
The node with the highest total wins. Nothing is awaited, so the cluster does not change meanwhile.

By default every plugin is called about every node. `CachedSearch` arrives at the same result with
fewer calls; where it cannot, it runs a full search.
"""

from __future__ import annotations

import random

from kubesched.framework import CycleState, Diagnosis, FitError, PodInfo
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome
from kubesched.scheduler.search.node_evaluation import NodeEvaluation, PluginEvaluation
from kubesched.scheduler.search.node_filtering import NodeFiltering, NodeSampling
from kubesched.scheduler.search.node_scoring import NodeScoring
from kubesched.scheduler.search.schedule_result import ScheduleResult
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["FullSearch"]


class FullSearch:
    """Chooses a node for one pod at a time, in the current snapshot."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        rng: random.Random,
        percentage: int | None = None,
        *,
        extenders_choose: bool = False,
        evaluation: NodeEvaluation | None = None,
    ) -> None:
        """Arguments are those of `NodeSampling` and `NodeScoring`.

        `evaluation` returns the answers of plugins; by default it calls them about every node.
        """
        evaluation = evaluation or PluginEvaluation()
        self._snapshot = snapshot
        self.sampling = NodeSampling(snapshot, percentage, extenders_choose=extenders_choose)
        self.filtering = NodeFiltering(snapshot, self.sampling, evaluation)
        self.scoring = NodeScoring(rng, evaluation)

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node for the pod.

        Raises:
            NoNodesError: there is no node.
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        attempt = SearchAttempt(framework, state, pod_info)
        return self.search(attempt, self.filtering.pre_filter(attempt))

    def search(self, attempt: SearchAttempt, outcome: PreFilterOutcome) -> ScheduleResult:
        """Filter, score and choose, after PreFilter.

        Raises:
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        diagnosis = Diagnosis(self._snapshot.table.names)
        feasible = self.filtering.find(attempt, outcome, diagnosis)
        if not len(feasible):
            raise FitError(len(self._snapshot.candidates), diagnosis)
        scores = None
        node_name = feasible.info(0).name
        if len(feasible) > 1:
            scores = self.scoring.score(attempt, feasible)
            node_name = self.scoring.choose(attempt.framework, scores, feasible)
        evaluated = len(feasible) + diagnosis.explicit_count
        return ScheduleResult(node_name, feasible, evaluated, lambda: scores, lambda: diagnosis)
