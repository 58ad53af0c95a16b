"""Claims that controllers create for each pod of a template: devices and ephemeral volumes."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import (
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["Claim", "with_claims"]

Claim = ResourceClaim | PersistentVolumeClaim


def with_claims(objects: ObjectTable, pod: Pod) -> tuple[Pod, list[Claim]]:
    """Return the pod as it is after its claims were created, and those claims."""
    made: list[Claim] = []
    statuses: list[PodResourceClaimStatus] = []
    metadata = pod.metadata
    for each in pod.spec.resource_claims:
        template = None
        if each.resource_claim_template_name:
            template = objects.get(
                ResourceClaimTemplate, each.resource_claim_template_name, metadata.namespace
            )
        if template is None:
            continue
        name = f"{metadata.name}-{each.name}"
        made.append(ResourceClaim(metadata=_owned(pod, name), spec=template.spec.spec))
        statuses.append(PodResourceClaimStatus(name=each.name, resource_claim_name=name))
    for volume in pod.spec.volumes:
        ephemeral = volume.ephemeral
        if ephemeral is not None and ephemeral.volume_claim_template is not None:
            name = f"{metadata.name}-{volume.name}"
            spec = ephemeral.volume_claim_template.spec
            made.append(PersistentVolumeClaim(metadata=_owned(pod, name), spec=spec))
    if statuses:
        pod = replace(pod, status=replace(pod.status, resource_claim_statuses=tuple(statuses)))
    return pod, made


def _owned(pod: Pod, name: str) -> ObjectMeta:
    metadata = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=metadata.name, uid=metadata.uid, controller=True
    )
    return ObjectMeta(
        name=name,
        namespace=metadata.namespace,
        uid=f"{metadata.uid}/{name}",
        owner_references=(owner,),
    )
