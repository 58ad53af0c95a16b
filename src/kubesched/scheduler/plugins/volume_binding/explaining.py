"""Explains rejections by claims that cannot be bound on a node."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.framework import Cause
from kubesched.framework.explaining import Detail, Explaining, RejectedNodes, Remedy, RuleKind
from kubesched.scheduler.plugins.helpers.claim_details import VOLUME_CLAIMS, describe_claims
from kubesched.scheduler.plugins.helpers.claim_remedies import fix_claims

__all__ = ["VolumeBindingExplaining"]


class VolumeBindingExplaining(Explaining):
    """Describes claims and the volumes that they could be bound to."""

    kind = RuleKind.SELECTION
    topic = VOLUME_CLAIMS

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return describe_claims(rejected, cause)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return fix_claims(rejected)
