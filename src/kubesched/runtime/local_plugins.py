"""The node-local plugins that have something to say about pods of one shape.

Those that see no pods need not be asked again about a row on which only pods came or went.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import CycleState, NodeView, Plugin, PodsOnNode
from kubesched.runtime.asking import ask_score, check_range

__all__ = ["LocalFilters", "LocalScores", "Weighted", "weighted_scores"]

Weighted = Sequence[tuple[Plugin, int]]


class LocalFilters:
    """Filters in the profile's order."""

    __slots__ = ("by_pods", "of_node", "plugins", "skipped")

    def __init__(self, plugins: Sequence[Plugin], skipped: frozenset[str]) -> None:
        self.skipped = skipped  # had nothing to say
        self.plugins = [plugin for plugin in plugins if plugin.name not in skipped]
        # What these say outlives pods, and nobody is asked before them.
        self.of_node = frozenset(plugin.name for plugin in takewhile(_sees_no_pods, self.plugins))
        self.by_pods = self.plugins[len(self.of_node) :]

    def to_ask(self, only_pods: bool) -> Sequence[Plugin]:
        """Whom to ask about changed rows; `only_pods`: of which nothing but pods changed."""
        return self.by_pods if only_pods else self.plugins


class LocalScores:
    """Plugins that score, by what becomes of their scores: a sum, or normalising."""

    __slots__ = ("by_node", "by_pods", "normalizing", "normalizing_by_pods", "skipped")

    def __init__(self, summed: Weighted, normalizing: Weighted, skipped: frozenset[str]) -> None:
        self.skipped = skipped  # had nothing to say
        asked = [each for each in summed if each[0].name not in skipped]
        self.by_pods = [each for each in asked if not _sees_no_pods(each[0])]
        self.by_node = [each for each in asked if _sees_no_pods(each[0])]
        self.normalizing = [each for each in normalizing if each[0].name not in skipped]
        self.normalizing_by_pods = [each for each in self.normalizing if not _sees_no_pods(each[0])]

    def to_normalize(self, only_pods: bool) -> Weighted:
        """Whose scores to keep as they are; `only_pods`: nothing but pods changed."""
        return self.normalizing_by_pods if only_pods else self.normalizing


def weighted_scores(
    plugins: Weighted, state: CycleState, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    """The weighted sum of scores that need no normalising."""
    total: NDArray[np.int64] | None = None
    for plugin, weight in plugins:
        scores = ask_score(plugin, state, pod, nodes)
        check_range(plugin, scores)
        weighted = scores if weight == 1 else scores * weight
        total = weighted if total is None else total + weighted
    return np.zeros(len(nodes), dtype=np.int64) if total is None else total


def _sees_no_pods(plugin: Plugin) -> bool:
    return plugin.reads.pods_on_node is PodsOnNode.NOTHING
