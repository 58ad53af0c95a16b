"""Explains rejections by nodes at their volume limit."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.framework import Cause
from kubesched.framework.explaining import Detail, Explaining, RejectedNodes, Remedy
from kubesched.scheduler.plugins.helpers.claim_details import VOLUME_CLAIMS, describe_claims
from kubesched.scheduler.plugins.helpers.claim_remedies import free_volumes

__all__ = ["NodeVolumeLimitsExplaining"]


class NodeVolumeLimitsExplaining(Explaining):
    """Describes the limits of the pod's volume drivers, and proposes to move pods with volumes."""

    topic = VOLUME_CLAIMS

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return describe_claims(rejected, cause)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return free_volumes(rejected)
