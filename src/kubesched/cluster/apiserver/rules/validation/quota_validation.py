"""Validation of resource quotas and limit ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
)
from kubesched.cluster.apiserver.rules.validation.container_validation import NEGATIVE
from kubesched.cluster.apiserver.rules.validation.names import qualified_name

__all__ = ["check_limit_range", "check_quota", "check_quota_update"]

Json = dict[str, Any]

_COMPUTE = frozenset(
    {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_STANDARD = _COMPUTE | {
    "configmaps",
    "ephemeral-storage",
    "limits.ephemeral-storage",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.ephemeral-storage",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
}
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
_OF_PODS = _COMPUTE | {"pods"}
_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _OF_PODS,
    "Terminating": _OF_PODS,
    "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS,
    "CrossNamespacePodAffinity": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_PLAIN_SCOPES = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_CONFLICTS = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def _is_standard(name: str) -> bool:
    return name in _STANDARD or name.startswith(_HUGE_PAGES)


def check_quota(quota: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of a quota: names of resources, amounts and scopes."""
    spec = quota.get("spec") or {}
    hard = spec.get("hard") or {}
    yield from _check_amounts(hard)
    yield from _check_scopes(spec.get("scopes") or [], hard)
    yield from _check_scope_selector(spec)


def _check_amounts(hard: Json) -> Iterator[FieldProblem]:
    for name, raw in hard.items():
        path = f"spec.hard[{name}]"
        yield from (invalid(path, name, text) for text in qualified_name(name))
        if "/" not in name and not _is_standard(name):
            yield invalid(path, name, "must be a standard resource for quota")
        amount = parse_quantity(raw)
        if amount.sign < 0:
            yield invalid(path, str(amount), NEGATIVE)


def _check_scopes(scopes: list[str], hard: Json) -> Iterator[FieldProblem]:
    for scope in scopes:
        covered = _SCOPES.get(scope)
        if covered is None:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        elif any(_is_standard(name) and name not in covered for name in hard):
            yield invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _CONFLICTS):
        yield invalid("spec.scopes", scopes, "conflicting scopes")


def _check_scope_selector(spec: Json) -> Iterator[FieldProblem]:
    path = "spec.scopeSelector.matchExpressions"
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        scope, operator = each.get("scopeName", ""), each.get("operator", "")
        values = each.get("values") or []
        if scope not in _SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        if scope in _PLAIN_SCOPES and operator != "Exists":
            text = (
                "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, "
                "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                "ResourceQuotaScopeNotBestEffort or "
                "ResourceQuotaScopeCrossNamespacePodAffinity"
            )
            yield invalid(f"{path}.operator", operator, text)
        if operator in ("In", "NotIn") and not values:
            text = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield required(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist") and values:
            text = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            yield invalid(f"{path}.values", values, text)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid(f"{path}.operator", operator, "not a valid selector operator")


def check_quota_update(new: Json, old: Json) -> list[FieldProblem]:
    """Return the problem of a change of the scopes, which are immutable."""
    scopes = (new.get("spec") or {}).get("scopes") or []
    if set(scopes) == set((old.get("spec") or {}).get("scopes") or []):
        return []
    return [immutable("spec.scopes", scopes)]


def check_limit_range(limit_range: Json) -> Iterator[FieldProblem]:
    """Iterate over the problems of a limit range: amounts that contradict each other."""
    seen: set[str] = set()
    for index, item in enumerate((limit_range.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        if kind in seen:
            yield duplicate(f"{path}.type", kind)
        seen.add(kind)
        if kind == "Pod":
            for field in ("default", "defaultRequest"):
                if item.get(field):
                    text = "may not be specified when `type` is 'Pod'"
                    yield forbidden(f"{path}.{field}", text)
        if kind == "PersistentVolumeClaim":
            bounds = {**(item.get("min") or {}), **(item.get("max") or {})}
            if "storage" not in bounds:
                text = "either minimum or maximum storage value is required, but neither was "
                yield required(f"{path}.limits", text + "provided")
        yield from _check_item(item, path)


# Pairs of fields: the smaller amount, the larger one, and the field that has the problem.
_ORDER = (
    ("min", "max", "min"),
    ("min", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"),
    ("min", "default", "default"),
    ("default", "max", "default"),
)
_NAMES = {"default": "default", "defaultRequest": "default request", "max": "max", "min": "min"}


def _check_item(item: Json, path: str) -> Iterator[FieldProblem]:
    for low, high, field in _ORDER:
        for name, raw in (item.get(low) or {}).items():
            other = (item.get(high) or {}).get(name)
            if other is None:
                continue
            smaller, larger = parse_quantity(raw), parse_quantity(other)
            if smaller > larger:
                shown: Quantity = smaller if field == low else larger
                name_of_larger = _NAMES[high]
                if (low, high) == ("defaultRequest", "default"):
                    name_of_larger = "default limit"
                detail = (
                    f"{_NAMES[low]} value {smaller} is greater than {name_of_larger} value {larger}"
                )
                yield invalid(f"{path}.{field}[{name}]", str(shown), detail)
