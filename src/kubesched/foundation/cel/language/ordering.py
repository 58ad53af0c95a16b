"""Sorting values, and the least and greatest of a list."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.operations import compare

__all__ = ["sorted_by"]


def sorted_by(elements: Sequence[Value], keys: Sequence[Value]) -> list[Value]:
    """Return the elements sorted by their keys; the sort is stable.

    Raises:
        EvaluationError: the keys have different types, or a type without an order.
    """
    if not keys:
        return []
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    try:
        compare(keys[0], keys[0], "<")
    except EvaluationError:
        raise EvaluationError("list elements must be comparable") from None
    order = sorted(range(len(keys)), key=keys.__getitem__)
    return [elements[position] for position in order]
