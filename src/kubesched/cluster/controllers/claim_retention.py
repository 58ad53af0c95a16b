"""Owners of the claims of a StatefulSet: its retention policy decides what deletes them.

References of other owners stay. A claim that another controller owns gets no references.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kubesched.api import OwnerReference, PersistentVolumeClaim, Pod, StatefulSet
from kubesched.cluster.controllers.adoption import owners_patch, reference_document
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action

__all__ = ["has_stale_claim", "plan_claim_owners", "set_of_claim"]

Json = dict[str, Any]


def plan_claim_owners(
    objects: ObjectIndex,
    owner: StatefulSet,
    spec: Mapping[str, Any],
    pods: Mapping[int, Pod],
    ordinals: Collection[int],
) -> list[Action]:
    """Set the owners of the claims of existing pods, as the retention policy requires."""
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    when_scaled = policy.get("whenScaled") == "Delete"
    when_deleted = policy.get("whenDeleted") == "Delete"
    actions: list[Action] = []
    for ordinal, pod in pods.items():
        wanted: Any = None
        if when_scaled and ordinal not in ordinals:
            wanted = pod
        elif when_deleted:
            wanted = owner
        for claim in _claims_of(objects, owner, spec, pod.metadata.name):
            references = claim.metadata.owner_references
            if any(_is_outdated(each, owner) or _is_outdated(each, pod) for each in references):
                continue
            written = _owners(references, _uids(owner, pod), wanted)
            if not _has_owners(references, written):
                actions.append(owners_patch(claim, written))
    return actions


def _owners(
    references: Sequence[OwnerReference], own: Collection[str], wanted: Any | None
) -> list[Json]:
    """Return the references of other owners, and one to the required owner if that is allowed."""
    others = [each for each in references if each.uid not in own]
    written = [reference_document(each) for each in others]
    if wanted is not None and not any(each.controller for each in others):
        written.append(controller_reference(wanted))
    return written


def has_stale_claim(
    objects: ObjectIndex, owner: StatefulSet, spec: Mapping[str, Any], pod_name: str
) -> bool:
    """Whether a former pod of this name owns a claim that is to be deleted with it."""
    policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") != "Delete":
        return False
    return any(
        each.kind == Pod.kind and each.api_version == Pod.api_version and each.name == pod_name
        for claim in _claims_of(objects, owner, spec, pod_name)
        for each in claim.metadata.owner_references
    )


def set_of_claim(
    objects: ObjectIndex,
    claim: PersistentVolumeClaim,
    _before: PersistentVolumeClaim | None,
    _gone: bool,
) -> Sequence[str]:
    """Find the StatefulSets whose claims may have this name."""
    # A name consists of the names of the template and the set, and the ordinal.
    start, _, number = claim.metadata.name.rpartition("-")
    if not number.isdecimal():
        return ()
    return [
        each.metadata.uid
        for each in objects.within(StatefulSet, claim.metadata.namespace)
        if start.endswith(f"-{each.metadata.name}")
    ]


def _claims_of(
    objects: ObjectIndex, owner: StatefulSet, spec: Mapping[str, Any], pod_name: str
) -> Iterator[PersistentVolumeClaim]:
    for template in spec.get("volumeClaimTemplates") or ():
        name = f"{template['metadata']['name']}-{pod_name}"
        claim = objects.find(PersistentVolumeClaim, owner.metadata.namespace, name)
        if claim is not None:
            yield claim


def _is_outdated(reference: OwnerReference, owner: Any) -> bool:
    """Whether a reference names a former object of the same kind and name."""
    return (reference.api_version, reference.kind, reference.name) == (
        owner.api_version,
        owner.kind,
        owner.metadata.name,
    ) and reference.uid != owner.metadata.uid


def _uids(owner: StatefulSet, pod: Pod) -> tuple[str, str]:
    return owner.metadata.uid, pod.metadata.uid


def _has_owners(references: Sequence[OwnerReference], wanted: Sequence[Json]) -> bool:
    """Whether an object has these references, in any order."""
    stored = {each.uid: reference_document(each) for each in references}
    return stored == {each["uid"]: each for each in wanted}
