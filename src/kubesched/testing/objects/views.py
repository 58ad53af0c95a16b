"""Snapshots and views for plugin tests, and helpers that run both forms of a plugin."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Node, Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeView,
    OnlyNodes,
    Plugin,
    PodInfo,
    Rejections,
    Status,
    overrides,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot

__all__ = [
    "filter_each",
    "filter_together",
    "make_snapshot",
    "make_view",
    "run_filter",
    "run_score",
    "same_status",
    "score_each",
    "score_together",
]


def make_snapshot(nodes: Iterable[Node], pods: Iterable[Pod] = ()) -> ClusterSnapshot:
    """Build the snapshot of these nodes and of the pods that are bound to them."""
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        assert pod.spec.node_name, f"pod {pod.metadata.name} names no node"
        cache.add_pod(pod)
    return cache.update_snapshot()


def make_view(*nodes: Node, pods: Iterable[Pod] = ()) -> NodeView:
    """Build a view of the nodes in this order, with these pods, from the real cache."""
    return make_snapshot(nodes, pods).nodes


def filter_each(plugin: Plugin, state: CycleState, pod: Pod, view: NodeView) -> list[Status]:
    """Return the results of the one-node form."""
    return [plugin.filter(state, pod, node) for node in view]


def filter_together(plugin: Plugin, state: CycleState, pod: Pod, view: NodeView) -> list[Status]:
    """Return the results of the many-node form, one per node."""
    return _spread_out(plugin.filter_nodes(state, pod, view), len(view))


def _spread_out(rejections: Rejections, count: int) -> list[Status]:
    codes = rejections.codes
    assert codes is None or len(codes) == count, f"{len(codes)} verdicts for {count} nodes"
    return [rejections.status(index) or SUCCESS for index in range(count)]


def same_status(one: Status, other: Status) -> bool:
    """Whether two statuses are equal; errors are equal if their texts are."""
    return (one.code, one.all_reasons) == (other.code, other.all_reasons)


def run_filter(
    plugin: Plugin, pod: Pod, view: NodeView, state: CycleState | None = None
) -> list[Status]:
    """Run PreFilter and Filter as a scheduling attempt does; return one status per node.

    Both forms of the filter run and must agree. If PreFilter rejects the pod, every node has that
    status; if it skips, all nodes pass. Nodes that PreFilter excludes get the status that the
    runtime gives them.
    """
    state = CycleState() if state is None else state
    answer = plugin.pre_filter(state, PodInfo(pod), view)
    if isinstance(answer, Status) and not answer.is_success:
        return [SUCCESS if answer.is_skip else answer] * len(view)
    answers = [SUCCESS] * len(view)
    if overrides(plugin, "filter"):
        answers = filter_each(plugin, state, pod, view)
        together = filter_together(plugin, state, pod, view)
        for name, one, other in zip(view.names, answers, together, strict=True):
            assert same_status(one, other), (
                f"{plugin.name} on {name}: filter says {one}, filter_nodes says {other}"
            )
    if isinstance(answer, OnlyNodes):
        left_out = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugin.name}]")
        answers = [
            status if name in answer.names else left_out
            for name, status in zip(view.names, answers, strict=True)
        ]
    return answers


def score_each(plugin: Plugin, state: CycleState, pod: Pod, view: NodeView) -> NDArray[np.int64]:
    """Return the scores of the one-node form."""
    return np.array([plugin.score(state, pod, node) for node in view], dtype=np.int64)


def score_together(
    plugin: Plugin, state: CycleState, pod: Pod, view: NodeView
) -> NDArray[np.int64]:
    """Return the scores of the many-node form."""
    scores = plugin.score_nodes(state, pod, view)
    assert len(scores) == len(view), f"{len(scores)} scores for {len(view)} nodes"
    return scores


def run_score(
    plugin: Plugin,
    pod: Pod,
    view: NodeView,
    state: CycleState | None = None,
    *,
    normalize: bool = True,
) -> list[int]:
    """Run PreFilter, PreScore and Score on nodes that all fit; return one score per node.

    Both forms run and must agree. Scores are normalised but not weighted. If PreScore skips, all
    scores are 0.
    """
    state = CycleState() if state is None else state
    pod_info = PodInfo(pod)
    plugin.pre_filter(state, pod_info, view)
    if plugin.pre_score(state, pod_info, view).is_skip:
        return [0] * len(view)
    each = score_each(plugin, state, pod, view)
    scores = score_together(plugin, state, pod, view)
    assert each.tolist() == scores.tolist(), (
        f"{plugin.name} on {list(view.names)}: "
        f"score says {each.tolist()}, score_nodes says {scores.tolist()}"
    )
    if normalize:
        scores = plugin.normalize_score(state, pod, view, scores)
    return [int(score) for score in scores]
