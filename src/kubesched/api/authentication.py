"""Types of `authentication.k8s.io/v1`: reviews of tokens."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct
from kubesched.api.meta import ObjectMeta

__all__ = ["TokenReview", "TokenReviewSpec", "TokenReviewStatus", "UserInfo"]


class UserInfo(ApiStruct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class TokenReviewSpec(ApiStruct):
    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(ApiStruct):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(ApiObject):
    """A request to identify the owner of a token.

    The result is in `status`, never stored.
    """

    api_version: ClassVar[str] = "authentication.k8s.io/v1"
    kind: ClassVar[str] = "TokenReview"

    metadata: ObjectMeta = ObjectMeta()
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()
