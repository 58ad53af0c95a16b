"""Validation of webhook configurations, and the expressions of their match conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from kubesched.cluster.apiserver.rules.admission.policy_expressions import (
    BOOL_RESULT,
    ExpressionCompiler,
)
from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.names import dns_subdomain, qualified_name
from kubesched.foundation.cel import Program

__all__ = ["WebhookStrategy", "compile_conditions"]

_MOST_CONDITIONS = 64
_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_HTTPS = "'https' is the only allowed URL scheme; desired format: https://host[:port]/path"


class WebhookStrategy(ResourceStrategy):
    """The rules for webhook configurations, with the defaults of another strategy."""

    counts_generations = True

    def __init__(self, defaults: ResourceStrategy) -> None:
        self._defaults = defaults

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        return self._defaults.default(new, old)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        problems: list[FieldProblem] = []
        names: set[str] = set()
        for index, hook in enumerate(new.get("webhooks") or ()):
            problems += _check_webhook(hook, f"webhooks[{index}]", names)
        return problems


def _check_webhook(hook: Mapping[str, Any], path: str, names: set[str]) -> Iterator[FieldProblem]:
    yield from _check_name(hook.get("name", ""), f"{path}.name", names)
    yield from _check_rules(hook, path)
    versions = hook.get("admissionReviewVersions") or ()
    if not versions:
        text = "must specify one of v1, v1beta1"
        yield required(f"{path}.admissionReviewVersions", text)
    elif not set(versions) & set(_VERSIONS):
        text = "must include at least one of v1, v1beta1"
        yield invalid(f"{path}.admissionReviewVersions", list(versions), text)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        if (value := hook.get(field)) is not None and value not in allowed:
            yield not_supported(f"{path}.{field}", value, allowed)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", seconds, text)
    yield from _check_client(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from _check_conditions(hook, path)


def _check_name(name: str, path: str, names: set[str]) -> Iterator[FieldProblem]:
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, text) for text in dns_subdomain(name))
    if name.count(".") < 2:
        yield invalid(
            path, name, "should be a domain with at least three segments separated by dots"
        )
    if name in names:
        yield duplicate(path, name)
    names.add(name)


def _check_rules(hook: Mapping[str, Any], path: str) -> Iterator[FieldProblem]:
    for index, rule in enumerate(hook.get("rules") or ()):
        place = f"{path}.rules[{index}]"
        for field in ("operations", "apiGroups", "apiVersions", "resources"):
            values = rule.get(field) or ()
            if not values:
                yield required(f"{place}.{field}")
            elif "*" in values and len(values) > 1 and field != "resources":
                text = "if '*' is present, must not specify other values"
                if field == "operations":
                    text = "if '*' is present, must not specify other operations"
                yield invalid(f"{place}.{field}", list(values), text)
        for number, operation in enumerate(rule.get("operations") or ()):
            if operation not in _OPERATIONS:
                yield not_supported(f"{place}.operations[{number}]", operation, _OPERATIONS)
        if (scope := rule.get("scope", "*")) not in _SCOPES:
            yield not_supported(f"{place}.scope", scope, _SCOPES)


def _check_client(client: Mapping[str, Any], path: str) -> Iterator[FieldProblem]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        parts = urlsplit(url)
        if parts.scheme != "https":
            yield invalid(f"{path}.url", parts.scheme, _HTTPS)
        if not parts.netloc:
            yield invalid(f"{path}.url", "", "host must be specified; " + _HTTPS.partition("; ")[2])
        for field, value in (("user information", parts.username), ("fragments", parts.fragment)):
            if value:
                yield invalid(f"{path}.url", value, f"{field} are not permitted in the URL")
        if parts.query:
            yield invalid(
                f"{path}.url", parts.query, "query parameters are not permitted in the URL"
            )
    elif service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield required(f"{path}.service.{field}", f"service {field} is required")
        where = service.get("path")
        if where and not where.startswith("/"):
            yield invalid(f"{path}.service.path", where, "must start with a '/'")
        port = service.get("port", 443)
        if not 1 <= port <= 65535:
            text = "port is not valid: must be between 1 and 65535, inclusive"
            yield invalid(f"{path}.service.port", port, text)


def _check_conditions(hook: Mapping[str, Any], path: str) -> Iterator[FieldProblem]:
    conditions = hook.get("matchConditions") or ()
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(f"{path}.matchConditions", len(conditions), _MOST_CONDITIONS)
        return
    names: set[str] = set()
    compiler = _compiler()
    for index, condition in enumerate(conditions):
        place = f"{path}.matchConditions[{index}]"
        expression = condition.get("expression")
        if not _uses_authorizer(expression):
            compiler.compile(expression, f"{place}.expression", BOOL_RESULT)
            yield from compiler.problems
            compiler.problems.clear()
        name = condition.get("name", "")
        if not name:
            yield required(f"{place}.name")
            continue
        yield from (invalid(f"{place}.name", name, text) for text in qualified_name(name))
        if name in names:
            yield duplicate(f"{place}.name", name)
        names.add(name)


def _compiler() -> ExpressionCompiler:
    """Return a compiler with the variables that match conditions of webhooks have."""
    return ExpressionCompiler({})


def _uses_authorizer(expression: Any) -> bool:
    """Whether an expression uses the authorizer, which this server does not evaluate."""
    return isinstance(expression, str) and "authorizer" in expression


def compile_conditions(hook: Mapping[str, Any]) -> list[Program]:
    """Compile the match conditions of a stored webhook, as far as they can be evaluated."""
    compiler = _compiler()
    programs = [
        compiler.compile(each.get("expression"), "", BOOL_RESULT)
        for each in hook.get("matchConditions") or ()
        if not _uses_authorizer(each.get("expression"))
    ]
    return [each for each in programs if each is not None]
