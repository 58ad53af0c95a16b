"""`x-kubernetes-validations`: validation rules in CEL for parts of an object.

Rules are compiled together with the definition. A rule that mentions `oldSelf` is a transition
rule. It is evaluated only if there is an old value, unless it sets `optionalOldSelf`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.rules.custom.rule_costs import (
    cost_problem,
    estimate_rule_cost,
    max_items,
)
from kubesched.cluster.apiserver.rules.custom.schema_cel_types import cel_value, declared_type
from kubesched.cluster.apiserver.rules.custom.schema_validation import ABSENT, match_old_items
from kubesched.cluster.apiserver.rules.custom.structural_schema import EMBEDDED
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    forbidden,
    invalid,
    required,
)
from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.foundation.cel import (
    CelCompileError,
    CelRuntimeError,
    Program,
    compile_expression,
    kubernetes_environment,
)
from kubesched.foundation.cel.language.cel_values import NONE, OptionalValue
from kubesched.foundation.cel.language.expression_types import ObjectType, Type, optional_of

__all__ = ["UNCORRELATABLE", "RuleTree", "compile_rules", "rule_problems"]

UNCORRELATABLE: Final = "oldSelf cannot be used on the uncorrelatable portion of the schema"
_NO_OVERLOAD: Final = "no such overload"
_TOO_COSTLY: Final = "operation cancelled: actual cost limit exceeded"
# Takes the path of a rule, the rule (empty if it is too expensive), and the problem.
Report = Callable[[str, Json, str], None]


class _Rule(msgspec.Struct, frozen=True):
    program: Program
    text: str
    message: str
    message_program: Program | None
    reason: str
    field_path: str
    is_transition_rule: bool
    optional_old: bool


class RuleTree(msgspec.Struct, frozen=True):
    """The compiled rules of a schema and of its parts."""

    schema: Json
    rules: tuple[_Rule, ...] = ()
    properties: dict[str, RuleTree] = {}
    additional: RuleTree | None = None
    items: RuleTree | None = None

    def part(self, key: str) -> RuleTree | None:
        return self.properties.get(key, self.additional)


def compile_rules(
    schema: Json,
    path: str,
    report: Report,
    *,
    is_resource: bool = False,
    times: int = 1,
    within: str = "",
) -> RuleTree | None:
    """Compile the rules in a schema; None if it has none. Calls `report` for each problem.

    `times` is the maximum number of values of this schema in one object. `within` is the path of
    the outer part whose old and new items cannot be matched, if there is one.
    """
    rules = tuple(
        _compiled_rules(schema, path, report, is_resource=is_resource, times=times, within=within)
    )
    properties: dict[str, RuleTree] = {}
    for key, part in (schema.get("properties") or {}).items():
        if not isinstance(part, dict):
            continue
        inner = f"{path}.properties[{key}]"
        embedded = bool(part.get(EMBEDDED))
        tree = compile_rules(
            part,
            inner,
            report,
            is_resource=embedded,
            times=times,
            within=within or _atomic_map(schema, path),
        )
        if tree is not None:
            properties[key] = tree
    repeated_parts: dict[str, RuleTree | None] = {"additionalProperties": None, "items": None}
    for key in repeated_parts:
        part = schema.get(key)
        if isinstance(part, dict):
            total = times * max_items(schema)
            outer = within or (
                _unmatched_list(schema, path) if key == "items" else _atomic_map(schema, path)
            )
            inner = f"{path}.{key}"
            repeated_parts[key] = compile_rules(part, inner, report, times=total, within=outer)
    additional, items = repeated_parts.values()
    if not rules and not properties and additional is None and items is None:
        return None
    return RuleTree(schema, rules, properties, additional, items)


def _atomic_map(schema: Json, path: str) -> str:
    return path if schema.get("x-kubernetes-map-type") == "atomic" else ""


def _unmatched_list(schema: Json, path: str) -> str:
    """Return the path of a list whose old and new items have no keys to match them by."""
    return "" if schema.get("x-kubernetes-list-type") == "map" else path


def _compiled_rules(
    schema: Json, path: str, report: Report, *, is_resource: bool, times: int, within: str
) -> Iterator[_Rule]:
    declared = schema.get("x-kubernetes-validations") or ()
    if not declared:
        return
    objects: dict[str, ObjectType] = {}
    found = declared_type(schema, "selfType", objects, is_resource=is_resource)
    for index, rule in enumerate(declared):
        where = f"{path}.x-kubernetes-validations[{index}]"
        optional_old = bool(rule.get("optionalOldSelf"))
        old = optional_of(found) if optional_old else found
        compile_text = _compiler({"self": found, "oldSelf": old}, objects)
        program = compile_text(rule, "rule", "bool", f"{where}.rule", report)
        if program is None:
            continue
        if problem := cost_problem(times * estimate_rule_cost(rule["rule"], schema)):
            report(f"{where}.rule", {}, problem)
        if within and program.mentions("oldSelf"):
            report(f"{where}.rule", rule, f"{UNCORRELATABLE} within {within}")
        message_program: Program | None = None
        if rule.get("messageExpression"):
            message_program = compile_text(
                rule, "messageExpression", "string", f"{where}.messageExpression", report
            )
        yield _Rule(
            program,
            rule.get("rule", ""),
            rule.get("message", ""),
            message_program,
            rule.get("reason", "FieldValueInvalid"),
            rule.get("fieldPath", ""),
            program.mentions("oldSelf"),
            optional_old,
        )


def _compiler(
    variables: dict[str, Type], objects: dict[str, ObjectType]
) -> Callable[[Json, str, str, str, Report], Program | None]:
    environment = kubernetes_environment(variables, objects=objects.values())

    def compile_text(
        rule: Json, field: str, wanted: str, where: str, report: Report
    ) -> Program | None:
        text = rule.get(field) or ""
        if not text.strip():
            report(where, rule, "")
            return None
        try:
            program = compile_expression(text, environment)
        except CelCompileError as error:
            report(where, rule, f"compilation failed: {error}")
            return None
        if program.output_type.name != wanted:
            report(where, rule, f"cel expression must evaluate to a {wanted}")
            return None
        return program

    return compile_text


class _TooCostlyError(Exception):
    """Evaluation exceeded the cost limit, so no further rule is evaluated."""


def rule_problems(value: Any, tree: RuleTree, path: str, old: Any = ABSENT) -> list[FieldProblem]:
    """Evaluate the rules for a value and return their problems."""
    problems: list[FieldProblem] = []
    # The last problem then says that no further rule was evaluated.
    with contextlib.suppress(_TooCostlyError):
        _walk(value, tree, path, old, problems)
    return problems


def _walk(value: Any, tree: RuleTree, path: str, old: Any, problems: list[FieldProblem]) -> None:
    for rule in tree.rules:
        if (problem := _rule_problem(rule, tree.schema, value, old, path)) is not None:
            problems.append(problem)
            if _TOO_COSTLY in problem.body:
                raise _TooCostlyError
    if isinstance(value, dict):
        for key, item in value.items():
            part = tree.part(key)
            if part is not None:
                before = old.get(key, ABSENT) if isinstance(old, dict) else ABSENT
                inner = f"{path}[{key}]" if key not in tree.properties else f"{path}.{key}"
                _walk(item, part, inner.removeprefix("."), before, problems)
    elif isinstance(value, list) and tree.items is not None:
        replaced_by = match_old_items(old, tree.schema)
        for index, each in enumerate(value):
            _walk(each, tree.items, f"{path}[{index}]", replaced_by(each), problems)


def _rule_problem(
    rule: _Rule, schema: Json, value: Any, old: Any, path: str
) -> FieldProblem | None:
    """Evaluate one rule; None if it passes or does not apply."""
    if value is None:
        return None
    if rule.is_transition_rule:
        if old is ABSENT and not rule.optional_old:
            return None
    elif old is not ABSENT and value == old:
        return None
    before = None if old is ABSENT else cel_value(old, schema)
    if rule.optional_old:
        before = NONE if old is ABSENT else OptionalValue(before)
    bindings = {"self": cel_value(value, schema), "oldSelf": before}
    where = path + rule.field_path
    kind = schema.get("type", "")
    try:
        if rule.program.evaluate(bindings) is True:
            return None
    except CelRuntimeError as error:
        return invalid(where or "<nil>", kind, _failure(str(error), rule))
    shown = kind if kind in ("object", "array") else value
    return _violation(rule, bindings, where or "<nil>", shown)


def _failure(error: str, rule: _Rule) -> str:
    described = rule.message or rule.text
    if error.startswith(_NO_OVERLOAD):
        return (
            f"'{error}': call arguments did not match a supported operator, function or macro "
            f"signature for rule: {described}"
        )
    if error == _TOO_COSTLY:
        return (
            f"'{error}': no further validation rules will be run due to call cost exceeds limit "
            f"for rule: {described}"
        )
    return f"{error} evaluating rule: {described}"


def _violation(rule: _Rule, bindings: dict[str, Any], where: str, shown: Any) -> FieldProblem:
    """Return the problem of a rule that a value violates.

    The text contains the value, or only its type for objects and lists. It contains neither if
    a message expression computed the message.
    """
    detail = rule.message.strip() or f"failed rule: {rule.text.strip()}"
    is_computed = False
    if rule.message_program is not None:
        try:
            computed = rule.message_program.evaluate(bindings)
        except CelRuntimeError:
            computed = ""
        if isinstance(computed, str) and computed.strip() and "\n" not in computed:
            detail, is_computed = computed, True
    match rule.reason:
        case "FieldValueForbidden":
            return forbidden(where, detail)
        case "FieldValueRequired":
            return required(where, detail)
        case "FieldValueDuplicate":
            return duplicate(where, shown, detail)
        case _ if is_computed:
            return FieldProblem(where, "FieldValueInvalid", f"Invalid value: {detail}")
        case _:
            return invalid(where, shown, detail)
