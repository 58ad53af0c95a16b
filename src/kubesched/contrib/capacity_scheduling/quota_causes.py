"""Why CapacityScheduling rejects pods, as values."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["GuaranteesUsedUp", "QuotaMaxExceeded"]


class QuotaMaxExceeded(Cause, frozen=True):
    """With the pod its namespace would use more than `max` of its ElasticQuota."""

    quota: str  # namespace/name
    resource: str


class GuaranteesUsedUp(Cause, frozen=True):
    """With the pod all quotas together would use more than the sum of their `min`."""

    quota: str
    resource: str
