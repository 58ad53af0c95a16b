"""The second half of a search: PreScore and Score, then the choice of the best node.

docs/reference/04 §11.4.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeInfo, NodeView
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.returned_node_scores import score_returned_nodes
from kubesched.scheduler.runtime.search_outcomes import Scores
from kubesched.scheduler.runtime.ties import RandomTies, Ties
from kubesched.scheduler.search.node_evaluation import NodeEvaluation
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["NodeScoring"]


class NodeScoring:
    """Scores feasible nodes and chooses the best."""

    def __init__(self, rng: random.Random, evaluation: NodeEvaluation) -> None:
        """`rng` draws one of several nodes with the same, highest total."""
        # Draws among nodes with the same total, for profiles without a rule of their own.
        self.random_ties = RandomTies(rng)
        self._evaluation = evaluation

    def score(
        self,
        attempt: SearchAttempt,
        feasible: NodeView,
        infos: Sequence[NodeInfo] | None = None,
    ) -> Scores:
        """Return the scores of the nodes.

        `infos`, if given, replaces the cache's own NodeInfo of each node.

        Raises:
            PluginError: a plugin failed.
        """
        framework, state = attempt.framework, attempt.state
        if not framework.score_plugins:
            return Scores(np.ones(len(feasible), dtype=np.int64))
        with framework.point_metrics.timing("PreScore"):
            framework.run_pre_score(state, attempt.pod_info, feasible)
        with framework.point_metrics.timing("Score"):
            if infos is not None:
                return score_returned_nodes(framework, state, attempt.pod, feasible, infos)
            return self._evaluation.score(attempt, feasible)

    def ties_of(self, framework: Framework) -> Ties:
        """Return the profile's rule for nodes with the same total."""
        return framework.own_ties or self.random_ties

    def choose(self, framework: Framework, scores: Scores, feasible: NodeView) -> str:
        """Return the name of the best node."""
        return feasible.info(self.ties_of(framework).best_of(scores.total, feasible)).name

    def choose_named(
        self, framework: Framework, totals: NDArray[np.int64], names: Sequence[str]
    ) -> str:
        """Return the name of the best of some nodes that may be unknown to the cache."""
        return names[self.ties_of(framework).best_named(totals, names)]
