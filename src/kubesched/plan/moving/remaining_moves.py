"""The rest of a plan: the pods that still have to leave, and the nodes that still lack pods."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.greedy_drain import best_node, size_order
from kubesched.plan.packing.packing_problem import Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.reading.cluster_problem import ClusterProblem, MovablePod

__all__ = ["RemainingMoves"]


class RemainingMoves:
    """The difference between the actual placement and the goal."""

    def __init__(
        self, cluster: ClusterProblem, goal: Placement, drained: Collection[str] | None = None
    ) -> None:
        """`drained` are the nodes to empty; by default those that the goal does not use."""
        self._cluster = cluster
        self.actual = PackingState(cluster.problem)
        self.goal = goal.copy()
        # Nodes that are empty or will be.
        self.closed: NDArray[np.bool_] = ~cluster.problem.used(goal)
        if drained is not None:
            self.closed = np.isin(cluster.problem.nodes, list(drained))
        self.departures: dict[str, MovablePod] = {}
        self._choose_departures(cluster.pods)

    def _choose_departures(self, pods: Iterable[MovablePod]) -> None:
        """Choose which of equal pods leave: those whose budgets and owners allow the most moves."""
        surplus = np.maximum(self.actual.placement - self.goal, 0)
        budgets = self._cluster.budgets

        def freedom(each: MovablePod) -> int:
            return 1_000_000 if each.budget < 0 else budgets[each.budget].allowed

        for each in sorted(pods, key=freedom, reverse=True):
            if surplus[each.number, each.node] > 0:
                surplus[each.number, each.node] -= 1
                self.departures[each.key] = each

    def missing(self) -> dict[int, dict[int, int]]:
        """Return for each node of the plan the number of missing pods per class."""
        found: dict[int, dict[int, int]] = {}
        deficit = self.goal - self.actual.placement
        for number, node in np.argwhere(deficit > 0).tolist():
            found.setdefault(node, {})[number] = int(deficit[number, node])
        return found

    def record(self, moved: Mapping[str, int]) -> None:
        """Record where the replacements of pods were placed."""
        for key, node in moved.items():
            pod = self.departures.pop(key)
            self.actual.add(pod.number, pod.node, -1)
            self.actual.add(pod.number, node)

    def undo(self, moved: Mapping[str, MovablePod], to: Mapping[str, int]) -> None:
        """Undo `record`."""
        for key, pod in moved.items():
            self.actual.add(pod.number, to[key], -1)
            self.actual.add(pod.number, pod.node)
            self.departures[key] = pod

    def cancel(self, node: int) -> None:
        """Keep the pods on a node where they are, and the node in use."""
        self.closed[node] = False
        for key in [key for key, pod in self.departures.items() if pod.node == node]:
            pod = self.departures.pop(key)
            self.goal[pod.number, node] += 1

    def reassign(self) -> bool:
        """Find a target for every pod that still has to leave; False if one fits nowhere.

        Places of the goal are used first.
        """
        final = PackingState(self._cluster.problem, self.actual.placement)
        waiting: dict[int, list[MovablePod]] = {}
        for pod in self.departures.values():
            final.add(pod.number, pod.node, -1)
            waiting.setdefault(pod.number, []).append(pod)
        for number in size_order(self._cluster.problem, waiting):
            for _ in waiting[number]:
                wanted = (self.goal[number] > final.placement[number]) & ~self.closed
                node = None
                if wanted.any():
                    node = best_node(final, number, ~wanted)
                if node is None:
                    node = best_node(final, number, self.closed)
                if node is None:
                    return False
                final.add(number, node)
        self.goal = final.placement
        self._drop_needless()
        return True

    def _drop_needless(self) -> None:
        """Remove the pods whose new target is the node that they are on."""
        surplus = np.maximum(self.actual.placement - self.goal, 0)
        kept: dict[str, MovablePod] = {}
        for key, pod in self.departures.items():
            if surplus[pod.number, pod.node] > 0:
                surplus[pod.number, pod.node] -= 1
                kept[key] = pod
        self.departures = kept
