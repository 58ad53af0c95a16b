"""The interface through which a search gets the answers of filter and score plugins.

The search decides which nodes are filtered and scored. An evaluation decides where the answers come
from: `PluginEvaluation` calls every plugin about every node. `CachedEvaluation`, in another module,
returns the same answers and takes most of them from a cache.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import Diagnosis, NodeView
from kubesched.scheduler.runtime.search_outcomes import Scores
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["NodeEvaluation", "PluginEvaluation"]


class NodeEvaluation(Protocol):
    """Answers of a profile's plugins about nodes."""

    def filter(
        self,
        attempt: SearchAttempt,
        nodes: NodeView,
        diagnosis: Diagnosis,
        excluded: NDArray[np.bool_] | None = None,
    ) -> NodeView:
        """Return the nodes that pass every filter; record the others in the diagnosis.

        `excluded` (bool[row]) marks nodes that are neither returned nor recorded.

        Raises:
            PluginError: a plugin failed on a node that is not excluded.
        """
        ...

    def score(self, attempt: SearchAttempt, nodes: NodeView) -> Scores:
        """Return the scores of feasible nodes. PreScore has run.

        Raises:
            PluginError: a plugin failed.
        """
        ...


class PluginEvaluation:
    """Calls every plugin about every node."""

    def filter(
        self,
        attempt: SearchAttempt,
        nodes: NodeView,
        diagnosis: Diagnosis,
        excluded: NDArray[np.bool_] | None = None,
    ) -> NodeView:
        if excluded is not None:
            nodes = nodes.subset(~excluded[nodes.rows])
        return attempt.framework.run_filter(attempt.state, attempt.pod, nodes, diagnosis)

    def score(self, attempt: SearchAttempt, nodes: NodeView) -> Scores:
        return attempt.framework.run_score(attempt.state, attempt.pod, nodes)
