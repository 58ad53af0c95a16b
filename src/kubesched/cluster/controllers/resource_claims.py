"""ResourceClaims: created from templates for pods and pod groups, and released when they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import (
    Pod,
    PodGroup,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    controller_reference,
    is_active,
)
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Delete, Patch
from kubesched.cluster.controllers.pod_group_protection import group_of
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange, controlled
from kubesched.foundation.util.clock import SECOND

__all__ = [
    "GROUP_CLAIM_CONTROLLER",
    "POD_CLAIM_CONTROLLER",
    "RESOURCE_CLAIM_CONTROLLER",
    "plan_claim",
    "plan_claims_of_group",
    "plan_claims_of_pod",
]

Json = dict[str, Any]

_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
# The finalizer of a claim that has devices.
_PROTECTION = "resource.kubernetes.io/delete-protection"
_RETRY_NS = 5 * SECOND
_FINISHED = ("Succeeded", "Failed")


def plan_claims_of_pod(
    objects: ObjectIndex, owner: Pod, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Create the claims for a pod's templates, and write their names to its status.

    The controller creates claims that all pods of a group share for the group.
    """
    if not is_active(owner):
        return ActionPlan()
    shared_claims: Mapping[PodResourceClaim, str] = {}
    if objects.has_group_claims and owner.spec.scheduling_group is not None:
        group = group_of(objects, owner)
        if group is None:
            return ActionPlan()  # it decides which claims are shared
        shared_claims = _claims_of_group(group)
    return _plan_claims(objects, owner, document, now_ns, shared_claims)


