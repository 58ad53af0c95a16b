"""Proposes fewer replicas if only the other pods of its workload leave a pod no node.

A pod whose anti-affinity excludes its own kind, for example, gets no node as soon as each node has
a replica. Then the workload can have as many replicas as have nodes.
"""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import Deployment, Pod, ReplicaSet, ReplicationController
from kubesched.api.pod_facts import controller_of
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Suggestion
from kubesched.explain.owner_templates import template_owner
from kubesched.explain.suggestion_edits import edits_of
from kubesched.framework import Remedy, Removal

__all__ = ["fewer_replicas"]

# Their controllers delete pods without a node first.
_SCALABLE = (Deployment, ReplicaSet, ReplicationController)
# A new node is 3: the other suggestions give the pod a node.
_SIZE = 4.0


def fewer_replicas(model: ClusterModel, pod: Pod) -> Suggestion | None:
    """Return the suggestion; None if the pod would fit nowhere without the other pods, either."""
    owner = template_owner(model.objects, pod)
    workload = None if owner is None else owner.workload
    if not isinstance(workload, _SCALABLE) or _is_rolling(model, pod, workload):
        return None
    placed = _placed_siblings(model, pod)
    wanted = 1 if workload.spec.replicas is None else workload.spec.replicas
    if not 0 < len(placed) < wanted:
        return None
    removed = [Removal(Pod, each.metadata.name, each.metadata.namespace) for each in placed]
    with model.changed(removed):
        if not model.search(pod).node_name:
            return None
    changed = replace(workload, spec=replace(workload.spec, replicas=len(placed)))
    text = f"run {len(placed)} instead of {wanted} replicas of {owner}"
    metadata = workload.metadata
    return Suggestion(
        change=text,
        verified=True,
        node="",
        kind="cluster",
        command=(
            f"kubectl scale {type(workload).kind.lower()} {metadata.name} "
            f"-n {metadata.namespace} --replicas={len(placed)}"
        ),
        size=_SIZE,
        edits=edits_of(model, Remedy(text, _SIZE, pod, (changed,))),
    )


def _placed_siblings(model: ClusterModel, pod: Pod) -> list[Pod]:
    """Return the other pods of the same controller that have nodes."""
    own = controller_of(pod)
    if own is None:
        return []
    return [
        each
        for each in model.objects.list(Pod, pod.metadata.namespace)
        if each.spec.node_name
        and each.metadata.deletion_timestamp is None
        and (controller := controller_of(each)) is not None
        and controller.uid == own.uid
    ]


def _is_rolling(model: ClusterModel, pod: Pod, workload: object) -> bool:
    """Tell whether a Deployment has pods of two ReplicaSets, which its rollout counts together."""
    own = controller_of(pod)
    if not isinstance(workload, Deployment) or own is None:
        return False
    for each in model.objects.list(ReplicaSet, pod.metadata.namespace):
        owner = next((one for one in each.metadata.owner_references if one.controller), None)
        is_other = owner is not None and owner.uid == workload.metadata.uid
        if is_other and each.metadata.uid != own.uid and each.spec.replicas != 0:
            return True
    return False
