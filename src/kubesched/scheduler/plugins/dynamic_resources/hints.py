"""Queueing hints of DynamicResources (docs/reference/08 §5.2)."""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod, PodGroup, ResourceClaim
from kubesched.framework import Lister, QueueingHint
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.plugins.dynamic_resources.group_claims import NO_GROUP_CLAIMS, GroupClaims
from kubesched.scheduler.plugins.dynamic_resources.used_claims import (
    UnresolvedClaimError,
    resolve_claims,
)
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if, same_pod

__all__ = ["ClaimHints"]


class ClaimHints:
    """Decides by the claims of a pending pod whether an event may help it."""

    def __init__(
        self, claims: Lister[ResourceClaim], groups: GroupClaims = NO_GROUP_CLAIMS
    ) -> None:
        self._claims = claims
        self._groups = groups

    def after_claim_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return QUEUE if a claim of the pod changed, or any claim was deallocated."""
        before, after = expect_or_none(ResourceClaim, old), expect(ResourceClaim, new)
        try:
            own = resolve_claims(pod, self._claims, self._groups)
        except UnresolvedClaimError:
            return QueueingHint.SKIP
        if (
            before is not None
            and before.status.allocation is not None
            and after.status.allocation is None
        ):
            return QueueingHint.QUEUE
        if all(used.claim.metadata.uid != after.metadata.uid for used in own):
            return QueueingHint.SKIP
        return queue_if(before is None or before.status != after.status)

    def after_group_added(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return QUEUE if the group was added that claims of the pod belong to."""
        metadata = expect(PodGroup, new).metadata
        if (metadata.namespace, metadata.name) != (pod.metadata.namespace, group_name_of(pod)):
            return QueueingHint.SKIP
        try:
            resolve_claims(pod, self._claims, self._groups)
        except UnresolvedClaimError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE

    def after_pod_change(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Return QUEUE if the pod's status now names all claims created for it."""
        after = expect(Pod, new)
        if not same_pod(pod, after):
            return QueueingHint.SKIP
        try:
            resolve_claims(after, self._claims, self._groups)
        except UnresolvedClaimError:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
