"""Matching of writes against the constraints of policies and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kubesched.api.labels import Selector
from kubesched.api.meta import LabelSelector
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.errors import SelectorError

__all__ = ["matches", "selects"]

Json = dict[str, Any]


def matches(constraints: Json, review: Review, namespace_labels: Mapping[str, str] | None) -> bool:
    """Whether a write matches `matchConstraints` or `matchResources`.

    `namespace_labels` are the labels of the object's namespace. They are None for cluster-scoped
    objects, which match every namespace selector.
    """
    if any(_is_named(rule, review) for rule in constraints.get("excludeResourceRules") or ()):
        return False
    rules = constraints.get("resourceRules")
    if rules and not any(_is_named(rule, review) for rule in rules):
        return False
    if namespace_labels is not None and not selects(
        constraints.get("namespaceSelector"), [namespace_labels]
    ):
        return False
    return selects(constraints.get("objectSelector"), review.labels())


def selects(selector: Any, candidates: Iterable[Mapping[str, str]]) -> bool:
    """Whether a label selector matches any of the candidates. An empty selector matches all."""
    if not selector:
        return True
    try:
        compiled = Selector.from_label_selector(msgspec.convert(selector, LabelSelector))
    except (msgspec.ValidationError, SelectorError):
        return False
    return any(compiled.matches(labels) for labels in candidates)


def _is_named(rule: Json, review: Review) -> bool:
    resource = review.resource
    scope = rule.get("scope") or "*"
    names = rule.get("resourceNames")
    return (
        _has(rule.get("operations"), review.operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and any(_covers(each, review) for each in rule.get("resources") or ())
        and (scope == "*" or (scope == "Namespaced") is resource.namespaced)
        and (not names or review.name in names)
    )


def _has(listed: Any, value: str) -> bool:
    return bool(listed) and ("*" in listed or value in listed)


def _covers(pattern: str, review: Review) -> bool:
    """Whether a pattern such as `pods`, `pods/*` or `*/scale` matches the resource of a request."""
    plural, slash, part = pattern.partition("/")
    if plural not in ("*", review.resource.plural):
        return False
    if not slash:
        return not review.subresource
    return part in ("*", review.subresource)
