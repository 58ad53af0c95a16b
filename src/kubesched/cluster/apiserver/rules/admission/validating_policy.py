"""ValidatingAdmissionPolicy: a compiled policy that is evaluated for every matching write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.admission.policy_expressions import (
    BOOL_RESULT,
    STRING_RESULT,
    ExpressionCompiler,
    make_bindings,
)
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.foundation.cel import CelRuntimeError, Program
from kubesched.foundation.cel.language.expression_types import DYN, ObjectType, Type

__all__ = ["Denial", "Policy", "compile_policy"]

Json = dict[str, Any]


class Denial(msgspec.Struct, frozen=True):
    """The message and the API reason with which a policy denies a write."""

    message: str
    reason: str = "Invalid"


class _Validation(msgspec.Struct, frozen=True):
    program: Program
    expression: str
    message: str
    message_program: Program | None
    reason: str


class Policy(msgspec.Struct, frozen=True):
    """A compiled validating policy."""

    variables: Mapping[str, Program]
    conditions: tuple[Program, ...]
    validations: tuple[_Validation, ...]
    fails_closed: bool

    def evaluate(self, review: Review, params: Any, namespace: Json | None) -> list[Denial]:
        """Evaluate the policy for a write. Returns no denials if it passes."""
        bindings = make_bindings(review, params, namespace, self.variables)
        try:
            if not all(each.evaluate(bindings) is True for each in self.conditions):
                return []
        except CelRuntimeError as error:
            return [Denial(str(error))] if self.fails_closed else []
        denials: list[Denial] = []
        for validation in self.validations:
            try:
                if validation.program.evaluate(bindings) is not True:
                    denials.append(Denial(_message(validation, bindings), validation.reason))
            except CelRuntimeError as error:
                if self.fails_closed:
                    text = f"expression '{validation.expression}' resulted in error: {error}"
                    denials.append(Denial(text))
        return denials


def _message(validation: _Validation, bindings: Mapping[str, Any]) -> str:
    if validation.message_program is not None:
        try:
            computed = validation.message_program.evaluate(bindings)
        except CelRuntimeError:
            computed = ""
        if isinstance(computed, str) and computed.strip() and "\n" not in computed:
            return computed
    return validation.message or f"failed expression: {validation.expression}"


def compile_policy(
    spec: Json,
    object_type: Type = DYN,
    object_types: tuple[ObjectType, ...] = (),
) -> tuple[Policy, list[FieldProblem]]:
    """Compile a policy. Returns it with its problems.

    `object_type` is the type of the variable `object`, against which expressions are checked.
    Expressions that cannot be compiled are omitted.
    """
    compiler = ExpressionCompiler(spec, object_type, object_types)
    variables, conditions = compiler.common_parts(spec)
    validations = [
        _validation(compiler, each, f"spec.validations[{index}]")
        for index, each in enumerate(spec.get("validations") or ())
    ]
    policy = Policy(
        variables,
        conditions,
        tuple(each for each in validations if each is not None),
        spec.get("failurePolicy", "Fail") != "Ignore",
    )
    return policy, compiler.problems


def _validation(compiler: ExpressionCompiler, declared: Json, path: str) -> _Validation | None:
    expression = declared.get("expression")
    program = compiler.compile(expression, f"{path}.expression", BOOL_RESULT)
    message_program: Program | None = None
    if declared.get("messageExpression"):
        message_program = compiler.compile(
            declared["messageExpression"], f"{path}.messageExpression", STRING_RESULT
        )
    if program is None:
        return None
    return _Validation(
        program,
        program.expression,
        declared.get("message") or "",
        message_program,
        declared.get("reason") or "Invalid",
    )
