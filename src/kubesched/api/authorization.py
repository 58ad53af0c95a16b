"""Types of `authorization.k8s.io/v1`: may this user do that?"""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct
from kubesched.api.meta import ObjectMeta

__all__ = [
    "NonResourceAttributes",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
]


class NonResourceAttributes(ApiStruct):
    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(ApiStruct):
    """Attributes of resources are left out: the scheduler's own endpoints are plain paths."""

    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}
    uid: str = ""


class SubjectAccessReviewStatus(ApiStruct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(ApiObject):
    """A question that is created and never stored: the answer comes in `status`."""

    api_version: ClassVar[str] = "authorization.k8s.io/v1"
    kind: ClassVar[str] = "SubjectAccessReview"

    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
