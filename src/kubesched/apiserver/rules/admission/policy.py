"""ValidatingAdmissionPolicy: compiled once, asked about every write that it matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubesched.apiserver.rules.admission.review import REQUEST_TYPES, Review
from kubesched.apiserver.rules.validation.problems import Problem, invalid, required
from kubesched.cel import (
    CelCompileError,
    CelRuntimeError,
    Environment,
    Program,
    compile_expression,
    kubernetes_environment,
)
from kubesched.cel.types import DYN, ObjectType, Type, named

__all__ = ["Denial", "Policy", "compile_policy"]

Json = dict[str, Any]

_VARIABLES: Final = "kubernetes.variables"
_TEXT: Final = ("string",)
_TRUTH: Final = ("bool",)


class Denial(msgspec.Struct, frozen=True):
    """Why a write is refused, and with which reason of the API."""

    message: str
    reason: str = "Invalid"


class _Validation(msgspec.Struct, frozen=True):
    program: Program
    expression: str
    message: str
    message_program: Program | None
    reason: str


class Policy(msgspec.Struct, frozen=True):
    """A compiled policy."""

    variables: Mapping[str, Program]
    conditions: tuple[Program, ...]
    validations: tuple[_Validation, ...]
    fails_closed: bool

    def judge(self, review: Review, params: Any, namespace: Json | None) -> list[Denial]:
        """What the policy has against a write."""
        bindings: dict[str, Any] = {
            "object": review.shown(review.new),
            "oldObject": review.shown(review.old),
            "request": review.request(),
            "params": params,
            "namespaceObject": namespace,
        }
        bindings["variables"] = _Variables(self.variables, bindings)
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


class _Variables(dict[str, Any]):
    """The values of a policy's variables, computed when asked for and then kept."""

    def __init__(self, programs: Mapping[str, Program], bindings: Mapping[str, Any]) -> None:
        super().__init__()
        self._programs, self._bindings = programs, bindings

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._programs[name].evaluate(self._bindings)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._programs else default


def _message(validation: _Validation, bindings: Mapping[str, Any]) -> str:
    if validation.message_program is not None:
        try:
            said = validation.message_program.evaluate(bindings)
        except CelRuntimeError:
            said = ""
        if isinstance(said, str) and said.strip() and "\n" not in said:
            return said
    return validation.message or f"failed expression: {validation.expression}"


def compile_policy(
    spec: Json,
    object_type: Type = DYN,
    object_types: tuple[ObjectType, ...] = (),
) -> tuple[Policy, list[Problem]]:
    """A policy and what is wrong with it. With a type for `object`, expressions are held to it.

    What cannot be compiled is left out of the policy.
    """
    compiler = _Compiler(spec, object_type, object_types)
    variables: dict[str, Program] = {}
    for index, each in enumerate(spec.get("variables") or ()):
        path = f"spec.variables[{index}].expression"
        program = compiler.compile(each.get("expression"), path)
        if program is not None:
            variables[each["name"]] = program
            compiler.declare(each["name"], program.output_type)
    conditions = [
        compiler.compile(
            each.get("expression"), f"spec.matchConditions[{index}].expression", _TRUTH
        )
        for index, each in enumerate(spec.get("matchConditions") or ())
    ]
    validations = [
        compiler.validation(each, f"spec.validations[{index}]")
        for index, each in enumerate(spec.get("validations") or ())
    ]
    policy = Policy(
        variables,
        tuple(each for each in conditions if each is not None),
        tuple(each for each in validations if each is not None),
        spec.get("failurePolicy", "Fail") != "Ignore",
    )
    return policy, compiler.problems


class _Compiler:
    def __init__(self, spec: Json, object_type: Type, object_types: tuple[ObjectType, ...]) -> None:
        self.problems: list[Problem] = []
        self._types = (*REQUEST_TYPES, *object_types)
        self._variables: dict[str, Type] = {}
        self._names: dict[str, Type] = {
            "object": object_type,
            "oldObject": object_type,
            "request": named(REQUEST_TYPES[-1].name),
            "params": DYN,
            "namespaceObject": DYN,
            "variables": named(_VARIABLES),
        }
        if not spec.get("paramKind"):
            # Without parameters, expressions cannot refer to any.
            del self._names["params"]
        self._environment: Environment | None = None

    def declare(self, name: str, found: Type) -> None:
        """Let later expressions say `variables.name`."""
        self._variables[name] = found
        self._environment = None

    def compile(self, expression: Any, path: str, wanted: tuple[str, ...] = ()) -> Program | None:
        if not isinstance(expression, str) or not expression.strip():
            self.problems.append(required(path))
            return None
        if self._environment is None:
            variables = ObjectType(_VARIABLES, dict(self._variables))
            self._environment = kubernetes_environment(
                self._names, objects=(*self._types, variables)
            )
        try:
            program = compile_expression(expression, self._environment)
        except CelCompileError as error:
            self.problems.append(invalid(path, expression, f"compilation failed: {error}"))
            return None
        if wanted and program.output_type.name not in wanted:
            text = f"must evaluate to {wanted[0]}"
            self.problems.append(invalid(path, expression, text))
            return None
        return program

    def validation(self, declared: Json, path: str) -> _Validation | None:
        expression = declared.get("expression")
        program = self.compile(expression, f"{path}.expression", _TRUTH)
        message_program: Program | None = None
        if declared.get("messageExpression"):
            message_program = self.compile(
                declared["messageExpression"], f"{path}.messageExpression", _TEXT
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
