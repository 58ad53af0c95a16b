"""From a pod to the resource claims it uses (docs/reference/08 §4)."""

from __future__ import annotations

from typing import NamedTuple

from kubesched.api import Pod, PodGroup, PodResourceClaim, ResourceClaim
from kubesched.errors import KubeschedError
from kubesched.framework import Lister
from kubesched.scheduler.plugins.dynamic_resources.group_claims import NO_GROUP_CLAIMS, GroupClaims

__all__ = ["UnresolvedClaimError", "UsedClaim", "claim_names_of", "resolve_claims"]


class UnresolvedClaimError(KubeschedError):
    """A claim that the pod names is not there, or not its to use. Expected, not a failure."""


class UsedClaim(NamedTuple):
    """A claim of a pod, and the group that has it for all of its pods, if one has."""

    claim: ResourceClaim
    group: PodGroup | None


def resolve_claims(
    pod: Pod, claims: Lister[ResourceClaim], groups: GroupClaims = NO_GROUP_CLAIMS
) -> list[UsedClaim]:
    """The claims of the pod in the order of its spec, without those it turned out not to need.

    Raises:
        UnresolvedClaimError: the first claim that cannot be used, and why.
    """
    found = []
    for wanted in pod.spec.resource_claims:
        name, is_generated = _name_of(pod, wanted)
        if name is not None:
            group = groups.group_of(pod, wanted)
            found.append(UsedClaim(_usable(pod, name, is_generated, claims, group), group))
    return found


def claim_names_of(pod: Pod) -> list[tuple[str, str]]:
    """What the pod calls each of its claims, and how the claim is named."""
    found = []
    for wanted in pod.spec.resource_claims:
        name, _ = _name_of(pod, wanted)
        if name is not None:
            found.append((wanted.name, name))
    return found


def _name_of(pod: Pod, wanted: PodResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, None if none was needed, and whether a controller made it for the pod."""
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if wanted.resource_claim_name is not None:
        return wanted.resource_claim_name, False
    if wanted.resource_claim_template_name is None:
        raise UnresolvedClaimError(
            f'pod "{key}", spec.resourceClaim "{wanted.name}": none of the supported fields are set'
        )
    for status in pod.status.resource_claim_statuses:
        if status.name == wanted.name:
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
