"""`&&`, `||`, `!` and `?:` as closures.

The result of `&&` and `||` does not depend on the order of their terms: an error, or a value
that is not a bool, counts only if no other term determines the result. The first error is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.foundation.cel.language.cel_errors import EvaluationError, no_such_overload

if TYPE_CHECKING:
    from kubesched.foundation.cel.language.cel_values import Value
    from kubesched.foundation.cel.language.closures import Frame, Run

__all__ = ["all_of", "any_of", "choice", "negation"]


def all_of(terms: tuple[Run, ...]) -> Run:
    """True if every term is; false if any is."""
    return _chain(terms, settles=False)


def any_of(terms: tuple[Run, ...]) -> Run:
    """True if any term is true; false if every term is false."""
    return _chain(terms, settles=True)


def _chain(terms: tuple[Run, ...], *, settles: bool) -> Run:
    otherwise = not settles

    def run(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for term in terms:
            try:
                value: object = term(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is settles:
                return settles
            if value is not otherwise:
                failure = failure or no_such_overload()
        if failure is not None:
            raise failure
        return otherwise

    return run


def choice(condition: Run, positive: Run, negative: Run) -> Run:
    """`condition ? positive : negative`; only one of the two branches is evaluated."""

    def run(frame: Frame) -> Value:
        decided = condition(frame)
        if decided is True:
            return positive(frame)
        if decided is False:
            return negative(frame)
        raise no_such_overload()

    return run


def negation(operand: Run) -> Run:
    """`!operand`."""

    def run(frame: Frame) -> bool:
        value = operand(frame)
        if value is True:
            return False
        if value is False:
            return True
        raise no_such_overload()

    return run
