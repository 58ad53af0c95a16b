"""What a search came to: a node, and what it was chosen from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import Diagnosis, NodeView
from kubesched.runtime.search_outcomes import Scores

__all__ = ["Ranking", "ScheduleResult", "ranking"]

Ranking = list[tuple[str, int]]
"""Names of nodes with their totals, the best first."""


class ScheduleResult:
    """The chosen node, and what it was chosen from, worked out if someone asks.

    Valid until the cluster changes, like every view of its nodes.
    """

    __slots__ = ("_diagnose", "_rank", "_score", "evaluated_nodes", "feasible", "node_name")

    def __init__(
        self,
        node_name: str,
        feasible: NodeView,
        evaluated_nodes: int,
        score: Callable[[], Scores | None],
        diagnose: Callable[[], Diagnosis],
        rank: Callable[[int], Ranking] | None = None,
    ) -> None:
        """`rank` finds some of the best nodes without scoring all, if there is such a way."""
        self.node_name = node_name
        self.feasible = feasible
        self.evaluated_nodes = evaluated_nodes
        self._score = score
        self._diagnose = diagnose
        self._rank = rank

    def best(self, count: int) -> Ranking:
        """The nodes with the highest totals; empty when there was only one to choose."""
        if self._rank is not None:
            return self._rank(count)
        scores = self._score()
        return [] if scores is None else ranking(scores.total, self.feasible, count)

    @property
    def scores(self) -> Scores | None:
        """Scores of the feasible nodes; None when there was only one to choose."""
        return self._score()

    @property
    def diagnosis(self) -> Diagnosis:
        """Why the other nodes did not fit."""
        return self._diagnose()


def ranking(total: NDArray[np.signedinteger], nodes: NodeView, count: int) -> Ranking:
    """The nodes of a view with the highest totals."""
    places = np.arange(len(total))
    if len(total) > count:
        places = np.argpartition(-total, count)[:count]
    best = sorted(zip(total[places].tolist(), places.tolist(), strict=True), reverse=True)
    names = nodes.table.names
    return [(names[nodes.rows[place]], value) for value, place in best]
