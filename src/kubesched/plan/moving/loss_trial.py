"""Tries on a model whether the pods of a lost node or zone fit on the other nodes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable

from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import controller_of, is_terminating, pod_key, pod_priority
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.framework import Removal
from kubesched.plan.reading.failure_domains import failure_domains
from kubesched.plan.reading.pinned_pods import follows_node

__all__ = ["find_losses"]

_ENDED = ("Succeeded", "Failed")


def find_losses(
    after: ClusterModel, before: ClusterModel, survive: str, emptied: Collection[str]
) -> list[str]:
    """Return a sentence for each pod that fits nowhere after the loss of a planned domain.

    Pods that would not fit after the same loss in the original cluster do not count. The emptied
    nodes are not part of the plan.
    """
    problems = []
    nodes = [node for node in after.objects.list(Node) if node.metadata.name not in emptied]
    with after.changed(Removal(Node, name, "") for name in emptied):
        for domain, names in failure_domains(nodes, survive).items():
            unplaced = _unplaced_pods(after, names)
            if not unplaced:
                continue
            all_nodes = failure_domains(before.objects.list(Node), survive)[domain]
            known = Counter(_owner(pod) for pod in _unplaced_pods(before, all_nodes))
            for pod in unplaced:
                if known[_owner(pod)]:
                    known[_owner(pod)] -= 1
                else:
                    what = f"{survive} {domain} is lost"
                    problems.append(f"if {what}, pod {pod_key(pod)} finds no node")
    return problems


def _unplaced_pods(model: ClusterModel, names: Collection[str]) -> list[Pod]:
    """Return the pods of these nodes that do not fit on the other nodes, placed one by one."""
    lost = [pod for name in names for pod in _pods_on(model, name)]
    back = [pod for pod in lost if controller_of(pod) is not None and not follows_node(pod)]
    unplaced = []
    removed = [Removal(Pod, pod.metadata.name, pod.metadata.namespace) for pod in lost]
    with contextlib.ExitStack() as stack:
        stack.enter_context(model.changed(removed))
        stack.enter_context(model.changed(Removal(Node, name, "") for name in names))
        for pod in sorted(back, key=lambda pod: (-pod_priority(pod), pod_key(pod))):
            waiting = replace(pod, spec=replace(pod.spec, node_name=""))
            found = model.search(waiting).result
            if found is None:
                unplaced.append(pod)
                continue
            spec = replace(pod.spec, node_name=found.node_name)
            stack.enter_context(model.changed([replace(pod, spec=spec)]))
    return unplaced


def _pods_on(model: ClusterModel, name: str) -> Iterable[Pod]:
    node = model.snapshot.get(name)
    infos = () if node is None else tuple(node.pods)
    return [
        info.pod
        for info in infos
        if info.pod.status.phase not in _ENDED and not is_terminating(info.pod)
    ]


def _owner(pod: Pod) -> str:
    owner = controller_of(pod)
    return "" if owner is None else owner.uid
