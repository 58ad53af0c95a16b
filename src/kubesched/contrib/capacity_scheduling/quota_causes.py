"""Causes of rejections by CapacityScheduling."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["GuaranteesUsedUp", "QuotaMaxExceeded"]


class QuotaMaxExceeded(Cause, frozen=True):
    """The namespace would exceed the `max` of its ElasticQuota."""

    quota: str  # namespace/name
    resource: str


class GuaranteesUsedUp(Cause, frozen=True):
    """All namespaces together would exceed the sum of all guarantees (`min`)."""

    quota: str
    resource: str
