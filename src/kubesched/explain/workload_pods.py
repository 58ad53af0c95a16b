"""The pods of a workload: those that exist, and those that its controller has not created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import (
    DaemonSet,
    Deployment,
    Job,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.batch import CronJob
from kubesched.api.kinds import kind_of
from kubesched.api.pod_facts import controller_of
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.clusters.refused_pods import why_no_pods
from kubesched.explain.owner_templates import template_of, template_owner
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.scheduler.plugins.helpers.wording import nearest

__all__ = ["WorkloadPods", "find_workload_pods", "is_workload_kind"]

_FINISHED: Final = ("Succeeded", "Failed")
_WORKLOADS: Final[tuple[type[Any], ...]] = (
    Deployment,
    StatefulSet,
    DaemonSet,
    ReplicaSet,
    ReplicationController,
    Job,
    CronJob,
)


def _names() -> Mapping[str, type[Any]]:
    """Return the kinds by every name that kubectl accepts for them."""
    found: dict[str, type[Any]] = {}
    for each in _WORKLOADS:
        kind = kind_of(each)
        for name in (kind.singular, kind.plural, *kind.short_names):
            found[name] = each
    return found


_BY_NAME: Final = _names()


class WorkloadPods(NamedTuple):
    """A workload, its pods, and how many it should have."""

    kind: str
    namespace: str
    name: str
    pods: tuple[Pod, ...]
    wanted: int | None  # None: it depends on the nodes, or on the time
    next_pod: Pod  # the pod that the controller would create next
    why_none: tuple[str, ...] = ()  # why it does not create it, as far as objects show

    @property
    def missing(self) -> int:
        """The number of pods that its controller has not created."""
        return 0 if self.wanted is None else max(self.wanted - len(self.pods), 0)


def is_workload_kind(name: str) -> bool:
    """Whether the name is a kind of workload for kubectl, such as `deploy`."""
    return name.lower() in _BY_NAME


def find_workload_pods(
    objects: ObjectTable, kind_name: str, namespace: str, name: str
) -> WorkloadPods:
    """Return a workload and its pods that have not finished.

    Raises:
        ExplainError: there is no such workload; a note has a similar name.
    """
    kind = _BY_NAME[kind_name.lower()]
    workload = objects.get(kind, name, namespace)
    if workload is None:
        raise _not_found(objects, kind, namespace, name)
    pods = tuple(
        pod
        for pod in sorted(objects.list(Pod, namespace), key=lambda pod: pod.metadata.name)
        if pod.status.phase not in _FINISHED and _belongs(objects, pod, kind.__name__, name)
    )
    wanted, next_pod = _wanted(workload), _next_pod(workload)
    has_all = bool(pods) if wanted is None else len(pods) >= wanted
    why_none = () if has_all else why_no_pods(objects, workload, next_pod)
    return WorkloadPods(kind.__name__, namespace, name, pods, wanted, next_pod, why_none)


def _not_found(objects: ObjectTable, kind: type[Any], namespace: str, name: str) -> ExplainError:
    known = {f"{each.metadata.namespace}/{each.metadata.name}": each for each in objects.list(kind)}
    error = ExplainError(f"no {kind.__name__} {namespace}/{name} among {len(known)}")
    elsewhere = [key for key in known if key.endswith(f"/{name}")]
    near = elsewhere[0] if elsewhere else nearest(f"{namespace}/{name}", sorted(known))
    if near:
        error.add_note(f"did you mean {near}?")
    return error


def _belongs(objects: ObjectTable, pod: Pod, kind: str, name: str) -> bool:
    """Whether the pod belongs to the workload, or to an object that the workload created."""
    reference = controller_of(pod)
    if reference is None:
        return False
    if (reference.kind, reference.name) == (kind, name):
        return True
    if kind == CronJob.__name__ and reference.kind == Job.__name__:
        job = objects.get(Job, reference.name, pod.metadata.namespace)
        owners = () if job is None else job.metadata.owner_references
        return any((each.kind, each.name) == (kind, name) for each in owners)
    owner = template_owner(objects, pod)
    return owner is not None and (owner.kind, owner.name) == (kind, name)


def _wanted(workload: Any) -> int | None:
    if isinstance(workload, DaemonSet | CronJob):
        return None
    if isinstance(workload, Job):
        parallelism = workload.spec.parallelism
        return 1 if parallelism is None else int(parallelism)
    replicas = workload.spec.replicas
    return 1 if replicas is None else int(replicas)


def _next_pod(workload: Any) -> Pod:
    template, metadata = template_of(workload), workload.metadata
    own = ObjectMeta(
        name=f"{metadata.name}-next",
        namespace=metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=(
            OwnerReference(
                api_version=type(workload).api_version,
                kind=type(workload).kind,
                name=metadata.name,
                uid=metadata.uid,
                controller=True,
            ),
        ),
    )
    return replace(Pod(), metadata=own, spec=template.spec)
