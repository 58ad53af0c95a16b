"""PodState: prefer nodes with terminating pods, and avoid nodes with nominated pods."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import CycleState, Handle, NodeInfo, NodeView, Plugin

__all__ = ["PodState"]


class PodState(Plugin):
    """Score nodes by the number of terminating pods minus the number of nominated pods."""

    name = "PodState"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._leaving: Counter[str] = Counter()  # terminating pods by node; few nodes have any
        if handle is not None:
            handle.lister(Pod).follow(self._follow)

    def _follow(self, old: Pod | None, new: Pod | None) -> None:
        for pod, step in ((old, -1), (new, 1)):
            if pod is not None and pod.spec.node_name and pod.metadata.deletion_timestamp:
                self._leaving[pod.spec.node_name] += step

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        nominated = self.handle.nominator.nominated_pods(node.name)
        return self._leaving[node.name] - len(list(nominated))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        table, nominator = nodes.table, self.handle.nominator
        column = np.zeros(table.capacity, dtype=np.int64)
        for name, count in self._leaving.items():
            if (row := table.row_of.get(name)) is not None:
                column[row] += count
        for name in nominator.nominated_nodes():
            if (row := table.row_of.get(name)) is not None:
                column[row] -= len(list(nominator.nominated_pods(name)))
        found: NDArray[np.int64] = nodes.at(column)
        return found

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        lowest, highest = int(scores.min()), int(scores.max())
        if highest == lowest:
            return np.zeros_like(scores)
        return (scores - lowest) * 100 // (highest - lowest)
