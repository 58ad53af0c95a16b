"""Types of `coordination.k8s.io/v1`: leases."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32
from kubesched.api.meta import ObjectMeta

__all__ = ["Lease", "LeaseSpec"]


class LeaseSpec(ApiStruct):
    """The holder of a lease; its times have microseconds (`time.format_micro_time`)."""

    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(ApiObject):
    api_version: ClassVar[str] = "coordination.k8s.io/v1"
    kind: ClassVar[str] = "Lease"

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
