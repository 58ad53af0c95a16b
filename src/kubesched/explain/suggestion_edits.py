"""The edits of a suggestion: requests that a real API server accepts, in order.

A remedy contains the objects after the change. Servers reject most changes of pods and claims. Such
an object is recreated, without the fields that a server sets. If a pod has a controller, the
template of its workload is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api import (
    Job,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kubesched.api.kinds import kind_of
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Edit
from kubesched.explain.owner_templates import (
    TemplateOwner,
    template_of,
    template_owner,
    with_pod_changes,
)
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.framework import ClusterChange, Remedy, Removal

__all__ = ["edits_of", "place_of_change"]

# Kinds whose spec is immutable.
_IMMUTABLE: Final = (Pod, PersistentVolumeClaim, ResourceClaim, ResourceClaimTemplate, Job)
_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
# Labels that a Job controller adds to a Job and its template.
_JOB_LABELS: Final = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)


def edits_of(model: ClusterModel, remedy: Remedy) -> tuple[Edit, ...]:
    """Return the requests that make a remedy's changes; empty if none can."""
    changes = remedy.changes if remedy.edits is None else remedy.edits
    if changes is None:
        return ()
    objects = model.objects
    metadata = remedy.pod.metadata
    before = objects.get(Pod, metadata.name, metadata.namespace)
    edits = [each for change in changes for each in _of_change(objects, change)]
    if before is None:
        return (*edits, *_of_template(objects, remedy.pod))
    is_new = before != remedy.pod or any(each.kind == "ResourceClaimTemplate" for each in edits)
    if not is_new:
        return tuple(edits)
    of_pod = _of_pod(objects, before, remedy.pod)
    return (*edits, *of_pod) if of_pod else ()


def place_of_change(model: ClusterModel, remedy: Remedy) -> str:
    """Return the template to which a change of the pod belongs; empty without a controller."""
    metadata = remedy.pod.metadata
    before = model.objects.get(Pod, metadata.name, metadata.namespace)
    if before is None:
        is_changed = any(_of_template(model.objects, remedy.pod))
        return f", in the template of {template_owner(model.objects, remedy.pod)}" * is_changed
    if before == remedy.pod or _is_allowed(before, remedy.pod):
        return ""
    owner = template_owner(model.objects, before)
    return "" if owner is None else f", in the template of {owner}"


def _of_change(objects: ObjectTable, change: ClusterChange) -> Iterator[Edit]:
    if isinstance(change, Removal):
        kind = kind_of(change.kind)
        yield Edit(
            action="delete",
            kind=kind.kind,
            api_version=kind.api_version,
            name=change.name,
            namespace=change.namespace,
        )
        return
    named: Any = change
    there: Any = objects.get(type(named), named.metadata.name, named.metadata.namespace)
    if there is None:
        yield _edit(named, "create")
        return
    if isinstance(named, ResourceClaim) and (template := _template_of(objects, named)) is not None:
        spec = replace(template.spec, spec=named.spec)
        yield _edit(replace(template, spec=spec), "recreate")
        return
    yield _edit(named, "recreate" if isinstance(named, _IMMUTABLE) else "replace")


def _template_of(objects: ObjectTable, claim: ResourceClaim) -> ResourceClaimTemplate | None:
    """Return the template from which a pod's claim was created."""
    pod_claim = claim.metadata.annotations.get(_POD_CLAIM)
    namespace = claim.metadata.namespace
    for owner in claim.metadata.owner_references:
        pod = objects.get(Pod, owner.name, namespace) if owner.kind == "Pod" else None
        for each in () if pod is None else pod.spec.resource_claims:
            if each.name == pod_claim and each.resource_claim_template_name:
                return objects.get(
                    ResourceClaimTemplate, each.resource_claim_template_name, namespace
                )
    return None


def _of_pod(objects: ObjectTable, before: Pod, after: Pod) -> Iterator[Edit] | tuple[Edit, ...]:
    """Return the requests for a changed pod; empty if its workload is unknown."""
    if before != after and _is_allowed(before, after):
        return (_edit(after, "replace"),)
    owner = template_owner(objects, before)
    if owner is None:
        return (_edit(after, "recreate"),)
    if owner.workload is None:
        return ()
    return _of_owner(owner, before, after)


def _of_template(objects: ObjectTable, after: Pod) -> tuple[Edit, ...]:
    """Return the requests for a changed pod that its controller has not created yet."""
    owner = template_owner(objects, after)
    if owner is None or owner.workload is None:
        return ()
    before = template_of(owner.workload).spec
    if before == after.spec:
        return ()
    changed = with_pod_changes(owner.workload, before, after.spec)
    if owner.is_immutable:
        return (_edit(_without_job_labels(changed), "recreate"),)
    return (_edit(changed, "replace"),)


def _of_owner(owner: TemplateOwner, before: Pod, after: Pod) -> tuple[Edit, ...]:
    changed = with_pod_changes(owner.workload, before.spec, after.spec)
    if owner.is_immutable:
        return (_edit(_without_job_labels(changed), "recreate"),)
    edits = () if changed == owner.workload else (_edit(changed, "replace"),)
    if owner.replaces_pods and edits:
        return edits
    gone = Removal(Pod, before.metadata.name, before.metadata.namespace)
    return (*edits, *_of_change(ObjectTable(()), gone))


def _is_allowed(before: Pod, after: Pod) -> bool:
    """Whether a server accepts the change of an existing pod: tolerations added, gates removed."""
    one, other = before.spec, after.spec
    same = replace(other, tolerations=one.tolerations, scheduling_gates=one.scheduling_gates)
    is_only_this = replace(before, spec=same) == replace(after, spec=same) and same == one
    adds = other.tolerations[: len(one.tolerations)] == one.tolerations
    removes = all(gate in one.scheduling_gates for gate in other.scheduling_gates)
    # A controller's next pod would not have the toleration.
    is_lasting = one.tolerations == other.tolerations or not before.metadata.owner_references
    return is_only_this and adds and removes and is_lasting


def _without_job_labels(job: Job) -> Job:
    """Return a Job as a user creates it, without the label that selects its pods."""
    template = job.spec.template
    labels = {k: v for k, v in template.metadata.labels.items() if k not in _JOB_LABELS}
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    kept = {k: v for k, v in job.metadata.labels.items() if k not in _JOB_LABELS}
    return replace(
        job,
        metadata=replace(job.metadata, labels=kept),
        spec=replace(job.spec, template=template, selector=None),
    )


def _edit(changed: Any, action: str) -> Edit:
    kind = kind_of(type(changed))
    if action == "recreate":
        changed = _as_created(changed)
    document = msgspec.to_builtins(changed)
    if action == "recreate":
        document.pop("status", None)
    metadata = document.get("metadata", {})
    for field in ("resourceVersion", "creationTimestamp", "generation"):
        metadata.pop(field, None)
    if action != "replace":
        metadata.pop("uid", None)
    return Edit(
        action=action,
        kind=kind.kind,
        api_version=kind.api_version,
        name=changed.metadata.name,
        namespace=changed.metadata.namespace,
        document={"apiVersion": kind.api_version, "kind": kind.kind, **document},
    )


def _as_created(changed: Any) -> Any:
    """Return an object without the fields that a server or a controller sets."""
    own = changed.metadata
    metadata = ObjectMeta(
        name=own.name,
        namespace=own.namespace,
        labels=own.labels,
        annotations=own.annotations,
        owner_references=own.owner_references,
    )
    if isinstance(changed, Pod):
        return replace(changed, metadata=metadata, spec=replace(changed.spec, node_name=""))
    return replace(changed, metadata=metadata)
