"""Evaluate an expression in an environment with a few variables."""

from __future__ import annotations

from typing import Any

from kubesched.foundation.cel import CelCompileError, CelRuntimeError, compile_expression
from kubesched.foundation.cel.kubernetes import kubernetes_environment
from kubesched.foundation.cel.language.expression_types import DYN, INT, STRING, list_of, map_of

__all__ = ["ENVIRONMENT", "VALUES", "evaluate", "outcome"]

ENVIRONMENT = kubernetes_environment(
    {"x": DYN, "number": INT, "text": STRING, "names": list_of(STRING), "held": map_of(STRING, INT)}
)
VALUES: dict[str, Any] = {
    "x": {"a": {"b": [1, "two", 3.5, None, True]}, "text": "t", "number": 7},
    "number": 12,
    "text": "hello",
    "names": ["ann", "bob", "cy"],
    "held": {"one": 1, "two": 2},
}


def evaluate(expression: str) -> Any:
    return compile_expression(expression, ENVIRONMENT).evaluate(VALUES)


def outcome(expression: str) -> Any:
    """The value, or `runtime: …`, or `compile: …` with the words of the first problem."""
    try:
        return evaluate(expression)
    except CelRuntimeError as error:
        return f"runtime: {error}"
    except CelCompileError as error:
        return f"compile: {str(error).partition(chr(10))[0].split(': ', 2)[-1]}"