def plan_claims_of_group(
    objects: ObjectIndex, owner: PodGroup, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Create the claims for a group's templates, and write their names to its status."""
    if owner.metadata.deletion_timestamp is not None or not objects.has_group_claims:
        return ActionPlan()
    return _plan_claims(objects, owner, document, now_ns, {})


def _claims_of_group(group: PodGroup) -> Mapping[PodResourceClaim, str]:
    """Return the names of a group's claims; an empty name if the claim does not exist yet."""
    names = {
        each.name: each.resource_claim_name or "" for each in group.status.resource_claim_statuses
    }
    return {
        reference: names.get(reference.name, "")
        for reference in group.spec.resource_claims
        if reference.resource_claim_template_name
    }


def _plan_claims(
    objects: ObjectIndex,
    owner: Pod | PodGroup,
    document: Mapping[str, Any],
    now_ns: int,
    shared_claims: Mapping[PodResourceClaim, str],
) -> ActionPlan:
    statuses = list(document.get("status", {}).get("resourceClaimStatuses", ()))
    reported = {each["name"] for each in statuses}
    existing = {
        claim.metadata.annotations.get(_CLAIM_NAME, ""): claim
        for claim in objects.controlled(owner.metadata.uid, ResourceClaim)
    }
    actions: list[Action] = []
    template_is_missing = False
    for reference in owner.spec.resource_claims:
        if not reference.resource_claim_template_name or reference.name in reported:
            continue
        if (name := shared_claims.get(reference)) is not None:
            if name:
                statuses.append({"name": reference.name, "resourceClaimName": name})
            continue
        if (claim := existing.get(reference.name)) is not None:
            statuses.append({"name": reference.name, "resourceClaimName": claim.metadata.name})
            continue
        template: ResourceClaimTemplate | None = objects.find(
            ResourceClaimTemplate, owner.metadata.namespace, reference.resource_claim_template_name
        )
        if template is None:
            template_is_missing = True
        else:
            actions.append(Create(ResourceClaim, _claim_document(owner, reference.name, template)))
    if len(statuses) > len(reported):
        actions.append(Patch(owner, {"status": {"resourceClaimStatuses": statuses}}, "status"))
    return ActionPlan(actions, now_ns + _RETRY_NS if template_is_missing else None)


def _claim_document(owner: Pod | PodGroup, name: str, template: ResourceClaimTemplate) -> Json:
    inner: Json = msgspec.json.decode(msgspec.json.encode(template.spec))
    template_metadata = inner.get("metadata", {})
    metadata: Json = {
        "generateName": f"{owner.metadata.name}-{name}-",
        "namespace": owner.metadata.namespace,
        "annotations": {**template_metadata.get("annotations", {}), _CLAIM_NAME: name},
        "ownerReferences": [controller_reference(owner)],
    }
    if template_metadata.get("labels"):
        metadata["labels"] = template_metadata["labels"]
    return {"metadata": metadata, "spec": inner.get("spec", {})}


def plan_claim(
    objects: ObjectIndex, owner: ResourceClaim, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Remove the reservations of finished pods, and with the last one the allocation.

    A claim that was created for a pod is deleted when the pod has finished.
    """
    users = owner.status.reserved_for
    remaining = [user for user in users if not _has_finished(objects, user)]
    is_terminating = owner.metadata.deletion_timestamp is not None
    is_free = not remaining and (bool(users) or is_terminating)
    actions: list[Action] = []
    if len(remaining) < len(users) or (is_free and owner.status.allocation is not None):
        status: Json = {"reservedFor": msgspec.json.decode(msgspec.json.encode(remaining)) or None}
        if not remaining:
            status |= {"allocation": None, "devices": None}
        actions.append(Patch(owner, {"status": status}, "status", unless_changed=True))
    # A claim that is not free keeps its finalizer: the scheduler adds it before it allocates.
    if is_free and _PROTECTION in owner.metadata.finalizers:
        actions.append(_remove_protection(owner))
    if not is_terminating and _is_of_finished_pod(objects, owner):
        actions.append(Delete(owner))
    return ActionPlan(actions)


def _remove_protection(claim: ResourceClaim) -> Patch:
    finalizers = [each for each in claim.metadata.finalizers if each != _PROTECTION]
    return Patch(claim, {"metadata": {"finalizers": finalizers or None}}, unless_changed=True)


def _is_of_finished_pod(objects: ObjectIndex, claim: ResourceClaim) -> bool:
    owner = controller_of(claim)
    pod = None if owner is None or owner.kind != Pod.kind else objects.get(owner.uid)
    return pod is not None and pod.status.phase in _FINISHED


def _has_finished(objects: ObjectIndex, user: Any) -> bool:
    if user.resource == "podgroups" and objects.has_group_claims:
        return objects.get(user.uid) is None
    if user.resource != "pods" or user.api_group:
        return False
    pod = objects.get(user.uid)
    return pod is None or pod.status.phase in _FINISHED


def _has_pod_claims(pod: Pod, _before: Pod | None = None) -> bool:
    return bool(pod.spec.resource_claims)


def _has_group_claims(group: PodGroup) -> bool:
    return bool(group.spec.resource_claims)


def _claims_of_changed_pod(
    objects: ObjectIndex, pod: Pod, _before: Pod | None, gone: bool
) -> Sequence[str]:
    """Find the claims that are reserved for a pod, named by it, or created for it."""
    uid, namespace = pod.metadata.uid, pod.metadata.namespace
    keys = objects.reserved_for(uid)
    if names := _claim_names(pod):
        claims = (objects.find(ResourceClaim, namespace, name) for name in names)
        keys = (*keys, *(each.metadata.uid for each in claims if each is not None))
    if gone and objects.count_owned(uid):
        # The pod's status may not name a claim that was created for its extended resources.
        keys = (*keys, *(each.metadata.uid for each in objects.controlled(uid, ResourceClaim)))
    return keys


def _claim_names(pod: Pod) -> Sequence[str]:
    """Return the names of the ResourceClaims that a pod uses."""
    spec_claims, statuses = pod.spec.resource_claims, pod.status.resource_claim_statuses
    extended = pod.status.extended_resource_claim_status
    if not spec_claims and not statuses and extended is None:
        return ()
    names = [each.resource_claim_name for each in spec_claims]
    names += [each.resource_claim_name for each in statuses]
    if extended is not None:
        names.append(extended.resource_claim_name)
    return [name for name in names if name]


def _claims_of_deleted_group(
    objects: ObjectIndex, group: PodGroup, _before: PodGroup | None, gone: bool
) -> Sequence[str]:
    return objects.reserved_for(group.metadata.uid) if gone and objects.has_group_claims else ()


def _pods_of_changed_group(
    objects: ObjectIndex, group: PodGroup, _before: PodGroup | None, gone: bool
) -> Sequence[str]:
    """Find the pods of a group that may wait for its claims."""
    if gone or not objects.has_group_claims:
        return ()
    return [
        pod.metadata.uid
        for pod in objects.within(Pod, group.metadata.namespace)
        if pod.spec.resource_claims
        and pod.spec.scheduling_group is not None
        and pod.spec.scheduling_group.pod_group_name == group.metadata.name
    ]


POD_CLAIM_CONTROLLER = Controller(
    "resource-claim-controller",
    Pod,
    plan_claims_of_pod,
    triggers=(
        OwnChange(Pod, _has_pod_claims),
        RelatedChange(PodGroup, Pod, _pods_of_changed_group),
        controlled(ResourceClaim, by=Pod),
    ),
    applies=_has_pod_claims,
)

GROUP_CLAIM_CONTROLLER = Controller(
    "resource-claim-controller",
    PodGroup,
    plan_claims_of_group,
    triggers=(OwnChange(PodGroup), controlled(ResourceClaim, by=PodGroup)),
    applies=_has_group_claims,
)

RESOURCE_CLAIM_CONTROLLER = Controller(
    "resource-claim-controller",
    ResourceClaim,
    plan_claim,
    triggers=(
        OwnChange(ResourceClaim),
        RelatedChange(Pod, ResourceClaim, _claims_of_changed_pod),
        RelatedChange(PodGroup, ResourceClaim, _claims_of_deleted_group),
    ),
)
