"""Finds an order of drains in which no pod becomes pending."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.pod_requests import pod_requested
from kubesched.explain.clusters.cluster_model import ClusterModel, ExplainError
from kubesched.framework import ClusterChange

__all__ = ["drain_order"]


def drain_order(model: ClusterModel, names: Sequence[str]) -> tuple[str, ...]:
    """Return an order of the nodes in which every evicted pod finds a node, if one is found.

    Several orders are tried: the given one, then nodes with the largest pods first, which are
    hardest to place, and the reverse. If pods stay pending in all of them, the result is the order
    in which the most nodes can be drained before that. Pods are placed by the scheduler's own
    search.
    """
    given = list(dict.fromkeys(names))
    by_largest = sorted(given, key=lambda name: (-_largest(model, name), name))
    best: list[str] = []
    for order in (given, by_largest, by_largest[::-1]):
        found, is_whole = _greedy(model, order)
        if is_whole:
            return tuple(found)
        if len(found) > len(best):
            best = found
    return (*best, *(name for name in given if name not in best))


def _greedy(model: ClusterModel, names: Sequence[str]) -> tuple[list[str], bool]:
    """Repeatedly drain the first node whose pods fit elsewhere. Return whether all were drained."""
    left = list(names)
    order: list[str] = []
    changes: list[ClusterChange] = []
    while left:
        for name in left:
            moved = _moved(model, changes, name, names)
            if moved is not None:
                order.append(name)
                changes += moved
                left.remove(name)
                break
        else:
            return order, False
    return order, True


def _largest(model: ClusterModel, name: str) -> int:
    """Return the largest cpu request of the pods on a node."""
    return max(
        (
            pod_requested(pod).milli_cpu
            for pod in model.objects.list(Pod)
            if pod.spec.node_name == name
        ),
        default=0,
    )


def _moved(
    model: ClusterModel, before: Sequence[ClusterChange], name: str, cordoned: Sequence[str]
) -> list[ClusterChange] | None:
    """Return the node's pods on their new nodes; None if one of them would be pending."""
    node = model.objects.get(Node, name)
    if node is None:
        raise ExplainError(f"no node named {name!r}")
    # All nodes of the plan are cordoned: the drained ones, and those that follow.
    closed: list[ClusterChange] = [
        replace(other, spec=replace(other.spec, unschedulable=True))
        for each in cordoned
        if (other := model.objects.get(Node, each)) is not None
    ]
    moved: list[ClusterChange] = []
    with model.changed([*before, *closed]):
        for pod in [p for p in model.objects.list(Pod) if p.spec.node_name == name]:
            if pod.status.phase in ("Succeeded", "Failed"):
                continue
            if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
                continue
            waiting = replace(pod, spec=replace(pod.spec, node_name=""))
            with model.changed([*moved, waiting]):
                target = model.search(waiting).node_name
            if not target:
                return None
            moved.append(replace(pod, spec=replace(pod.spec, node_name=target)))
    return moved
