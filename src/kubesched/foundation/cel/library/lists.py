"""Helpers on lists: sums, extremes, positions, slices, sorting; and `sets`."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError, no_such_overload
from kubesched.foundation.cel.language.cel_values import Duration, UInt, Value
from kubesched.foundation.cel.language.declarations import Library, size_or_one
from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    parameter,
)
from kubesched.foundation.cel.language.operations import ARITHMETIC, bounded, compare, not_equal
from kubesched.foundation.cel.language.ordering import sorted_by

__all__ = ["LISTS"]

LISTS: Final = Library()
_T: Final = parameter("T")
_LIST: Final = list_of(_T)
_SUMMABLE: Final = ((INT, 0), (UINT, UInt(0)), (DOUBLE, 0.0), (DURATION, Duration(0)))
_COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
_MOST_INCLUDED: Final = 48
# A call, and making a list.
_NEW_LIST: Final = 11


def _traversal(arguments: tuple[Value, ...], _result: Value) -> int:
    """Return the cost of a traversal: one per element, plus a tenth of the length of texts."""
    elements = arguments[0]
    if not isinstance(elements, list | tuple):
        return -(-size_or_one(elements) // 10)
    return sum(1 + -(-len(each) // 10) if isinstance(each, str | bytes) else 1 for each in elements)


def _product(arguments: tuple[Value, ...], _result: Value) -> int:
    return 1 + size_or_one(arguments[0]) * size_or_one(arguments[1])


def _product_both_ways(arguments: tuple[Value, ...], _result: Value) -> int:
    return 1 + 2 * size_or_one(arguments[0]) * size_or_one(arguments[1])


def _self_compared(arguments: tuple[Value, ...], _result: Value) -> int:
    """Every element against every other, and a new list."""
    return _NEW_LIST + 2 * size_or_one(arguments[0]) ** 2


def _copied(_arguments: tuple[Value, ...], result: Value) -> int:
    """A new list of the size of the result."""
    return _NEW_LIST + size_or_one(result)


def _declare_sum(element: Type, zero: Value) -> None:
    @LISTS.method("sum", list_of(element), result=element, cost=_traversal)
    def _sum(elements: list[Value]) -> Value:
        total = zero
        for each in elements:
            total = ARITHMETIC["+"](total, each)
        return total


def _declare_order(element: Type) -> None:
    @LISTS.method("isSorted", list_of(element), result=BOOL, cost=_traversal)
    def _is_sorted(elements: list[Value]) -> bool:
        return all(compare(first, second, "<=") <= 0 for first, second in pairwise(elements))

    @LISTS.method("min", list_of(element), result=element, cost=_traversal)
    def _min(elements: list[Value]) -> Value:
        return _extreme("min", elements, 1)

    @LISTS.method("max", list_of(element), result=element, cost=_traversal)
    def _max(elements: list[Value]) -> Value:
        return _extreme("max", elements, -1)


def _extreme(name: str, elements: list[Value], worse: int) -> Value:
    if not elements:
        raise EvaluationError(f"{name} called on empty list")
    best = elements[0]
    for each in elements[1:]:
        if compare(best, each, "<") == worse:
            best = each
    return best


for _element, _zero in _SUMMABLE:
    _declare_sum(_element, _zero)
for _element in _COMPARABLE:
    _declare_order(_element)


@LISTS.method("indexOf", _LIST, _T, result=INT, cost=_traversal)
def _index_of(elements: list[Value], wanted: Value) -> int:
    for position, each in enumerate(elements):
        if not not_equal(each, wanted):
            return position
    return -1


@LISTS.method("lastIndexOf", _LIST, _T, result=INT, cost=_traversal)
def _last_index_of(elements: list[Value], wanted: Value) -> int:
    for position in range(len(elements) - 1, -1, -1):
        if not not_equal(elements[position], wanted):
            return position
    return -1


@LISTS.method("includes", DYN, DYN, result=BOOL, cost=_traversal)
def _includes(target: Value, wanted: Value) -> bool:
    if not isinstance(target, list | tuple):
        return not not_equal(target, wanted)
    if len(target) > _MOST_INCLUDED:
        raise EvaluationError(
            f"list size {len(target)} exceeds maximum supported size {_MOST_INCLUDED}"
        )
    return any(not not_equal(each, wanted) for each in target)


@LISTS.method("slice", _LIST, INT, INT, result=_LIST, cost=_copied)
def _slice(elements: list[Value], start: int, end: int) -> list[Value]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(elements):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return list(elements[start:end])


@LISTS.method("flatten", list_of(_LIST), result=_LIST, cost=_copied)
def _flatten_once(elements: list[Value]) -> list[Value]:
    return _flatten(elements, 1)


@LISTS.method("flatten", list_of(DYN), INT, result=list_of(DYN), cost=_copied)
def _flatten(elements: list[Value], depth: int) -> list[Value]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    for each in elements:
        if depth and isinstance(each, list | tuple):
            flat.extend(_flatten(list(each), depth - 1))
        else:
            flat.append(each)
        bounded(len(flat))
    return flat


@LISTS.method("sort", _LIST, result=_LIST, cost=_self_compared)
def _sort(elements: list[Value]) -> list[Value]:
    return sorted_by(elements, elements)


@LISTS.method("reverse", _LIST, result=_LIST, cost=_copied)
def _reverse(elements: list[Value]) -> list[Value]:
    return list(reversed(elements))


@LISTS.method("distinct", _LIST, result=_LIST, cost=_self_compared)
def _distinct(elements: list[Value]) -> list[Value]:
    if all(type(each) is str for each in elements):
        return list(dict.fromkeys(elements))
    kept: list[Value] = []
    for each in elements:
        if all(not_equal(each, other) for other in kept):
            kept.append(each)
    return kept


@LISTS.function("lists.range", INT, result=list_of(INT), cost=_copied)
def _range(count: int) -> list[int]:
    if count < 0:
        return []
    bounded(count)
    return list(range(count))


@LISTS.function("sets.contains", _LIST, _LIST, result=BOOL, cost=_product)
def _contains(elements: list[Value], others: list[Value]) -> bool:
    _lists(elements, others)
    return all(_has(elements, each) for each in others)


@LISTS.function("sets.equivalent", _LIST, _LIST, result=BOOL, cost=_product_both_ways)
def _equivalent(elements: list[Value], others: list[Value]) -> bool:
    return _contains(elements, others) and _contains(others, elements)


@LISTS.function("sets.intersects", _LIST, _LIST, result=BOOL, cost=_product)
def _intersects(elements: list[Value], others: list[Value]) -> bool:
    _lists(elements, others)
    return any(_has(elements, each) for each in others)


def _lists(*values: Value) -> None:
    if any(not isinstance(value, list | tuple) for value in values):
        raise no_such_overload()


def _has(elements: list[Value], wanted: Value) -> bool:
    return any(not not_equal(each, wanted) for each in elements)
