"""Tie-breaking: which of several nodes with the same, highest total is chosen.

The reference chooses at random, and so does a profile by default. A profile with
`tieBreak: NodeName` chooses the first by name. Equal scores then mean first fit, and a decision
can be repeated without the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeView
from kubesched.framework.engine import NodeTable, TotalIndex
from kubesched.framework.engine.kernels import choose_highest

__all__ = ["FirstByName", "RandomTies", "Ties"]


class Ties(Protocol):
    """A rule that chooses one of several nodes with the same total."""

    def best_of(self, total: NDArray[np.signedinteger], nodes: NodeView) -> int:
        """Return the index in the view of the chosen one of the nodes with the highest total."""
        ...

    def best_named(self, total: NDArray[np.signedinteger], names: Sequence[str]) -> int:
        """Return the same index for nodes that are given by name."""
        ...

    def best_in(self, index: TotalIndex, table: NodeTable) -> int:
        """Return the chosen one of the rows with the highest total."""
        ...

    def best_accepted(
        self, index: TotalIndex, table: NodeTable, accepts: Callable[[int], bool], tries: int
    ) -> int | None:
        """Return the chosen one of the accepted rows; None if `tries` rows were not accepted."""
        ...


class RandomTies:
    """A random choice from a seed, so that a run can be repeated."""

    def __init__(self, rng: Random) -> None:
        self._random = rng

    def best_of(self, total: NDArray[np.signedinteger], nodes: NodeView) -> int:  # noqa: ARG002
        return self._draw(total)

    def best_named(
        self,
        total: NDArray[np.signedinteger],
        names: Sequence[str],  # noqa: ARG002
    ) -> int:
        return self._draw(total)

    def best_in(self, index: TotalIndex, table: NodeTable) -> int:  # noqa: ARG002
        return index.choose(self._random)

    def best_accepted(
        self,
        index: TotalIndex,
        table: NodeTable,  # noqa: ARG002
        accepts: Callable[[int], bool],
        tries: int,
    ) -> int | None:
        return index.choose_accepted(self._random, accepts, tries)

    def _draw(self, total: NDArray[np.signedinteger]) -> int:
        return choose_highest(total, self._random.randrange)


class FirstByName:
    """The node whose name sorts first."""

    def __init__(self) -> None:
        self._membership = -1
        # int[row]: the position of the row's node among the sorted names.
        self._rank = np.zeros(0, dtype=np.intp)

    def best_of(self, total: NDArray[np.signedinteger], nodes: NodeView) -> int:
        best = (total == total[total.argmax()]).nonzero()[0]
        return int(best[self._ranks(nodes.table)[nodes.rows[best]].argmin()])

    def best_named(self, total: NDArray[np.signedinteger], names: Sequence[str]) -> int:
        best = (total == total[total.argmax()]).nonzero()[0].tolist()
        return int(min(best, key=lambda place: names[place]))

    def best_in(self, index: TotalIndex, table: NodeTable) -> int:
        rows = index.best_rows()
        return rows[int(self._ranks(table)[rows].argmin())]

    def best_accepted(
        self, index: TotalIndex, table: NodeTable, accepts: Callable[[int], bool], tries: int
    ) -> int | None:
        rank = self._ranks(table)
        for rows in index.rows_from_best():
            for row in sorted(rows, key=rank.item):
                if not tries:
                    return None
                if accepts(row):
                    return row
                tries -= 1
        return None

    def _ranks(self, table: NodeTable) -> NDArray[np.intp]:
        if self._membership != table.membership_version:
            self._rank = np.zeros(table.capacity, dtype=np.intp)
            rows = [table.row_of[name] for name in sorted(table.row_of)]
            self._rank[rows] = np.arange(len(rows))
            self._membership = table.membership_version
        return self._rank
