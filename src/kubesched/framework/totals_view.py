"""Nodes with hypothetical totals of their pods.

A dry run evaluates filters on many nodes at once, each without some of its pods or with additional
ones. Only the total requests and the number of pods differ from the table. A plugin that declares
`PodsOnNode.TOTALS` reads nothing else about the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView

__all__ = ["TotalsView"]


class TotalsView(NodeView):
    """A selection of rows with hypothetical totals; a row may appear more than once."""

    __slots__ = ("_pod_count", "_requested")

    def __init__(
        self,
        nodes: NodeView,
        rows: NDArray[np.intp],
        requested: NDArray[np.int64],
        pod_count: NDArray[np.int64],
    ) -> None:
        """`requested` is int64[resource, node], resources numbered as in the table."""
        super().__init__(nodes.pods, nodes._infos, rows)
        self._requested = requested
        self._pod_count = pod_count

    def requested(self, resource: str) -> NDArray[np.int64]:
        place = self.table.resource_column(resource)
        if place < 0 or place >= self._requested.shape[0]:
            return np.zeros(len(self), dtype=np.int64)
        amounts: NDArray[np.int64] = self._requested[place]
        return amounts

    def requested_of(self, resources: Sequence[str]) -> NDArray[np.int64]:
        return np.stack([self.requested(name) for name in resources])

    @property
    def pod_count(self) -> NDArray[np.int64]:
        return self._pod_count

    def subset(self, keep: NDArray[np.bool_]) -> TotalsView:
        return TotalsView(self, self.rows[keep], self._requested[:, keep], self._pod_count[keep])

    def __iter__(self) -> Iterator[NodeInfo]:
        self._refuse()

    def info(self, index: int) -> NodeInfo:  # noqa: ARG002  the answer would be wrong for any
        self._refuse()

    @property
    def nonzero_requested(self) -> NDArray[np.int64]:
        self._refuse()

    @property
    def nonzero_requested_cpu(self) -> NDArray[np.int64]:
        self._refuse()

    @property
    def nonzero_requested_memory(self) -> NDArray[np.int64]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("a dry run over many nodes has requested amounts and pod counts only")
