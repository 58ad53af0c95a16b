"""Types of `authorization.k8s.io/v1`: reviews of access."""

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
    """The access to review.

    Only URL paths, because the scheduler's endpoints need nothing else.
    """

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
    """A request to decide about an access; the result is in `status`, never stored."""

    api_version: ClassVar[str] = "authorization.k8s.io/v1"
    kind: ClassVar[str] = "SubjectAccessReview"

    metadata: ObjectMeta = ObjectMeta()
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
