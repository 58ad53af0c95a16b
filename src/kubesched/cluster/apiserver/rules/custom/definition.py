"""The versions of a CustomResourceDefinition: validation and compilation of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.rules.custom.list_keys import list_problems
from kubesched.cluster.apiserver.rules.custom.schema_keywords import malformed_parts
from kubesched.cluster.apiserver.rules.custom.schema_validation import (
    ValidationSteps,
    schema_problems,
)
from kubesched.cluster.apiserver.rules.custom.structural_schema import INT_OR_STRING, PRESERVE
from kubesched.cluster.apiserver.rules.custom.validation_rules import (
    UNCORRELATABLE,
    RuleTree,
    compile_rules,
)
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.schema.definitions import Json
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.regex import compile_pattern
from kubesched.foundation.util.go_format import quote

__all__ = ["CustomSchema", "definition_problems", "read_schema"]

_SCHEMA: Final = "openAPIV3Schema"
_REASONS: Final = (
    "FieldValueInvalid",
    "FieldValueForbidden",
    "FieldValueRequired",
    "FieldValueDuplicate",
)


class CustomSchema(msgspec.Struct, frozen=True):
    """The schema of one version, with its compiled rules."""

    schema: Json
    rules: RuleTree | None = None
    columns: tuple[Json, ...] = ()  # `additionalPrinterColumns`
    scale: Json | None = None  # the paths of the scale subresource
    selectable: frozenset[str] = frozenset()  # `selectableFields`, as paths without the first dot


def read_schema(version: Json) -> CustomSchema:
    """Compile a version that has been validated. Rules with errors are omitted."""
    schema = (version.get("schema") or {}).get(_SCHEMA) or {PRESERVE: True, "type": "object"}
    subresources = version.get("subresources") or {}
    return CustomSchema(
        schema,
        compile_rules(schema, "", lambda _where, _rule, _text: None, is_resource=True),
        tuple(version.get("additionalPrinterColumns") or ()),
        subresources.get("scale"),
        frozenset(_selectable(version)),
    )


def _selectable(version: Json) -> Iterator[str]:
    for each in version.get("selectableFields") or ():
        path = each.get("jsonPath") if isinstance(each, dict) else None
        if isinstance(path, str):
            yield path.removeprefix(".")


def definition_problems(spec: Json) -> list[FieldProblem]:
    """Return the problems of a definition's versions."""
    problems = list(_conversion_problems(spec.get("conversion") or {}))
    versions = spec["versions"]
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        problems.append(invalid("spec.versions", versions, text))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.{_SCHEMA}"
        schema = (version.get("schema") or {}).get(_SCHEMA)
        if not isinstance(schema, dict):
            problems.append(required(path, "schemas are required"))
            continue
        malformed = list(malformed_parts(schema, path))
        problems += malformed or _schema_problems(schema, path)
    return problems


def _conversion_problems(conversion: Json) -> Iterator[FieldProblem]:
    strategy, path = conversion.get("strategy"), "spec.conversion"
    webhook = conversion.get("webhook")
    if strategy not in ("None", "Webhook"):
        if not strategy:
            yield required(f"{path}.strategy")
        else:
            yield not_supported(f"{path}.strategy", strategy, ["None", "Webhook"])
        return
    if strategy == "None":
        if webhook:
            text = "should not be set when strategy is not set to Webhook"
            yield forbidden(f"{path}.webhook", text)
        return
    webhook = webhook if isinstance(webhook, dict) else {}
    if not webhook.get("clientConfig"):
        text = "required when strategy is set to Webhook"
        yield required(f"{path}.webhookClientConfig", text)
    versions = webhook.get("conversionReviewVersions")
    if not versions:
        yield required(f"{path}.conversionReviewVersions", "")
    elif not {"v1", "v1beta1"} & set(versions):
        text = "must include at least one of v1, v1beta1"
        yield invalid(f"{path}.conversionReviewVersions", versions, text)


