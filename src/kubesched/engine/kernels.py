"""Arithmetic on columns: free functions on arrays, without plugin rules.

A sequence of columns may be a matrix, whose first axis is then the sequence. Integers are int64
and wrap; divisions of integers truncate toward zero, as everywhere in the reference. A function
leaves its arguments alone unless its docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "balance",
    "divide_toward_zero",
    "free_percent",
    "mean_rounded",
    "mean_toward_zero",
    "number_values",
    "used_percent",
    "weighted_sums",
]

IntColumn = NDArray[np.int64]
Mask = NDArray[np.bool_]
Fractions = Sequence[NDArray[np.float64]] | NDArray[np.float64]


def divide_toward_zero(
    numerator: IntColumn, divisor: IntColumn | int, *, may_be_negative: bool = True
) -> IntColumn:
    """Divide in place: the numerator is overwritten. The divisor has no zeros."""
    if may_be_negative and numerator.size and numerator.min() < 0:
        exact = numerator.copy()
        np.floor_divide(numerator, divisor, out=numerator)
        numerator += (numerator < 0) & (numerator * divisor != exact)
        return numerator
    return np.floor_divide(numerator, divisor, out=numerator)


def free_percent(free: IntColumn, divisor: IntColumn, *, may_overflow: bool = True) -> IntColumn:
    """The share of what there is that is left, 0 where it is negative. `free` is overwritten.

    `divisor` is what there is, with something else in place of zeros. Without `may_overflow` a
    hundred times of that is an int64.
    """
    np.maximum(free, 0, out=free)
    free *= 100
    return divide_toward_zero(free, divisor, may_be_negative=may_overflow)


def used_percent(allocatable: IntColumn, requested: IntColumn, divisor: IntColumn) -> IntColumn:
    """The share that is taken, at most 100; `divisor` as for `free_percent`."""
    share = np.minimum(requested, allocatable)
    share *= 100
    return divide_toward_zero(share, divisor)


def weighted_sums(
    scores: Sequence[IntColumn] | IntColumn, weights: Sequence[int], counted: Sequence[Mask | None]
) -> tuple[IntColumn, IntColumn | int]:
    """The weighted sum of the scores, and the sum of the weights that counted.

    `counted[i]` tells for which rows score i counts, None: for all. Where it does not count
    the score must be 0.
    """
    weighted = [
        score if weight == 1 else score * weight
        for score, weight in zip(scores, weights, strict=True)
    ]
    total = weighted[0] + weighted[1] if len(weighted) > 1 else weighted[0].copy()
    for score in weighted[2:]:
        total += score
    weight_sum: IntColumn | int = 0
    for weight, rows in zip(weights, counted, strict=True):
        weight_sum = weight_sum + (weight if rows is None else rows * np.int64(weight))
    return total, weight_sum


def mean_toward_zero(
    total: IntColumn, weight_sum: IntColumn | int, *, may_be_negative: bool = True
) -> IntColumn:
    """Divide sums by their weights in place; 0 where nothing counted."""
    divisor = _at_least_one(weight_sum)
    return divide_toward_zero(total, divisor, may_be_negative=may_be_negative)


def mean_rounded(total: IntColumn, weight_sum: IntColumn | int) -> IntColumn:
    """Divide sums by their weights and round halves away from zero; 0 where nothing counted."""
    mean = total / _at_least_one(weight_sum)
    whole = np.trunc(mean)
    # The difference is exact, where adding 0.5 first would round.
    whole += np.copysign(np.abs(mean - whole) >= 0.5, mean)
    return whole.astype(np.int64)


def balance(fractions: Fractions, counted: Sequence[Mask | None]) -> IntColumn:
    """How alike the fractions of a row are: 100 × (1 - standard deviation), truncated.

    There are at least two, of any equal shape whose last axis are rows. `counted[i]` tells for
    which rows fraction i counts, None: for all. The operations and their order are the
    reference's, because the result is truncated.
    """
    if any(rows is not None for rows in counted):
        deviation = _deviation_of_some(fractions, counted)
    elif len(fractions) == 2:
        deviation = fractions[0] - fractions[1]
        deviation *= 0.5
        np.abs(deviation, out=deviation)
    else:
        deviation = _deviation(fractions)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= 100.0
    return deviation.astype(np.int64)


def number_values(
    values: NDArray[np.unsignedinteger],
) -> tuple[NDArray[np.unsignedinteger], list[int]]:
    """Number the distinct values other than 0 from 1 on; 0 stays 0."""
    if values.dtype.itemsize <= 2:
        distinct = np.flatnonzero(np.bincount(values))
        if len(distinct) and distinct[0] == 0:
            distinct = distinct[1:]
        if not len(distinct):
            return np.zeros_like(values), []
        numbers = np.zeros(distinct[-1] + 1, dtype=values.dtype)
        numbers[distinct] = np.arange(1, len(distinct) + 1)
        return numbers.take(values), distinct.tolist()
    hit = np.flatnonzero(values)
    distinct, inverse = np.unique(values[hit], return_inverse=True)
    codes = np.zeros(len(values), dtype=np.uint32)
    codes[hit] = inverse + 1
    return codes, distinct.tolist()


def _at_least_one(number: IntColumn | int) -> IntColumn | int:
    return max(number, 1) if isinstance(number, int) else np.maximum(number, 1)


def _deviation(
    fractions: Sequence[NDArray[np.float64]] | NDArray[np.float64],
) -> NDArray[np.float64]:
    mean = fractions[0].copy()
    for fraction in fractions[1:]:
        mean += fraction
    mean /= len(fractions)
    total = np.zeros_like(mean)
    for fraction in fractions:
        distance = fraction - mean
        distance *= distance
        total += distance
    total /= len(fractions)
    return np.sqrt(total, out=total)


def _deviation_of_some(fractions: Fractions, counted: Sequence[Mask | None]) -> NDArray[np.float64]:
    """As `_deviation`, but each row has its own number of fractions."""
    shape = fractions[0].shape
    masks = [np.broadcast_to(True if mask is None else mask, shape) for mask in counted]
    count = np.zeros(shape, dtype=np.int64)
    mean, total, first, last = (np.zeros(shape) for _ in range(4))
    for fraction, mask in zip(fractions, masks, strict=True):
        np.copyto(first, fraction, where=mask & (count == 0))
        np.copyto(last, fraction, where=mask)
        np.add(mean, fraction, out=mean, where=mask)
        count += mask
    number = np.maximum(count, 1)
    mean /= number
    for fraction, mask in zip(fractions, masks, strict=True):
        distance = fraction - mean
        distance *= distance
        np.add(total, distance, out=total, where=mask)
    total /= number
    deviation = np.sqrt(total, out=total)
    np.copyto(deviation, np.abs((first - last) / 2), where=count == 2)
    deviation[count < 2] = 0.0
    return deviation
