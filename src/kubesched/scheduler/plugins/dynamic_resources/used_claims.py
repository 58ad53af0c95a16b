"""The resource claims that a pod uses (docs/reference/08 §4)."""

from __future__ import annotations

from typing import NamedTuple

from kubesched.api import Pod, PodGroup, PodResourceClaim, ResourceClaim
from kubesched.errors import KubeschedError
from kubesched.framework import Lister
from kubesched.scheduler.plugins.dynamic_resources.group_claims import NO_GROUP_CLAIMS, GroupClaims

__all__ = ["UnresolvedClaimError", "UsedClaim", "claim_names_of", "resolve_claims"]


class UnresolvedClaimError(KubeschedError):
    """A claim of the pod is missing or not usable.

    An expected condition, not a failure.
    """


class UsedClaim(NamedTuple):
    """A claim of a pod, and its pod group if the claim belongs to that."""

    claim: ResourceClaim
    group: PodGroup | None


def resolve_claims(
    pod: Pod, claims: Lister[ResourceClaim], groups: GroupClaims = NO_GROUP_CLAIMS
) -> list[UsedClaim]:
    """Return the claims that the pod needs, in the order of its spec.

    Raises:
        UnresolvedClaimError: a claim cannot be used; the text gives the reason.
    """
    found = []
    for entry in pod.spec.resource_claims:
        name, is_generated = _name_of(pod, entry)
        if name is not None:
            group = groups.group_of(pod, entry)
            found.append(UsedClaim(_usable(pod, name, is_generated, claims, group), group))
    return found


def claim_names_of(pod: Pod) -> list[tuple[str, str]]:
    """Return each claim's name within the pod and its ResourceClaim's name."""
    found = []
    for entry in pod.spec.resource_claims:
        name, _ = _name_of(pod, entry)
        if name is not None:
            found.append((entry.name, name))
    return found


def _name_of(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """Return the claim's name, and whether it was created for the pod."""
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, False
    if entry.resource_claim_template_name is None:
        raise UnresolvedClaimError(
            f'pod "{key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name, True
    raise UnresolvedClaimError(f'pod "{key}": ResourceClaim not created yet')


def _usable(
    pod: Pod,
    name: str,
    is_generated: bool,
    claims: Lister[ResourceClaim],
    group: PodGroup | None,
) -> ResourceClaim:
    namespace = pod.metadata.namespace
    claim = claims.get(name, namespace)
    if claim is None:
        raise UnresolvedClaimError(f'could not find ResourceClaim "{namespace}/{name}"')
    if claim.metadata.deletion_timestamp is not None:
        raise UnresolvedClaimError(f'resourceclaim "{name}" is being deleted')
    if is_generated and not _is_controlled_by(claim, pod if group is None else group):
        raise UnresolvedClaimError(
            f"ResourceClaim {namespace}/{name} was not created for Pod "
            f"{namespace}/{pod.metadata.name} (Pod is not owner)"
        )
    return claim


def _is_controlled_by(claim: ResourceClaim, maker: Pod | PodGroup) -> bool:
    return any(
        owner.controller and owner.uid == maker.metadata.uid
        for owner in claim.metadata.owner_references
    )
