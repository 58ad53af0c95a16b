"""What describing a rejection may look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.explain.objects import ClusterObjects
from kubesched.framework import NodeInfo, NodeView, PodInfo

__all__ = ["DetailContext"]


class DetailContext(NamedTuple):
    """The pod, and the nodes that one status was given to."""

    objects: ClusterObjects
    pod_info: PodInfo
    nodes: NodeView  # all of them
    positions: NDArray[np.intp]  # in `nodes`, of those that were rejected

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod

    @property
    def rejected(self) -> NodeView:
        return self.nodes.at_rows(self.nodes.rows[self.positions])

    @property
    def example(self) -> NodeInfo:
        """The first of the rejected nodes by name, so that the same one is always shown."""
        return min(self.rejected, key=lambda node: node.name)
