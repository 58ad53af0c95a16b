"""What a search returns or raises, and the type of a function that searches."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.errors import KubeschedError
from kubesched.framework import CycleState, Diagnosis, NodeView, PodInfo
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.search_outcomes import Scores

__all__ = ["NoNodesError", "Ranking", "SchedulePod", "ScheduleResult", "ranking"]

# Names of nodes with their total scores, the highest first.
Ranking = list[tuple[str, int]]


class NoNodesError(KubeschedError):
    """The cluster has no nodes."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


class ScheduleResult(msgspec.Struct, eq=False):
    """The chosen node, and how the search arrived at it.

    Scores and the diagnosis are computed when they are read. They are valid until the cluster
    changes, like every view of its nodes.
    """

    node_name: str
    feasible: NodeView
    evaluated_nodes: int
    _score: Callable[[], Scores | None]
    _diagnose: Callable[[], Diagnosis]
    # Returns some of the best nodes without scoring all; None if the search cannot.
    _rank: Callable[[int], Ranking] | None = None

    def best(self, count: int) -> Ranking:
        """Return the nodes with the highest totals; empty if only one node was feasible."""
        if self._rank is not None:
            return self._rank(count)
        scores = self._score()
        return [] if scores is None else ranking(scores.total, self.feasible, count)

    @property
    def scores(self) -> Scores | None:
        """The scores of the feasible nodes; None if only one node was feasible."""
        return self._score()

    @property
    def diagnosis(self) -> Diagnosis:
        """Why the other nodes did not fit."""
        return self._diagnose()


# Chooses a node for a pod, or raises as `FullSearch.schedule_pod` does.
SchedulePod = Callable[[Framework, CycleState, PodInfo], ScheduleResult]


def ranking(total: NDArray[np.signedinteger], nodes: NodeView, count: int) -> Ranking:
    """Return the nodes of a view with the highest totals."""
    indices = np.arange(len(total))
    if len(total) > count:
        indices = np.argpartition(-total, count)[:count]
    best = sorted(zip(total[indices].tolist(), indices.tolist(), strict=True), reverse=True)
    names = nodes.table.names
    return [(names[nodes.rows[index]], value) for value, index in best]
