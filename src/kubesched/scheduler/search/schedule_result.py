"""What a search came to: a node, and what it was chosen from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.framework import Diagnosis, NodeView
from kubesched.scheduler.runtime.search_outcomes import Scores

__all__ = ["Ranking", "ScheduleResult", "ranking"]

Ranking = list[tuple[str, int]]
"""Names of nodes with their totals, the best first."""


class ScheduleResult(msgspec.Struct, eq=False):
    """The chosen node, and what it was chosen from, worked out if someone asks.

    Valid until the cluster changes, like every view of its nodes.
    """

    node_name: str
    feasible: NodeView
    evaluated_nodes: int
    _score: Callable[[], Scores | None]
    _diagnose: Callable[[], Diagnosis]
    # Finds some of the best nodes without scoring all, if there is such a way.
    _rank: Callable[[int], Ranking] | None = None

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
