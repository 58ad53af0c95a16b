"""What is kept from pods of one shape: verdicts, scores, and the best rows by score."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.engine import TotalIndex
from kubesched.framework import NodeView, Status
from kubesched.runtime.local_plugins import LocalFilters, LocalScores

__all__ = ["Evaluation"]

Rows = int | slice | NDArray[np.intp]

_INDEX_BYTES = 120  # per row in the index
_LARGE_BYTES = 128 << 10


class Evaluation:
    """What node-local plugins said about every row, for pods of one shape."""

    __slots__ = (
        "_is_final",
        "_numbers",
        "all_scored",
        "codes",
        "counted_bytes",
        "filter_position",
        "filter_version",
        "filters",
        "has_final",
        "index",
        "index_uses",
        "is_scored",
        "judged",
        "may_have_index",
        "node_total",
        "raw_scores",
        "score_position",
        "score_version",
        "scores",
        "static_total",
        "statuses",
        "steady",
        "versions",
    )

    def __init__(
        self, capacity: int, normalizing: Sequence[str], total_type: type[np.signedinteger]
    ) -> None:
        # Who gave the answers: those that had something to say about the pod.
        self.filters: LocalFilters | None = None
        self.scores: LocalScores | None = None
        self.codes = np.zeros(capacity, dtype=np.int32)  # int32[row]: 0 passes, k is status k - 1
        self.statuses: list[Status] = []  # with the plugin that gave them
        self._numbers: dict[Status, int] = {}
        # bool[code]: whatever pods come or go, the node is told so.
        self._is_final = [False]
        self.has_final = False
        # Places in the change log up to which the answers are right; -1: nothing is known.
        self.filter_position = -1
        self.score_position = -1
        # The rows that were judged last, and the position since which they had changed.
        self.judged: tuple[int, NodeView | None] = (-1, None)
        # The table's version of its nodes at that time.
        self.filter_version = -1
        self.score_version = -1
        # Weighted sum of the scores that need no normalising.
        self.static_total: NDArray[np.signedinteger] = np.zeros(capacity, dtype=total_type)
        # The part of it that has nothing to do with pods; None while it is zero everywhere.
        self.node_total: NDArray[np.signedinteger] | None = None
        self.is_scored = np.zeros(capacity, dtype=bool)  # bool[row]: that part is known
        self.all_scored = False  # of every node
        # The others as they are; None while every row's score is zero, as it mostly is.
        self.raw_scores: dict[str, NDArray[np.int64] | None] = dict.fromkeys(normalizing)
        # Rows that pass, by static total, in step with both positions; None: not kept.
        self.index: TotalIndex | None = None
        self.index_uses = 0
        self.may_have_index = True
        self.steady = 0  # how many pods in a row found few changes
        self.versions: tuple[Hashable, ...] = ()
        self.counted_bytes = 0  # of its size, in the sum over all shapes

    @property
    def capacity(self) -> int:
        return len(self.codes)

    @property
    def size_bytes(self) -> int:
        """What it takes by now. Large arrays that were never written are not in memory."""
        size = self.static_total.nbytes + self.is_scored.nbytes
        if self.statuses or self.codes.nbytes < _LARGE_BYTES:
            size += self.codes.nbytes
        if self.node_total is not None:
            size += self.node_total.nbytes
        if self.index is not None:
            size += _INDEX_BYTES * len(self.index)
        return size + sum(kept.nbytes for kept in self.raw_scores.values() if kept is not None)

    def forget(self) -> None:
        """What the answers depended on, besides rows, is no longer the same."""
        self.filter_position = self.filter_version = -1
        if self.statuses:
            # Whether a verdict outlives pods depends on who is asked before, so none is kept.
            self.codes[:] = 0
            self.statuses = []
            self._numbers.clear()
            self._is_final = [False]
            self.has_final = False
        self.forget_scores()
        self.may_have_index = True

    def forget_scores(self) -> None:
        self.score_position = self.score_version = -1
        self.index = None

    def node_changed(self, rows: Rows) -> None:
        """The part of the sum that has nothing to do with pods is not known there any more."""
        self.is_scored[rows] = False
        self.all_scored = False

    def drop_index(self) -> None:
        """Rows changed that are not in it. One that never helped is not made again."""
        if self.index is not None:
            self.may_have_index = self.index_uses > 0
            self.index = None

    def judged_since(self, position: int) -> NodeView | None:
        """The nodes that were judged last, if they are those that changed since the position."""
        since, changed = self.judged
        return changed if since == position else None

    def passing(self, nodes: NodeView) -> NodeView:
        """Those of the nodes that the local filters let pass."""
        if not self.statuses:
            return nodes  # none was ever rejected
        codes = nodes.at(self.codes)
        return nodes.subset(codes == 0) if codes.any() else nodes

    def number_of(self, status: Status, *, is_final: bool) -> int:
        number = self._numbers.get(status)
        if number is None:
            self.statuses.append(status)
            self._is_final.append(is_final)
            self.has_final |= is_final
            number = self._numbers[status] = len(self.statuses)
        return number

    def is_final(self, row: int) -> bool:
        """Whether the node in a row is rejected whatever pods come or go."""
        return self.has_final and self._is_final[self.codes[row]]

    def without_final(self, nodes: NodeView) -> NodeView:
        """The nodes but for those that are rejected whatever pods come or go."""
        if not self.has_final:
            return nodes
        return nodes.subset(~np.array(self._is_final).take(nodes.at(self.codes)))

    def note_raw(self, plugin: str, rows: Rows, scores: int | NDArray[np.int64]) -> None:
        """Keep scores that need normalising."""
        kept = self.raw_scores[plugin]
        if kept is None:
            if not (scores if isinstance(scores, int) else scores.any()):
                return
            kept = self.raw_scores[plugin] = np.zeros(self.capacity, dtype=np.int64)
        kept[rows] = scores

    def note_node_total(self, rows: Rows, totals: int | NDArray[np.int64]) -> None:
        """Keep the part of the sum that has nothing to do with pods."""
        if self.node_total is None:
            if not (totals if isinstance(totals, int) else totals.any()):
                return
            self.node_total = np.zeros_like(self.static_total)
        self.node_total[rows] = totals
