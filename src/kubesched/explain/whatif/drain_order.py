"""In which order nodes can be drained so that nobody has to wait."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.explain.model import Change, ClusterModel, ExplainError

__all__ = ["drain_order"]


def drain_order(model: ClusterModel, names: Sequence[str]) -> tuple[str, ...]:
    """The nodes in an order in which every evicted pod finds a place, as far as there is one.

    Greedy: at each step the first node whose pods all fit elsewhere; if none is left like that,
    the rest stays in the order given. Pods are placed by the scheduler's own search.
    """
    left = list(dict.fromkeys(names))
    order: list[str] = []
    changes: list[Change] = []
    while left:
        for name in left:
            moved = _moved(model, changes, name, left)
            if moved is not None:
                order.append(name)
                changes += moved
                left.remove(name)
                break
        else:
            return (*order, *left)
    return tuple(order)


def _moved(
    model: ClusterModel, before: Sequence[Change], name: str, cordoned: Sequence[str]
) -> list[Change] | None:
    """Pods of the node where they would go; None if one of them would have to wait."""
    node = model.objects.get(Node, name)
    if node is None:
        raise ExplainError(f"no node named {name!r}")
    # Nodes that are to be drained later take no pods that would have to move again.
    closed: list[Change] = [
        replace(other, spec=replace(other.spec, unschedulable=True))
        for each in cordoned
        if (other := model.objects.get(Node, each)) is not None
    ]
    moved: list[Change] = []
    with model.changed([*before, *closed]):
        for pod in [p for p in model.objects.list(Pod) if p.spec.node_name == name]:
            if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
                continue
            waiting = replace(pod, spec=replace(pod.spec, node_name=""))
            with model.changed([*moved, waiting]):
                target = model.search(waiting).node_name
            if not target:
                return None
            moved.append(replace(pod, spec=replace(pod.spec, node_name=target)))
    return moved
