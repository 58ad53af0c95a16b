"""The workload whose template a pod was created from, and that template with changes.

A controller recreates its pods from the template, so a change to the pod alone would not last. The
change has to be made in the template of the workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kubesched.api import (
    DaemonSet,
    Deployment,
    Job,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from kubesched.api.batch import CronJob
from kubesched.api.pod_facts import controller_of
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["TemplateOwner", "template_of", "template_owner", "with_pod_changes"]

_KINDS: Final[Mapping[str, type[Any]]] = {
    each.__name__: each
    for each in (
        CronJob,
        DaemonSet,
        Deployment,
        Job,
        ReplicaSet,
        ReplicationController,
        StatefulSet,
    )
}
# Controllers that recreate their pods after a change of the template.
_ROLLING: Final = (Deployment, DaemonSet)


class TemplateOwner(NamedTuple):
    """The workload with the template of a pod."""

    kind: str
    namespace: str
    name: str
    # None: an object of a custom kind, or an object that could not be read.
    workload: Any = None

    @property
    def replaces_pods(self) -> bool:
        """Whether the controller recreates pods after a change of the template."""
        return isinstance(self.workload, _ROLLING)

    @property
    def is_immutable(self) -> bool:
        """Whether the workload must be recreated to change its template."""
        return isinstance(self.workload, Job)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def template_owner(objects: ObjectTable, pod: Pod) -> TemplateOwner | None:
    """Return the workload whose template determines the pod; None for a pod without one.

    A ReplicaSet of a Deployment has the Deployment's template, a Job of a CronJob the CronJob's.
    The pod of an existing Job keeps the Job's template.
    """
    reference = controller_of(pod)
    if reference is None:
        return None
    namespace = pod.metadata.namespace
    found = _read(objects, reference.kind, namespace, reference.name)
    if isinstance(found.workload, ReplicaSet):
        for each in found.workload.metadata.owner_references:
            if each.controller:
                return _read(objects, each.kind, namespace, each.name)
    return found


def _read(objects: ObjectTable, kind: str, namespace: str, name: str) -> TemplateOwner:
    known = _KINDS.get(kind)
    workload = None if known is None else objects.get(known, name, namespace)
    return TemplateOwner(kind, namespace, name, workload)


def template_of(workload: Any) -> PodTemplateSpec:
    """Return the template of the workload's pods."""
    spec = workload.spec
    found: PodTemplateSpec = (
        spec.job_template.spec.template if isinstance(workload, CronJob) else spec.template
    )
    return found


def with_pod_changes(workload: Any, before: PodSpec, after: PodSpec) -> Any:
    """Return the workload with the changes of a pod's spec applied to its template."""
    spec = workload.spec
    if isinstance(workload, CronJob):
        job_spec = spec.job_template.spec
        changed = replace(
            spec.job_template,
            spec=replace(job_spec, template=_changed(job_spec.template, before, after)),
        )
        return replace(workload, spec=replace(spec, job_template=changed))
    template = _changed(spec.template, before, after)
    return replace(workload, spec=replace(spec, template=template))


def _changed(template: Any, before: PodSpec, after: PodSpec) -> Any:
    return replace(template, spec=_merged(template.spec, before, after))


def _merged(target: Any, before: Any, after: Any) -> Any:
    """Apply the change from `before` to `after` to a value that is similar to `before`."""
    if before == after:
        return target
    if isinstance(after, msgspec.Struct) and type(target) is type(before) is type(after):
        return type(after)(
            **{
                name: _merged(getattr(target, name), getattr(before, name), getattr(after, name))
                for name in after.__struct_fields__
            }
        )
    if isinstance(after, dict) and isinstance(before, dict):
        return _merged_map(target or {}, before, after)
    if isinstance(after, tuple) and isinstance(before, tuple) and isinstance(target, tuple):
        return _merged_list(target, before, after)
    return after


def _merged_map(target: Any, before: dict[Any, Any], after: dict[Any, Any]) -> dict[Any, Any]:
    kept = {key: each for key, each in target.items() if key in after or key not in before}
    return kept | {key: each for key, each in after.items() if before.get(key) != each}


def _merged_list(
    target: Sequence[Any], before: Sequence[Any], after: Sequence[Any]
) -> tuple[Any, ...]:
    """Change, remove and add elements; elements with names are matched by name."""
    if all(hasattr(each, "name") for each in (*target, *before, *after)):
        return _merged_by_name(target, before, after)
    if len(before) == len(after):
        swapped = list(target)
        for one, other in zip(before, after, strict=True):
            if one != other and one in swapped:
                swapped[swapped.index(one)] = other
        return tuple(swapped)
    removed = [each for each in before if each not in after]
    added = [each for each in after if each not in before]
    return (*(each for each in target if each not in removed), *added)


def _merged_by_name(
    target: Sequence[Any], before: Sequence[Any], after: Sequence[Any]
) -> tuple[Any, ...]:
    old = {each.name: each for each in before}
    new = {each.name: each for each in after}
    kept = [
        _merged(each, old[each.name], new[each.name])
        if each.name in old and each.name in new
        else each
        for each in target
        if each.name in new or each.name not in old
    ]
    known = {each.name for each in target}
    return (*kept, *(each for each in after if each.name not in old and each.name not in known))
