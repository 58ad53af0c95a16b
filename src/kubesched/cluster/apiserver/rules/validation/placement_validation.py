"""Validation of the fields that select a pod's node.

These are node selectors, affinity, tolerations, topology spread and scheduling gates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_label_selector
from kubesched.cluster.apiserver.rules.validation.names import (
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)

__all__ = [
    "check_affinity",
    "check_node_selector",
    "check_scheduling_gates",
    "check_taints",
    "check_tolerations",
    "check_topology_spread",
]

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def check_tolerations(
    tolerations: Sequence[Mapping[str, Any]], path: str, *, compares: bool = True
) -> list[FieldProblem]:
    """`compares` is the gate TaintTolerationComparisonOperators."""
    operators = ("Equal", "Exists", "Lt", "Gt") if compares else ("Equal", "Exists")
    problems: list[FieldProblem] = []
    for index, toleration in enumerate(tolerations):
        at = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            problems += [invalid(f"{at}.key", key, text) for text in qualified_name(key)]
        elif operator != "Exists":
            text = (
                "operator must be Exists when `key` is empty, which means "
                '"match all values and all keys"'
            )
            problems.append(invalid(f"{at}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            problems.append(invalid(f"{at}.effect", effect, text))
        problems += _check_toleration_value(operator, value, at, operators)
        if effect and effect not in _EFFECTS:
            problems.append(not_supported(f"{at}.effect", effect, _EFFECTS))
    return problems


def _check_toleration_value(
    operator: str, value: str, at: str, operators: Sequence[str]
) -> list[FieldProblem]:
    if operator in ("Equal", ""):
        complaints = label_value(value)
        return [invalid(f"{at}.operator", value, ";".join(complaints))] if complaints else []
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        return [invalid(f"{at}.operator", value, text)] if value else []
    if operator not in operators:
        return [not_supported(f"{at}.operator", operator, operators)]
    if _DECIMAL.fullmatch(value):
        return []
    text = "must be a valid decimal integer in canonical form"
    return [invalid(f"{at}.value", value, text)]


def check_taints(taints: Sequence[Mapping[str, Any]], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        problems += [invalid(f"{at}.key", key, text) for text in qualified_name(key)]
        if complaints := label_value(value):
            problems.append(invalid(f"{at}.value", value, ";".join(complaints)))
        if not effect:
            problems.append(required(f"{at}.effect"))
        elif effect not in _EFFECTS:
            problems.append(not_supported(f"{at}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            text = "taints must be unique by key and effect pair"
            problems.append(duplicate(at, dict(taint), text))
        seen.add((key, effect))
    return problems


def check_scheduling_gates(gates: Sequence[Mapping[str, Any]], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        problems += [invalid(f"{path}[{index}]", name, text) for text in qualified_name(name)]
        if name in seen:
            problems.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
    return problems


def check_topology_spread(
    constraints: Sequence[Mapping[str, Any]], path: str
) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        if (skew := constraint.get("maxSkew", 0)) <= 0:
            problems.append(invalid(f"{at}.maxSkew", skew, "must be greater than zero"))
        problems += _check_topology_key(constraint.get("topologyKey", ""), f"{at}.topologyKey")
        action = constraint.get("whenUnsatisfiable", "")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            problems.append(
                not_supported(
                    f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")
                )
            )
        pair = (constraint.get("topologyKey", ""), action)
        if pair in seen:
            field = f"{at}.{{topologyKey, whenUnsatisfiable}}"
            problems.append(duplicate(field, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
        problems += _check_min_domains(constraint, at)
        problems += [
            not_supported(f"{at}.{field}", constraint[field], ("Honor", "Ignore"))
            for field in ("nodeAffinityPolicy", "nodeTaintsPolicy")
            if constraint.get(field) not in (None, "Honor", "Ignore")
        ]
        problems += _check_label_keys(constraint, at)
        problems += check_label_selector(constraint.get("labelSelector"), f"{at}.labelSelector")
    return problems


def _check_min_domains(constraint: Mapping[str, Any], at: str) -> list[FieldProblem]:
    minimum = constraint.get("minDomains")
    if minimum is None:
        return []
    problems = []
    action = constraint.get("whenUnsatisfiable", "")
    if minimum <= 0:
        problems.append(invalid(f"{at}.minDomains", minimum, "must be greater than zero"))
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        problems.append(invalid(f"{at}.minDomains", minimum, text))
    return problems


def _check_topology_key(key: str, path: str) -> list[FieldProblem]:
    problems = [required(path, "can not be empty")] if not key else []
    return problems + [invalid(path, key, text) for text in qualified_name(key)]


def _check_label_keys(term: Mapping[str, Any], at: str) -> list[FieldProblem]:
    """Check `matchLabelKeys` and `mismatchLabelKeys`, which are merged into the selector."""
    matching = term.get("matchLabelKeys", ())
    mismatching = term.get("mismatchLabelKeys", ())
    if not matching and not mismatching:
        return []
    problems: list[FieldProblem] = []
    selector = term.get("labelSelector")
    for field, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            problems.append(forbidden(f"{at}.{field}", text))
            continue
        for index, key in enumerate(keys):
            problems += [
                invalid(f"{at}.{field}[{index}]", key, text) for text in qualified_name(key)
            ]
    if selector is not None:
        seen = set(selector.get("matchLabels", {}))
        for requirement in selector.get("matchExpressions", ()):
            key = requirement.get("key", "")
            if key in matching and key in seen:
                text = "exists in both matchLabelKeys and labelSelector"
                problems.append(invalid(f"{at}[{list(matching).index(key)}]", key, text))
            seen.add(key)
    problems += [
        invalid(
            f"{at}.matchLabelKeys[{index}]",
            key,
            "exists in both matchLabelKeys and mismatchLabelKeys",
        )
        for index, key in enumerate(matching)
        if key in mismatching
    ]
    return problems


def check_affinity(affinity: Mapping[str, Any], path: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    if node := affinity.get("nodeAffinity"):
        at = f"{path}.nodeAffinity"
        if (needed := node.get(_REQUIRED)) is not None:
            problems += check_node_selector(needed, f"{at}.{_REQUIRED}")
        for index, term in enumerate(node.get(_PREFERRED, ())):
            field = f"{at}.{_PREFERRED}[{index}]"
            problems += _check_weight(term, field)
            problems += _check_node_term(
                term.get("preference", {}), f"{field}.preference", values=False
            )
    for name in ("podAffinity", "podAntiAffinity"):
        if terms := affinity.get(name):
            at = f"{path}.{name}"
            for index, term in enumerate(terms.get(_REQUIRED, ())):
                problems += _check_pod_term(term, f"{at}.{_REQUIRED}[{index}]")
            for index, term in enumerate(terms.get(_PREFERRED, ())):
                field = f"{at}.{_PREFERRED}[{index}]"
                problems += _check_weight(term, field)
                inner = term.get("podAffinityTerm", {})
                problems += _check_pod_term(inner, f"{field}.podAffinityTerm")
    return problems


def _check_weight(term: Mapping[str, Any], path: str) -> list[FieldProblem]:
    weight = term.get("weight", 0)
    if 1 <= weight <= 100:
        return []
    return [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def check_node_selector(selector: Mapping[str, Any], path: str) -> list[FieldProblem]:
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        text = "must have at least one node selector term"
        return [required(f"{path}.nodeSelectorTerms", text)]
    problems: list[FieldProblem] = []
    for index, term in enumerate(terms):
        problems += _check_node_term(term, f"{path}.nodeSelectorTerms[{index}]", values=True)
    return problems


def _check_node_term(term: Mapping[str, Any], path: str, *, values: bool) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{index}]"
        problems += _check_node_requirement(requirement, at, values=values)
    for index, requirement in enumerate(term.get("matchFields", ())):
        problems += _check_field_requirement(requirement, f"{path}.matchFields[{index}]")
    return problems


def _check_node_requirement(
    requirement: Mapping[str, Any], at: str, *, values: bool
) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    operator, given = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if not given:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            problems.append(required(f"{at}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if given:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.append(forbidden(f"{at}.values", text))
    elif operator in ("Gt", "Lt"):
        if len(given) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            problems.append(required(f"{at}.values", text))
    else:
        problems.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    problems += [invalid(f"{at}.key", key, text) for text in qualified_name(key)]
    if values:
        for index, value in enumerate(given):
            problems += [
                invalid(f"{at}.values[{index}]", value, text) for text in label_value(value)
            ]
    return problems


def _check_field_requirement(requirement: Mapping[str, Any], at: str) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    operator, given = requirement.get("operator", ""), requirement.get("values", ())
    if operator in ("In", "NotIn"):
        if len(given) != 1:
            text = (
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            )
            problems.append(required(f"{at}.values", text))
    else:
        problems.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    if key != "metadata.name":
        problems.append(invalid(f"{at}.key", key, "not a valid field selector key"))
    else:
        for index, value in enumerate(given):
            problems += [
                invalid(f"{at}.values[{index}]", value, text) for text in dns_subdomain(value)
            ]
    return problems


def _check_pod_term(term: Mapping[str, Any], at: str) -> list[FieldProblem]:
    problems = check_label_selector(term.get("labelSelector"), f"{at}.labelSelector")
    problems += check_label_selector(term.get("namespaceSelector"), f"{at}.namespaceSelector")
    for namespace in term.get("namespaces", ()):
        problems += [invalid(f"{at}.namespace", namespace, text) for text in dns_label(namespace)]
    problems += _check_label_keys(term, at)
    problems += _check_topology_key(term.get("topologyKey", ""), f"{at}.topologyKey")
    return problems
