"""How many nodes a search visits, and where in the list of nodes it begins.

The reference samples large clusters by default because its scoring is expensive. Here all nodes
are scored unless a configuration says otherwise. A percentage that a user configures is honoured,
with the reference's rotation through the nodes (docs/differences.md, docs/reference/04 §11.3).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeView
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["NodeSampling", "nodes_to_find"]

_MIN_NODES_TO_FIND: Final = 100


class NodeSampling:
    """The rotation of one scheduler's searches through the nodes of a snapshot."""

    def __init__(
        self, snapshot: ClusterSnapshot, percentage: int | None, *, extenders_choose: bool
    ) -> None:
        """`percentage` None or 0 means all nodes.

        `extenders_choose` says that extenders narrow or rank the feasible nodes.
        """
        self._snapshot = snapshot
        self._percentage = percentage
        self._extenders_choose = extenders_choose
        # The position in the list of nodes at which the next search begins.
        self.start_index = 0

    def nodes_to_find(self, framework: Framework, count: int) -> int:
        """Return how many feasible nodes are enough, of `count` candidates."""
        if not framework.score_plugins and not self._extenders_choose:
            return 1
        own = framework.percentage_of_nodes_to_score
        return nodes_to_find(count, self._percentage if own is None else own)

    def rotated_rows(self, candidates: NodeView | None) -> NDArray[np.intp]:
        """Return the rows of the candidates (None: all nodes) in the order of the search."""
        rows = self._snapshot.order if candidates is None else candidates.rows
        return np.roll(rows, -(self.start_index % len(rows)))

    def advance(self, visited: int) -> None:
        """Let the next search begin after the nodes that this one visited."""
        self.start_index = (self.start_index + visited) % len(self._snapshot.nodes)

    def in_search_order(self, nodes: NodeView, start_index: int) -> NodeView:
        """Return the nodes in the order in which a search from `start_index` visits them."""
        order = np.roll(self._snapshot.order, -start_index)
        present = np.zeros(self._snapshot.table.capacity, dtype=bool)
        present[nodes.rows] = True
        return nodes.at_rows(order[present[order]])


def nodes_to_find(count: int, percentage: int | None) -> int:
    """Return how many feasible nodes are enough, of `count` (docs/reference/04 §11.3)."""
    if count < _MIN_NODES_TO_FIND or not percentage:
        return count
    return max(count * percentage // 100, _MIN_NODES_TO_FIND)
