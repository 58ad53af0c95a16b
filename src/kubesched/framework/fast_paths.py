"""Optional methods and declarations that make a plugin faster without changing its results.

A plugin without them is correct. `Plugin` inherits them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodSpec
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.reads import Reads
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import Status

__all__ = ["FastPaths"]


class FastPaths:
    """Filter and Score for many nodes at once, and what the results of both depend on."""

    # What Filter and Score read; the answer cache relies on it.
    reads: Reads = Reads()
    # Whether `score_placement` reads the nodes of the assignments. If no plugin does, the scheduler
    # counts the pods that fit a placement instead of placing them there one by one.
    placement_score_reads_nodes: bool = True

    if TYPE_CHECKING:

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status: ...

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int: ...

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        """Filter many nodes: the same rule over columns."""
        return Rejections.from_statuses([self.filter(state, pod, node) for node in nodes])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Score many nodes: the same rule over columns."""
        return np.fromiter(
            (self.score(state, pod, node) for node in nodes), dtype=np.int64, count=len(nodes)
        )

    def concerns(self, spec: PodSpec) -> bool:
        """Whether PreFilter applies to pods with this spec.

        False promises for every pod with the spec, in every cluster, that PreFilter would skip it.
        The runtime then need not call PreFilter, but may do so.
        """
        return True

    def uniform_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> int | None:
        """Return the normalised score if it is the same for every node, else None.

        `nodes` is the whole cluster, and PreScore has run. With an answer no node is scored.
        """
        return None

    def cache_version(self, nodes: NodeView) -> Hashable:
        """Return a further value that results depend on; when it changes, they are invalidated.

        For plugins that read a rarely changing fact of the whole cluster, and therefore declare
        that results do not depend on other nodes.
        """
        return None
