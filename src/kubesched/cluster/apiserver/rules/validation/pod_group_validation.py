"""Validation of PodGroups and Workloads (docs/reference/09 §2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    dns_subdomain,
    qualified_name,
)

__all__ = [
    "check_group_status",
    "check_immutable",
    "check_pod_group",
    "check_scheduling_group",
    "check_workload",
]

Json = Mapping[str, Any]

_POLICIES = ("basic", "gang")
_MODES = ("Pod", "PodGroup")
_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_LOWEST_PRIORITY, _HIGHEST_PRIORITY = -(2**31), 1_000_000_000
_MOST_TEMPLATES, _MOST_TOPOLOGY_KEYS, _MOST_CLAIMS = 8, 1, 4
_STATUSES = ("False", "True", "Unknown")
_NULL_IS_IMMUTABLE = "Invalid value: null: field is immutable"


def check_scheduling_group(group: Json | None, path: str) -> list[FieldProblem]:
    """Check a pod's reference to its group."""
    if group is None:
        return []
    field = f"{path}.podGroupName"
    name = group.get("podGroupName")
    if name is None:
        text = "Invalid value: null: must specify one of: `podGroupName`"
        return [FieldProblem(field, "FieldValueInvalid", text)]
    return [invalid(field, name, text) for text in dns_subdomain(name)]


def check_pod_group(group: Json) -> list[FieldProblem]:
    spec = group.get("spec", {})
    return _check_template_reference(spec) + _check_group_spec(spec, "spec")


def check_workload(workload: Json) -> list[FieldProblem]:
    path, templates = "spec.podGroupTemplates", workload.get("spec", {}).get("podGroupTemplates")
    if not templates:
        return [required(path)]
    if len(templates) > _MOST_TEMPLATES:
        return [too_many(path, len(templates), _MOST_TEMPLATES)]
    problems: list[FieldProblem] = []
    names: set[str] = set()
    for index, template in enumerate(templates):
        name, here = template.get("name", ""), f"{path}[{index}]"
        if name in names:
            problems.append(duplicate(here, template, is_sorted=False))
        names.add(name)
        if not name:
            problems.append(required(f"{here}.name"))
        problems += [invalid(f"{here}.name", name, text) for text in dns_label(name) if name]
        problems += _check_group_spec(template, here)
    return problems


def check_immutable(new: Json, old: Json, fields: Sequence[str]) -> list[FieldProblem]:
    """Return a problem for each of these fields that changed."""
    spec, before = new.get("spec", {}), old.get("spec", {})
    return [
        FieldProblem(f"spec.{field}", "FieldValueInvalid", _NULL_IS_IMMUTABLE)
        for field in fields
        if spec.get(field) != before.get(field)
    ]


def check_group_status(new: Json) -> list[FieldProblem]:
    status = new.get("status", {})
    problems: list[FieldProblem] = []
    for index, condition in enumerate(status.get("conditions", ())):
        path = f"status.conditions[{index}]"
        if not condition.get("type"):
            problems.append(required(f"{path}.type"))
        if condition.get("status") not in _STATUSES:
            given = condition.get("status", "")
            problems.append(not_supported(f"{path}.status", given, _STATUSES))
        problems += [
            required(f"{path}.{field}")
            for field in ("lastTransitionTime", "reason")
            if not condition.get(field)
        ]
    return problems + _check_claim_statuses(new.get("spec", {}), status)


def _check_claim_statuses(spec: Json, status: Json) -> list[FieldProblem]:
    path, statuses = "status.resourceClaimStatuses", status.get("resourceClaimStatuses") or ()
    problems: list[FieldProblem] = []
    if len(statuses) > _MOST_CLAIMS:
        problems.append(too_many(path, len(statuses), _MOST_CLAIMS))
    known = {each.get("name") for each in spec.get("resourceClaims") or ()}
    text = "must match the name of an entry in `spec.resourceClaims`"
    return problems + [
        invalid(f"{path}[{index}].name", each.get("name", ""), text)
        for index, each in enumerate(statuses)
        if each.get("name") not in known
    ]


