"""Scores of nodes as an extender returned them, without the pods that run there.

The reference continues with the Node objects that an extender returned, and those have no pods
(docs/reference/04 §18.3). Therefore the one-node form of each plugin is called with such nodes
instead of the cached ones. The plugins' PreScore state is still that of the real cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import CycleState, NodeInfo, NodeView, Plugin
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import call_normalize, call_score_of_node
from kubesched.scheduler.runtime.search_outcomes import Scores

__all__ = ["score_returned_nodes"]


def score_returned_nodes(
    framework: Framework, state: CycleState, pod: Pod, nodes: NodeView, infos: Sequence[NodeInfo]
) -> Scores:
    """Return normalised, weighted scores; `infos` has the NodeInfo to score for each node."""

    def weighted(plugin: Plugin) -> NDArray[np.int64]:
        framework.point_metrics.scores[plugin.name].value += len(infos)
        raw = [call_score_of_node(plugin, state, pod, info) for info in infos]
        scores = np.array(raw, dtype=np.int64)
        normalized = call_normalize(plugin, state, pod, nodes, scores)
        return normalized * framework.plugins.score_weights[plugin.name]

    by_plugin = {
        plugin.name: weighted(plugin)
        for plugin in framework.score_plugins
        if plugin.name not in state.skip_score
    }
    total = np.zeros(len(infos), dtype=np.int64)
    for scores in by_plugin.values():
        total += scores
    return Scores(total, lambda: by_plugin)
