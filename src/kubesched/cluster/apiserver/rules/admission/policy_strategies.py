"""The strategies for policies and bindings."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.cluster.apiserver.rules.admission.mutating_policy import compile_mutation
from kubesched.cluster.apiserver.rules.admission.policy_validation import (
    BindingForm,
    PolicyForm,
    form_problems,
)
from kubesched.cluster.apiserver.rules.admission.validating_policy import compile_policy
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, required
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy

__all__ = [
    "BindingStrategy",
    "MutationBindingStrategy",
    "MutationStrategy",
    "PolicyStrategy",
]


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


class _CompiledStrategy(ResourceStrategy):
    """The common rules of policies: they need match constraints, and they must compile."""

    counts_generations = True
    defaults: Mapping[str, str] = {"failurePolicy": "Fail"}

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return new
        spec = {**self.defaults, **spec}
        if isinstance(constraints := spec.get("matchConstraints"), dict):
            spec["matchConstraints"] = _with_defaults(constraints)
        return {**new, "spec": spec}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return [required("spec")]
        problems = form_problems(spec, PolicyForm)
        if problems:
            return problems
        if not isinstance(spec.get("matchConstraints"), dict):
            problems.append(required("spec.matchConstraints"))
        elif not spec["matchConstraints"].get("resourceRules"):
            problems.append(required("spec.matchConstraints.resourceRules"))
        return problems + self.check_expressions(spec)

    def check_expressions(self, _spec: Json, /) -> list[FieldProblem]:
        """Return the problems of the expressions in a well-formed spec."""
        return []


class PolicyStrategy(_CompiledStrategy):
    """The rules for validating policies. Their status has the results of type checking."""

    has_status = True

    def check_expressions(self, spec: Json, /) -> list[FieldProblem]:
        problems: list[FieldProblem] = []
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must be non-empty"
            problems.append(required("spec.validations", f"{text}; one of them is required"))
        return problems + compile_policy(spec)[1]


class MutationStrategy(_CompiledStrategy):
    """The rules for mutating policies."""

    defaults = {"failurePolicy": "Fail", "reinvocationPolicy": "Never"}

    def check_expressions(self, spec: Json, /) -> list[FieldProblem]:
        problems = [] if spec.get("mutations") else [required("spec.mutations")]
        return problems + compile_mutation(spec)[1]


class MutationBindingStrategy(ResourceStrategy):
    """The rules for bindings, which select the writes that a policy applies to."""

    counts_generations = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("matchResources"), dict):
            return new
        filled = {**spec, "matchResources": _with_defaults(spec["matchResources"])}
        return {**new, "spec": filled}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        spec = new.get("spec")
        if not isinstance(spec, dict):
            return [required("spec")]
        if not spec.get("policyName"):
            return [required("spec.policyName")]
        return form_problems(spec, BindingForm)


class BindingStrategy(MutationBindingStrategy):
    """The rules for bindings of validating policies, which must have validation actions."""

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        problems = super().check_new(new)
        spec = new.get("spec")
        if isinstance(spec, dict) and not spec.get("validationActions"):
            problems.append(required("spec.validationActions"))
        return problems
