"""ResourceClaims: made from templates for the pods that ask, and given back by those that end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.api import (
    Pod,
    PodGroup,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    controller_reference,
    is_active,
)
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Delete, Patch
from kubesched.cluster.controllers.pod_group_protection import group_of
from kubesched.foundation.util.clock import SECOND

__all__ = ["plan_claim", "plan_claims_of_group", "plan_claims_of_pod"]

Json = dict[str, Any]

_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has devices."""
_RETRY_NS = 5 * SECOND
_FINISHED = ("Succeeded", "Failed")


def plan_claims_of_pod(
    objects: ObjectIndex, owner: Pod, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Make the claims that a pod's templates stand for, and tell the pod their names.

    Claims that its group has for all of its pods are made for the group.
    """
    if not is_active(owner):
        return ActionPlan()
    groups_claims: Mapping[PodResourceClaim, str] = {}
    if objects.has_group_claims and owner.spec.scheduling_group is not None:
        group = group_of(objects, owner)
        if group is None:
            return ActionPlan()  # whose claims they are is not known before it is there
        groups_claims = _claims_of_group(group)
    return _plan_claims(objects, owner, document, now_ns, groups_claims)


def plan_claims_of_group(
    objects: ObjectIndex, owner: PodGroup, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Make the claims that a group's templates stand for, and tell the group their names."""
    if owner.metadata.deletion_timestamp is not None or not objects.has_group_claims:
        return ActionPlan()
    return _plan_claims(objects, owner, document, now_ns, {})


def _claims_of_group(group: PodGroup) -> Mapping[PodResourceClaim, str]:
    """The names of claims that were made for a group, empty before they were."""
    told = {
        each.name: each.resource_claim_name or "" for each in group.status.resource_claim_statuses
    }
    return {
        wanted: told.get(wanted.name, "")
        for wanted in group.spec.resource_claims
        if wanted.resource_claim_template_name
    }


def _plan_claims(
    objects: ObjectIndex,
    owner: Pod | PodGroup,
    document: Mapping[str, Any],
    now_ns: int,
    of_others: Mapping[PodResourceClaim, str],
) -> ActionPlan:
    stored = list(document.get("status", {}).get("resourceClaimStatuses", ()))
    told = {each["name"] for each in stored}
    made = {
        claim.metadata.annotations.get(_CLAIM_NAME, ""): claim
        for claim in objects.controlled(owner.metadata.uid, ResourceClaim)
    }
    actions: list[Action] = []
    missing = False
    for wanted in owner.spec.resource_claims:
        if not wanted.resource_claim_template_name or wanted.name in told:
            continue
        if (name := of_others.get(wanted)) is not None:
            if name:
                stored.append({"name": wanted.name, "resourceClaimName": name})
            continue
        if (claim := made.get(wanted.name)) is not None:
            stored.append({"name": wanted.name, "resourceClaimName": claim.metadata.name})
            continue
        template: ResourceClaimTemplate | None = objects.find(
            ResourceClaimTemplate, owner.metadata.namespace, wanted.resource_claim_template_name
        )
        if template is None:
            missing = True
        else:
            actions.append(Create(ResourceClaim, _claim(owner, wanted.name, template)))
    if len(stored) > len(told):
        actions.append(Patch(owner, {"status": {"resourceClaimStatuses": stored}}, "status"))
    return ActionPlan(actions, now_ns + _RETRY_NS if missing else None)


def _claim(owner: Pod | PodGroup, name: str, template: ResourceClaimTemplate) -> Json:
    inner: Json = msgspec.json.decode(msgspec.json.encode(template.spec))
    given = inner.get("metadata", {})
    metadata: Json = {
        "generateName": f"{owner.metadata.name}-{name}-",
        "namespace": owner.metadata.namespace,
        "annotations": {**given.get("annotations", {}), _CLAIM_NAME: name},
        "ownerReferences": [controller_reference(owner)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {"metadata": metadata, "spec": inner.get("spec", {})}


def plan_claim(
    objects: ObjectIndex, owner: ResourceClaim, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Give up reservations of pods that have ended, and with the last one the devices.

    A claim that was made for a pod goes when the pod has ended.
    """
    users = owner.status.reserved_for
    kept = [user for user in users if not _has_ended(objects, user)]
    actions: list[Action] = []
    is_free = not kept and (bool(users) or owner.metadata.deletion_timestamp is not None)
    if len(kept) < len(users) or (is_free and owner.status.allocation is not None):
        status: Json = {"reservedFor": msgspec.json.decode(msgspec.json.encode(kept)) or None}
        if not kept:
            status |= {"allocation": None, "devices": None}
        actions.append(Patch(owner, {"status": status}, "status"))
    # Not from a claim without devices that stays: a scheduler protects it before it allocates.
    if _PROTECTION in owner.metadata.finalizers and is_free:
        left = [each for each in owner.metadata.finalizers if each != _PROTECTION]
        actions.append(Patch(owner, {"metadata": {"finalizers": left or None}}))
    if _is_of_ended_pod(objects, owner) and owner.metadata.deletion_timestamp is None:
        actions.append(Delete(owner))
    return ActionPlan(actions)


def _is_of_ended_pod(objects: ObjectIndex, claim: ResourceClaim) -> bool:
    maker = controller_of(claim)
    pod = None if maker is None or maker.kind != Pod.kind else objects.get(maker.uid)
    return pod is not None and pod.status.phase in _FINISHED


def _has_ended(objects: ObjectIndex, user: Any) -> bool:
    if user.resource == "podgroups" and objects.has_group_claims:
        return objects.get(user.uid) is None
    if user.resource != "pods" or user.api_group:
        return False
    pod = objects.get(user.uid)
    return pod is None or pod.status.phase in _FINISHED
