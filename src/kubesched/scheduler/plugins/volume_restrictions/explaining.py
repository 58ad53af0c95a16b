"""Explains rejections by volumes that exclude sharing."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.framework import Cause
from kubesched.framework.explaining import Detail, Explaining, RejectedNodes, Remedy
from kubesched.scheduler.plugins.helpers.claim_details import VOLUME_CLAIMS, describe_claims
from kubesched.scheduler.plugins.helpers.claim_remedies import fix_claims

__all__ = ["VolumeRestrictionsExplaining"]


class VolumeRestrictionsExplaining(Explaining):
    """Describes claims that one pod may use at a time, and the pod that uses them."""

    topic = VOLUME_CLAIMS

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return describe_claims(rejected, cause)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return fix_claims(rejected)