def _schema_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    if schema.get("type") != "object":
        if schema.get("type"):
            yield invalid(f"{path}.type", schema["type"], "must be object at the root")
        else:
            yield required(f"{path}.type", "must not be empty at the root")
        return
    yield from _node_problems(schema, path)
    found: list[FieldProblem] = []

    def report(where: str, rule: Json, text: str) -> None:
        if not text:
            found.append(required(where))
        elif text.startswith(UNCORRELATABLE):
            found.append(invalid(where, rule.get("rule", ""), text))
        elif not rule:
            found.append(forbidden(where, text))
        else:
            found.append(invalid_rule(where, rule, text))

    compile_rules(schema, path, report, is_resource=True)
    yield from found


def _node_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Iterate over the problems of a schema and of the schemas inside it."""
    properties = schema.get("properties") or {}
    yield from _keyword_problems(schema, path)
    for key, part in properties.items():
        if isinstance(part, dict):
            yield from _part_problems(part, f"{path}.properties[{key}]", "object fields")
    for key, what in (("items", "array items"), ("additionalProperties", "object fields")):
        if isinstance(part := schema.get(key), dict):
            yield from _part_problems(part, f"{path}.{key}", what)
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")


def _keyword_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Iterate over the problems of a schema's own keywords."""
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if schema.get("$ref"):
        yield forbidden(f"{path}.$ref", "$ref is not supported")
    if schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
        text = "additionalProperties and properties are mutual exclusive"
        yield forbidden(f"{path}.additionalProperties", text)
    if schema.get("pattern") is not None and not _compiles(schema["pattern"]):
        text = f"must be a valid regular expression, but isn't: {schema['pattern']}"
        yield invalid(f"{path}.pattern", schema["pattern"], text)
    yield from _rule_text_problems(schema, path)
    yield from list_problems(schema, path)
    if "default" in schema:
        inner = f"{path}.default"
        for problem in schema_problems(schema["default"], schema, "", ValidationSteps()):
            yield FieldProblem(inner, problem.reason, problem.body)


def _rule_text_problems(schema: Json, path: str) -> Iterator[FieldProblem]:
    """Iterate over the problems of messages and reasons of rules."""
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        where = f"{path}.x-kubernetes-validations[{index}]"
        message = (rule.get("message") or "").strip()
        if "message" in rule and not message:
            text = "message must be non-empty if specified"
            yield invalid(f"{where}.message", rule["message"], text)
        elif "\n" in message or "\r" in message:
            text = "message must not contain line breaks"
            yield invalid(f"{where}.message", rule["message"], text)
        elif "\n" in (rule.get("rule") or "").strip() and not message:
            text = "message must be specified if rule contains line breaks"
            yield required(f"{where}.message", text)
        if (reason := rule.get("reason")) and reason not in _REASONS:
            yield not_supported(f"{where}.reason", reason, _REASONS)


def _part_problems(schema: Json, path: str, what: str) -> Iterator[FieldProblem]:
    needs_type = not schema.get(INT_OR_STRING) and not schema.get(PRESERVE)
    if not schema.get("type") and needs_type:
        yield required(f"{path}.type", f"must not be empty for specified {what}")
    yield from _node_problems(schema, path)


def _compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except EvaluationError:
        return False
    return True


def invalid_rule(where: str, rule: Json, text: str) -> FieldProblem:
    """Return the problem of a rule that cannot be compiled, with the reference's text."""
    reason = rule.get("reason")
    shown = ", ".join(
        (
            f"Rule:{_quoted(rule, 'rule')}",
            f"Message:{_quoted(rule, 'message')}",
            f"MessageExpression:{_quoted(rule, 'messageExpression')}",
            f"Reason:(*apiextensions.FieldValueErrorReason)({'0x0' if reason else 'nil'})",
            f"FieldPath:{_quoted(rule, 'fieldPath')}",
            "OptionalOldSelf:(*bool)(nil)",
        )
    )
    body = f"Invalid value: apiextensions.ValidationRule{{{shown}}}: {text}"
    return FieldProblem(where, "FieldValueInvalid", body)


def _quoted(rule: Json, field: str) -> str:
    value: Any = rule.get(field)
    return quote(value if isinstance(value, str) else "")
