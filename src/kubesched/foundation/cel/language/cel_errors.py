"""Errors of expressions, at compile time and at run time."""

from __future__ import annotations

from typing import Final

from kubesched.errors import KubeschedError

__all__ = [
    "NO_SUCH_OVERLOAD",
    "CelCompileError",
    "CelError",
    "CelRuntimeError",
    "CostLimitError",
    "EvaluationError",
    "ExpressionSizeError",
    "no_such_overload",
]

NO_SUCH_OVERLOAD: Final = "no such overload"


class CelError(KubeschedError):
    """An expression that cannot be compiled, or whose evaluation failed."""


class CelCompileError(CelError):
    """The expression is not valid in its environment; nothing was evaluated."""


class ExpressionSizeError(CelCompileError):
    """The expression is too long or nests too deep."""


class CelRuntimeError(CelError):
    """The expression is valid, but has no value for this input."""


class EvaluationError(CelRuntimeError):
    """An error that is a value of the language: `&&`, `||`, `all` and `exists` may absorb it."""


class CostLimitError(CelRuntimeError):
    """The evaluation exceeded its cost limit. No operator absorbs this error."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


def no_such_overload() -> EvaluationError:
    """Return the error for a value of a type that the operation does not accept."""
    return EvaluationError(NO_SUCH_OVERLOAD)
