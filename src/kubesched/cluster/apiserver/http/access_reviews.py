"""Reviews of tokens and permissions. The server responds to them and stores nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubesched.cluster.apiserver.http.request_bodies import check_types
from kubesched.cluster.apiserver.http.users import AUDIENCE, Attributes, Requester, Users
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, invalid
from kubesched.cluster.apiserver.rules.rbac_rules import Subject
from kubesched.cluster.apiserver.store.access_rules import AccessRules
from kubesched.foundation.util.go_format import quote

__all__ = ["REVIEWS", "answer_review"]

Json = dict[str, Any]

AUTHENTICATION, AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
# The kind and whether it is namespaced, by group and plural.
REVIEWS: dict[tuple[str, str], tuple[str, bool]] = {
    (AUTHENTICATION, "selfsubjectreviews"): ("SelfSubjectReview", False),
    (AUTHENTICATION, "tokenreviews"): ("TokenReview", False),
    (AUTHORIZATION, "localsubjectaccessreviews"): ("LocalSubjectAccessReview", True),
    (AUTHORIZATION, "selfsubjectaccessreviews"): ("SelfSubjectAccessReview", False),
    (AUTHORIZATION, "selfsubjectrulesreviews"): ("SelfSubjectRulesReview", False),
    (AUTHORIZATION, "subjectaccessreviews"): ("SubjectAccessReview", False),
}


_SELECTORS = ("fieldSelector", "labelSelector")
_SPEC_TYPES: dict[str, type] = {
    "user": str,
    "groups": list,
    "token": str,
    "audiences": list,
    "namespace": str,
    "resourceAttributes": dict,
    "nonResourceAttributes": dict,
}


def answer_review(group: str, plural: str, body: Json, users: Users, requester: Requester) -> Json:
    """Return the review with its status. Raises ApiError 400 or 422."""
    kind = REVIEWS[group, plural][0]
    spec = body.get("spec", {})
    if not isinstance(spec, dict) or not isinstance(body.get("metadata", {}), dict):
        raise api_errors.bad_request(
            f'{kind} in version "v1" cannot be handled as a {kind}: expected an object'
        )
    check_types(spec, kind, _SPEC_TYPES)
    for part in ("resourceAttributes", "nonResourceAttributes"):
        attributes = spec.get(part) or {}
        check_types(attributes, kind, {name: str for name in attributes if name not in _SELECTORS})
    head = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": body.get("metadata", {})}
    if kind == "SelfSubjectReview":
        return {**head, "status": {"userInfo": requester.document()}}
    if problems := list(_problems(kind, body.get("metadata") or {}, spec)):
        raise api_errors.invalid(f"{kind}.{group}", "", problems)
    status = _ANSWERS[kind](spec, users, requester)
    return {**head, "spec": spec, "status": status}


def _problems(kind: str, metadata: Json, spec: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of a review of permissions."""
    if not kind.endswith("AccessReview"):
        return
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is None and path is None:
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        yield _invalid("resourceAttributes", "null", text)
    elif resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        yield invalid("spec.nonResourceAttributes", path, text)
    if kind == "SelfSubjectAccessReview":
        return
    if not spec.get("user") and not spec.get("groups"):
        yield _invalid("user", '""', "at least one of user or group must be specified")
    if kind == "LocalSubjectAccessReview" and resource is not None:
        namespace = resource.get("namespace", "")
        if namespace != metadata.get("namespace", ""):
            text = "must match metadata.namespace"
            yield invalid("spec.resourceAttributes.namespace", namespace, text)


def _invalid(field: str, shown: str, text: str) -> FieldProblem:
    return FieldProblem(f"spec.{field}", "FieldValueInvalid", f"Invalid value: {shown}: {text}")


def _token(spec: Json, users: Users, _requester: Requester) -> Json:
    identity = users.by_token(str(spec.get("token", "")))
    if identity is None:
        return {"user": {}, "error": "invalid bearer token"}
    requested = spec.get("audiences") or [AUDIENCE]
    common = [each for each in identity.audiences if each in requested]
    if not common:
        named, wanted = (
            f"[{' '.join(map(quote, each))}]" for each in (identity.audiences, requested)
        )
        text = f"token audiences {named} is invalid for the target audiences {wanted}"
        return {"user": {}, "error": f"[invalid bearer token, {text}]"}
    return {"authenticated": True, "user": identity.user.document(), "audiences": common}


def _own_access(spec: Json, users: Users, requester: Requester) -> Json:
    return {"allowed": users.allows(requester.all_groups, _attributes(spec), requester.name)}


def _access(spec: Json, users: Users, _requester: Requester) -> Json:
    groups = tuple(map(str, spec.get("groups") or ()))
    return {"allowed": users.allows(groups, _attributes(spec), str(spec.get("user", "")))}


def _own_rules(spec: Json, users: Users, requester: Requester) -> Json:
    subject = Subject(requester.name, requester.all_groups)
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    every_path = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    rules: list[Json] = [*everything, *every_path]
    if isinstance(users.authorizer, AccessRules):
        rules = list(users.authorizer.rules_of(subject, str(spec.get("namespace", ""))))
    return {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }


_ANSWERS: dict[str, Callable[[Json, Users, Requester], Json]] = {
    "TokenReview": _token,
    "SelfSubjectAccessReview": _own_access,
    "SubjectAccessReview": _access,
    "LocalSubjectAccessReview": _access,
    "SelfSubjectRulesReview": _own_rules,
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
