"""The rules for policies and bindings themselves."""

from __future__ import annotations

from kubesched.apiserver.rules.admission.policy import compile_policy
from kubesched.apiserver.rules.strategies.base import Json, Strategy
from kubesched.apiserver.rules.validation.problems import Problem, invalid, required

__all__ = ["BindingStrategy", "PolicyStrategy"]

_LISTS = ("validations", "variables", "matchConditions", "auditAnnotations")


def _with_defaults(constraints: Json) -> Json:
    filled = {
        "namespaceSelector": {},
        "objectSelector": {},
        "matchPolicy": "Equivalent",
        **constraints,
    }
    for field in ("resourceRules", "excludeResourceRules"):
        rules = filled.get(field)
        if isinstance(rules, list):
            filled[field] = [
                {"scope": "*", **rule} if isinstance(rule, dict) else rule for rule in rules
            ]
    return filled


class PolicyStrategy(Strategy):
    """A policy must compile; its status says what does not fit the kinds it is about."""

    counts_generations = True
    has_status = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return new
        spec = {"failurePolicy": "Fail", **spec}
        if isinstance(constraints := spec.get("matchConstraints"), dict):
            spec["matchConstraints"] = _with_defaults(constraints)
        return {**new, "spec": spec}

    def check_new(self, new: Json, /) -> list[Problem]:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return [required("spec")]
        problems = _malformed(spec)
        if problems:
            return problems
        if not isinstance(spec.get("matchConstraints"), dict):
            problems.append(required("spec.matchConstraints"))
        elif not spec["matchConstraints"].get("resourceRules"):
            problems.append(required("spec.matchConstraints.resourceRules"))
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must be non-empty"
            problems.append(required("spec.validations", f"{text}; one of them is required"))
        return problems + compile_policy(spec)[1]


def _malformed(spec: Json) -> list[Problem]:
    """Parts that are not written as they must be."""
    problems: list[Problem] = []
    for field in _LISTS:
        entries = spec.get(field)
        if entries is None:
            continue
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            problems.append(invalid(f"spec.{field}", entries, "must be a list of objects"))
            continue
        for index, each in enumerate(entries):
            texts = ("name", "expression", "message", "messageExpression", "reason")
            for key in texts:
                if not isinstance(each.get(key, ""), str):
                    where = f"spec.{field}[{index}].{key}"
                    problems.append(invalid(where, each[key], "must be a string"))
            if field == "variables" and not each.get("name"):
                problems.append(required(f"spec.variables[{index}].name"))
    rules = spec.get("matchConstraints") or {}
    if not isinstance(rules, dict) or not isinstance(rules.get("resourceRules") or [], list):
        problems.append(invalid("spec.matchConstraints", rules, "must be an object"))
    return problems


class BindingStrategy(Strategy):
    """A binding says where a policy holds, and what follows from a refusal."""

    counts_generations = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("matchResources"), dict):
            return new
        filled = {**spec, "matchResources": _with_defaults(spec["matchResources"])}
        return {**new, "spec": filled}

    def check_new(self, new: Json, /) -> list[Problem]:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return [required("spec")]
        problems = [] if spec.get("policyName") else [required("spec.policyName")]
        if not spec.get("validationActions"):
            problems.append(required("spec.validationActions"))
        return problems
