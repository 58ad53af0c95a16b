"""Validation of roles and of their bindings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_subdomain

__all__ = ["check_binding", "check_role"]

Json = Mapping[str, Any]

_GROUP = "rbac.authorization.k8s.io"
_ACCOUNT = "ServiceAccount"
_SUBJECTS = (_ACCOUNT, "User", "Group")


def check_role(role: Json, *, namespaced: bool) -> Iterator[FieldProblem]:
    """Yield the problems of the rules of a role."""
    for index, rule in enumerate(role.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if urls := rule.get("nonResourceURLs"):
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", urls, text)
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                yield invalid(f"{path}.nonResourceURLs", urls, text)
            continue
        if not rule.get("apiGroups"):
            yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
        if not rule.get("resources"):
            yield required(f"{path}.resources", "resource rules must supply at least one resource")


def check_binding(binding: Json, *, namespaced: bool) -> Iterator[FieldProblem]:
    """Yield the problems of the role and the subjects of a binding."""
    role = binding.get("roleRef") or {}
    if role.get("apiGroup") != _GROUP:
        yield not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (_GROUP,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("kind") not in kinds:
        yield not_supported("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _check_subject(subject: Json, path: str, *, namespaced: bool) -> Iterator[FieldProblem]:
    name, kind = subject.get("name") or "", subject.get("kind") or ""
    group = subject.get("apiGroup") or ""
    if not name:
        yield required(f"{path}.name")
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
    elif kind != _ACCOUNT:
        if group != _GROUP:
            yield not_supported(f"{path}.apiGroup", group, (_GROUP,))
    else:
        if name:
            yield from (invalid(f"{path}.name", name, text) for text in dns_subdomain(name))
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            yield required(f"{path}.namespace")
