"""Arithmetic on columns: free functions on arrays, without plugin rules.

A sequence of columns may be a matrix, whose first axis is then the sequence. Integers are int64
and wrap; divisions of integers truncate toward zero, as everywhere in the reference. A function
leaves its arguments alone unless its docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

compiled: ModuleType | None
try:
    from kubesched.framework.engine import _compiled as compiled
except ImportError:  # installed without a compiler: everything works, some of it slower
    compiled = None

__all__ = [
    "balance",
    "balance_change",
    "compiled",
    "counted",
    "divide_toward_zero",
    "free_percent",
    "is_lacking",
    "least_allocated",
    "mean_rounded",
    "mean_toward_zero",
    "number_values",
    "used_percent",
    "weighted_sums",
]

_MOST_RESOURCES = 64  # that the compiled loops have room for

IntColumn = NDArray[np.int64]
IntMatrix = NDArray[np.int64]  # int64[resource, node]
Mask = NDArray[np.bool_]
Fractions = Sequence[NDArray[np.float64]] | NDArray[np.float64]


def is_lacking(allocatable: IntMatrix, allocated: IntMatrix, wanted: list[int]) -> bool:
    """Whether less is left of some resource on some node than wanted."""
    if compiled is not None and len(wanted) <= _MOST_RESOURCES:
        return bool(compiled.is_lacking(allocatable, allocated, wanted))
    return bool((allocatable - allocated < np.array(wanted)[:, np.newaxis]).any())


def least_allocated(
    allocatable: IntMatrix, allocated: IntMatrix, wanted: list[int], weights: list[int]
) -> IntColumn:
    """The weighted mean of the shares that are left, in percent.

    What a node has nothing of does not count there.
    """
    if compiled is not None and len(wanted) <= _MOST_RESOURCES:
        scores = np.empty(allocatable.shape[1], dtype=np.int64)
        compiled.least_allocated(allocatable, allocated, wanted, weights, scores)
        return scores
    divisor, counts = counted(allocatable)
    free = allocatable - allocated
    free -= np.array(wanted)[:, np.newaxis]
    return mean_toward_zero(*weighted_sums(free_percent(free, divisor), weights, counts))


def balance_change(allocatable: IntMatrix, allocated: IntMatrix, wanted: list[int]) -> IntColumn:
    """How much more alike the shares in use are with what is wanted than without.

    What a node has nothing of does not count there; see `balance`.
    """
    resources, nodes = allocatable.shape
    if compiled is not None and len(wanted) <= _MOST_RESOURCES:
        scores = np.empty(nodes, dtype=np.int64)
        compiled.balance_change(allocatable, allocated, wanted, scores)
        return scores
    if resources < 2:
        return np.zeros(nodes, dtype=np.int64)
    divisor, counts = counted(allocatable)
    shares = np.empty((resources, 2, nodes))
    np.true_divide(allocated, divisor, out=shares[:, 0])
    np.true_divide(allocated + np.array(wanted)[:, np.newaxis], divisor, out=shares[:, 1])
    np.clip(shares, 0.0, 1.0, out=shares)  # sums that wrapped are negative
    before, after = balance(shares, counts)
    change: IntColumn = after - before
    return change


def counted(allocatable: IntMatrix) -> tuple[IntMatrix, Sequence[Mask | None]]:
    """What to divide by, and per resource where it counts, None: everywhere."""
    if not allocatable.size or allocatable.min() > 0:
        return allocatable, [None] * len(allocatable)
    has_some = allocatable != 0
    return np.where(has_some, allocatable, 1), list(has_some)


def divide_toward_zero(numerator: IntColumn, divisor: IntColumn | int) -> IntColumn:
    """Divide in place: the numerator is overwritten. The divisor has no zeros."""
    lowest = divisor if isinstance(divisor, int) else divisor.min(initial=1)
    if numerator.size and (lowest < 0 or numerator.min() < 0):
        exact = numerator.copy()
        np.floor_divide(numerator, divisor, out=numerator)
        numerator += (numerator < 0) & (numerator * divisor != exact)
        return numerator
    return np.floor_divide(numerator, divisor, out=numerator)


def free_percent(free: IntColumn, divisor: IntColumn) -> IntColumn:
    """The share of what there is that is left, from 0 to 100. `free` is overwritten.

    `divisor` is what there is, with something else in place of zeros.
    """
    np.maximum(free, 0, out=free)
    free *= 100
    return _percentage(divide_toward_zero(free, divisor))


def used_percent(allocatable: IntColumn, requested: IntColumn, divisor: IntColumn) -> IntColumn:
    """The share that is taken, from 0 to 100; `divisor` as for `free_percent`."""
    share = np.minimum(requested, allocatable)
    share *= 100
    return _percentage(divide_toward_zero(share, divisor))


def _percentage(share: IntColumn) -> IntColumn:
    """Cut off in place what sums that wrapped put out of range."""
    return np.clip(share, 0, 100, out=share)


def weighted_sums(
    scores: Sequence[IntColumn] | IntColumn, weights: Sequence[int], counted: Sequence[Mask | None]
) -> tuple[IntColumn, IntColumn | int]:
    """The weighted sum of the scores, and the sum of the weights that counted.

    `counted[i]` tells for which rows score i counts, None: for all.
    """
    weighted = [
        score * weight if rows is None else score * weight * rows
        for score, weight, rows in zip(scores, weights, counted, strict=True)
    ]
    total = weighted[0]
    for score in weighted[1:]:
        total += score
    weight_sum: IntColumn | int = 0
    for weight, rows in zip(weights, counted, strict=True):
        weight_sum = weight_sum + (weight if rows is None else rows * np.int64(weight))
    return total, weight_sum


def mean_toward_zero(total: IntColumn, weight_sum: IntColumn | int) -> IntColumn:
    """Divide sums by their weights in place; 0 where nothing counted."""
    return divide_toward_zero(total, _at_least_one(weight_sum))


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
