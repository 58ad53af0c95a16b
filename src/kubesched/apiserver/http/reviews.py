"""Questions about tokens and permissions: created, answered, never stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.apiserver.http.users import Attributes, User, Users
from kubesched.apiserver.rules import api_errors

__all__ = ["REVIEWS", "answer_review"]

Json = dict[str, Any]

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_AUDIENCE = "https://localhost"
REVIEWS: dict[tuple[str, str], tuple[str, bool]] = {
    (AUTHENTICATION, "selfsubjectreviews"): ("SelfSubjectReview", False),
    (AUTHENTICATION, "tokenreviews"): ("TokenReview", False),
    (AUTHORIZATION, "localsubjectaccessreviews"): ("LocalSubjectAccessReview", True),
    (AUTHORIZATION, "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
    (AUTHORIZATION, "subjectaccessreviews"): ("SubjectAccessReview", False),
}
"""Kind, and whether it is asked in a namespace, by group and plural."""


def answer_review(group: str, plural: str, body: Json, users: Users, asker: User) -> Json:
    """The review with its status. Raises ApiError 400 or 422."""
    kind = REVIEWS[group, plural][0]
    spec = body.get("spec", {})
    if not isinstance(spec, dict) or not isinstance(body.get("metadata", {}), dict):
        raise api_errors.bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: expected an object'
        )
    head = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": body.get("metadata", {})}
    if kind == "SelfSubjectReview":
        return {**head, "status": {"userInfo": asker.document()}}
    status = _ANSWERS[kind](spec, users, asker)
    return {**head, "spec": spec, "status": status}


def _token(spec: Json, users: Users, _asker: User) -> Json:
    user = users.by_token(str(spec.get("token", "")))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.document(), "audiences": [_AUDIENCE]}


def _own_access(spec: Json, users: Users, asker: User) -> Json:
    return {"allowed": users.allows(asker.groups, _attributes(spec))}


def _access(spec: Json, users: Users, _asker: User) -> Json:
    groups = spec.get("groups") or ()
    return {"allowed": users.allows(tuple(groups), _attributes(spec))}


_ANSWERS: dict[str, Callable[[Json, Users, User], Json]] = {
    "TokenReview": _token,
    "SelfSubjectAccessReview": _own_access,
    "SubjectAccessReview": _access,
    "LocalSubjectAccessReview": _access,
}


def _attributes(spec: Json) -> Attributes:
    resource = spec.get("resourceAttributes") or {}
    path = spec.get("nonResourceAttributes") or {}
    return Attributes(
        verb=resource.get("verb") or path.get("verb", ""),
        group=resource.get("group", ""),
        plural=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
        path=path.get("path", ""),
    )
