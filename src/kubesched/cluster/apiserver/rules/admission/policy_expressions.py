"""Compilation of the expressions of a policy, and the variables that they can use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kubesched.cluster.apiserver.rules.admission.admission_review import REQUEST_TYPES, Review
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, invalid, required
from kubesched.foundation.cel import (
    CelCompileError,
    Environment,
    Program,
    compile_expression,
    kubernetes_environment,
)
from kubesched.foundation.cel.language.expression_types import DYN, ObjectType, Type, named

__all__ = ["BOOL_RESULT", "STRING_RESULT", "ExpressionCompiler", "make_bindings"]

Json = dict[str, Any]

_VARIABLES: Final = "kubernetes.variables"
STRING_RESULT: Final = ("string",)
BOOL_RESULT: Final = ("bool",)


def make_bindings(
    review: Review, params: Any, namespace: Json | None, variables: Mapping[str, Program]
) -> dict[str, Any]:
    """Return the variables of a policy's expressions for one write."""
    bindings: dict[str, Any] = {
        "object": review.shown(review.new),
        "oldObject": review.shown(review.old),
        "request": review.request(),
        "params": params,
        "namespaceObject": namespace,
    }
    bindings["variables"] = _Variables(variables, bindings)
    return bindings


class _Variables(dict[str, Any]):
    """The values of a policy's variables, computed on first use and cached."""

    def __init__(self, programs: Mapping[str, Program], bindings: Mapping[str, Any]) -> None:
        super().__init__()
        self._programs, self._bindings = programs, bindings

    def __missing__(self, name: str) -> Any:
        value = self[name] = self._programs[name].evaluate(self._bindings)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._programs else default


class ExpressionCompiler:
    """Compiles the expressions of one policy and collects their problems."""

    def __init__(
        self,
        spec: Json,
        object_type: Type = DYN,
        object_types: tuple[ObjectType, ...] = (),
        makes: Iterable[str] = (),
    ) -> None:
        self.problems: list[FieldProblem] = []
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
            # A policy without a parameter kind has no variable `params`.
            del self._names["params"]
        self._makes = tuple(makes)
        self._environment: Environment | None = None

    def declare(self, name: str, found: Type) -> None:
        """Declare a variable for later expressions (`variables.name`)."""
        self._variables[name] = found
        self._environment = None

    def compile(self, expression: Any, path: str, expected: tuple[str, ...] = ()) -> Program | None:
        """Compile an expression that must have one of the expected types.

        Returns None and adds a problem if that fails.
        """
        if not isinstance(expression, str) or not expression.strip():
            self.problems.append(required(path))
            return None
        if self._environment is None:
            variables = ObjectType(_VARIABLES, dict(self._variables))
            self._environment = kubernetes_environment(
                self._names, objects=(*self._types, variables), makes=self._makes
            )
        try:
            program = compile_expression(expression, self._environment)
        except CelCompileError as error:
            self.problems.append(invalid(path, expression, f"compilation failed: {error}"))
            return None
        if expected and program.output_type.name not in expected:
            text = f"must evaluate to {expected[0]}"
            self.problems.append(invalid(path, expression, text))
            return None
        return program

    def common_parts(self, spec: Json) -> tuple[dict[str, Program], tuple[Program, ...]]:
        """Compile the variables and the match conditions, which all policies have."""
        variables: dict[str, Program] = {}
        for index, each in enumerate(spec.get("variables") or ()):
            program = self.compile(each.get("expression"), f"spec.variables[{index}].expression")
            if program is not None:
                variables[each["name"]] = program
                self.declare(each["name"], program.output_type)
        conditions = [
            self.compile(
                each.get("expression"), f"spec.matchConditions[{index}].expression", BOOL_RESULT
            )
            for index, each in enumerate(spec.get("matchConditions") or ())
        ]
        return variables, tuple(each for each in conditions if each is not None)
