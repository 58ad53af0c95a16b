"""Expands workloads into the pods that their controllers would create."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import (
    DaemonSet,
    Deployment,
    Job,
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    Volume,
)
from kubesched.api.base import ApiObject
from kubesched.api.pod_facts import controller_of

__all__ = ["ExpandedWorkload", "expand_workload"]

_WORKLOADS: Final = (Deployment, StatefulSet, ReplicaSet, ReplicationController, Job)


class ExpandedWorkload(NamedTuple):
    """Pods, the DaemonSets that add pods to each node, and the other objects of the files."""

    pods: Sequence[Pod]
    daemon_sets: Sequence[DaemonSet]
    others: Sequence[ApiObject]


def expand_workload(objects: Iterable[ApiObject]) -> ExpandedWorkload:
    """Expand the objects of files, which may be manifests or a dump.

    If a dump has both a controller and its pods, the pods are omitted: the controller's replicas
    are used.
    """
    objects = list(objects)
    uids = (each.metadata.uid for each in objects)  # type: ignore[attr-defined]
    owners = {uid for uid in uids if uid}
    pods: list[Pod] = []
    daemon_sets: list[DaemonSet] = []
    others: list[ApiObject] = []
    for each in objects:
        if isinstance(each, DaemonSet):
            daemon_sets.append(each)
        elif isinstance(each, _WORKLOADS):
            owner = controller_of(each)  # type: ignore[arg-type]
            if owner is None or owner.uid not in owners:
                for pod, claims in _pods_of(each):
                    pods.append(pod)
                    others += claims
        elif isinstance(each, Pod):
            if not _is_made(each, owners):
                metadata = ObjectMeta(
                    name=each.metadata.name,
                    namespace=each.metadata.namespace,
                    labels=each.metadata.labels,
                    annotations=each.metadata.annotations,
                )
                pods.append(_pending(metadata, each.spec))
        elif not isinstance(each, Node | PodDisruptionBudget):
            others.append(each)
    return ExpandedWorkload(pods, daemon_sets, others)


def _is_made(pod: Pod, owners: set[str]) -> bool:
    owner = controller_of(pod)
    has_ended = pod.status.phase in ("Succeeded", "Failed")
    return has_ended or (owner is not None and (owner.uid in owners or owner.kind == "DaemonSet"))


def _pods_of(workload: Any) -> Iterator[tuple[Pod, list[PersistentVolumeClaim]]]:
    spec, metadata = workload.spec, workload.metadata
    count = spec.parallelism if isinstance(workload, Job) else spec.replicas
    template = spec.template
    if template is None:
        return
    for number in range(1 if count is None else int(count)):
        own = ObjectMeta(
            name=f"{metadata.name}-{number}",
            namespace=metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
        )
        claims = []
        pod_spec = template.spec
        if isinstance(workload, StatefulSet):
            for claim in spec.volume_claim_templates:
                volume = claim.metadata.name
                name = f"{volume}-{own.name}"
                made = replace(claim, metadata=ObjectMeta(name=name, namespace=own.namespace))
                claims.append(made)
                source = PersistentVolumeClaimVolumeSource(claim_name=name)
                volumes = (*pod_spec.volumes, Volume(name=volume, persistent_volume_claim=source))
                pod_spec = replace(pod_spec, volumes=volumes)
        yield _pending(own, pod_spec), claims


def _pending(metadata: ObjectMeta, spec: Any) -> Pod:
    """Return a pod without a node that never ends: the pods of a workload run at the same time."""
    return replace(
        Pod(), metadata=metadata, spec=replace(spec, node_name="", restart_policy="Always")
    )