def _check_template_reference(spec: Json) -> list[FieldProblem]:
    reference = spec.get("podGroupTemplateRef")
    if reference is None:
        return []
    path, workload = "spec.podGroupTemplateRef", reference.get("workload")
    if workload is None:
        return [_none_of(path, ("workload",))]
    problems = []
    for field, rule in (("workloadName", dns_subdomain), ("podGroupTemplateName", dns_label)):
        name, here = workload.get(field, ""), f"{path}.workload.{field}"
        if not name:
            problems.append(required(here))
        else:
            problems += [invalid(here, name, text) for text in rule(name)]
    return problems


def _check_group_spec(spec: Json, path: str) -> list[FieldProblem]:
    """Check the fields that PodGroups and pod group templates have in common."""
    return [
        *_check_policy(spec.get("schedulingPolicy") or {}, f"{path}.schedulingPolicy"),
        *_check_constraints(
            spec.get("schedulingConstraints") or {}, f"{path}.schedulingConstraints"
        ),
        *_check_claims(spec.get("resourceClaims") or (), f"{path}.resourceClaims"),
        *_check_mode(spec, path),
        *_check_priority(spec, path),
    ]


def _check_policy(policy: Json, path: str) -> list[FieldProblem]:
    given = [name for name in _POLICIES if policy.get(name) is not None]
    if not given:
        return [_none_of(path, _POLICIES)]
    if len(given) > 1:
        return [_several_of(path, given, _POLICIES)]
    if given == ["gang"]:
        field, count = f"{path}.gang.minCount", policy["gang"].get("minCount", 0)
        if count == 0:
            return [required(field)]
        if count < 0:
            return [invalid(field, count, "must be greater than or equal to 1")]
    return []


def _check_constraints(constraints: Json, path: str) -> list[FieldProblem]:
    keys = constraints.get("topology") or ()
    field = f"{path}.topology"
    if len(keys) > _MOST_TOPOLOGY_KEYS:
        return [too_many(field, len(keys), _MOST_TOPOLOGY_KEYS)]
    problems = []
    for index, each in enumerate(keys):
        here, key = f"{field}[{index}].key", each.get("key", "")
        if not key:
            problems.append(required(here))
        else:
            problems += [invalid(here, key, text) for text in qualified_name(key)]
    return problems


def _check_claims(claims: Sequence[Json], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if len(claims) > _MOST_CLAIMS:
        problems.append(too_many(path, len(claims), _MOST_CLAIMS))
    names: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if name in names:
            problems.append(duplicate(here, claim, is_sorted=False))
        names.add(name)
        if not name:
            problems.append(required(f"{here}.name"))
        else:
            problems += [invalid(f"{here}.name", name, text) for text in dns_label(name)]
        given = [source for source in _CLAIM_SOURCES if claim.get(source) is not None]
        if not given:
            problems.append(_none_of(here, _CLAIM_SOURCES))
        elif len(given) > 1:
            problems.append(_several_of(here, given, _CLAIM_SOURCES))
        else:
            value = claim[given[0]]
            problems += [
                invalid(f"{here}.{given[0]}", value, text) for text in dns_subdomain(value)
            ]
    return problems


def _check_mode(spec: Json, path: str) -> list[FieldProblem]:
    mode = spec.get("disruptionMode")
    if mode is None or mode in _MODES:
        return []
    return [not_supported(f"{path}.disruptionMode", mode, _MODES)]


def _check_priority(spec: Json, path: str) -> list[FieldProblem]:
    problems, name = [], spec.get("priorityClassName")
    if name:
        field = f"{path}.priorityClassName"
        problems += [invalid(field, name, text) for text in dns_subdomain(name)]
    priority = spec.get("priority")
    if priority is not None and priority > _HIGHEST_PRIORITY:
        text = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        problems.append(invalid(f"{path}.priority", priority, text))
    if priority is not None and priority < _LOWEST_PRIORITY:
        text = f"must be greater than or equal to {_LOWEST_PRIORITY}"
        problems.append(invalid(f"{path}.priority", priority, text))
    return problems


def _none_of(path: str, choices: Sequence[str]) -> FieldProblem:
    return invalid(path, "", f"must specify one of: {_listed(choices)}")


def _several_of(path: str, given: Sequence[str], choices: Sequence[str]) -> FieldProblem:
    shown = "{" + ", ".join(given) + "}"
    return invalid(path, shown, f"must specify exactly one of: {_listed(choices)}")


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(f"`{each}`" for each in choices)
