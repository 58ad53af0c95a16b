"""Validation of the form of policies and bindings.

The server refuses malformed policies, so all other modules can rely on the form. A policy that
raised an error during its evaluation would block the writes of other users.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kubesched.api.meta import LabelSelector
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem

__all__ = ["BindingForm", "PolicyForm", "form_problems"]

_PLACE: Final = re.compile(r" - at `\$(?P<path>[^`]*)`$")


class _Form(msgspec.Struct, rename="camel"):
    pass


class _ResourceRule(_Form):
    operations: list[str] | None = None
    api_groups: list[str] | None = None
    api_versions: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    scope: str | None = None


class _Match(_Form):
    resource_rules: list[_ResourceRule] | None = None
    exclude_resource_rules: list[_ResourceRule] | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class _Named(_Form):
    name: str
    expression: str = ""


class _Validation(_Form):
    expression: str = ""
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None


class _Expression(_Form):
    expression: str = ""


class _Change(_Form):
    patch_type: str = ""
    apply_configuration: _Expression | None = None
    json_patch: _Expression | None = None


class _Kind(_Form):
    api_version: str = ""
    kind: str = ""


class _Reference(_Form):
    name: str | None = None
    namespace: str | None = None
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class PolicyForm(_Form):
    """The spec of a validating or mutating policy."""

    match_constraints: _Match | None = None
    match_conditions: list[_Named] | None = None
    variables: list[_Named] | None = None
    validations: list[_Validation] | None = None
    audit_annotations: list[dict[str, str]] | None = None
    mutations: list[_Change] | None = None
    param_kind: _Kind | None = None
    failure_policy: str | None = None


class BindingForm(_Form):
    """The spec of a binding."""

    policy_name: str
    validation_actions: list[str] | None = None
    match_resources: _Match | None = None
    param_ref: _Reference | None = None


def form_problems(spec: Any, form: type[_Form]) -> list[FieldProblem]:
    """Return the first problem of a malformed spec."""
    try:
        msgspec.convert(spec, form)
    except msgspec.ValidationError as error:
        text = str(error)
        place = _PLACE.search(text)
        path = place["path"] if place else ""
        body = f"Invalid value: {_PLACE.sub('', text)}"
        return [FieldProblem(f"spec{path}", "FieldValueTypeInvalid", body)]
    return []
