"""Arithmetic on columns: functions on arrays, without plugin rules.

A sequence of columns may be a matrix, with the sequence as its first axis. Integers are int64 and
wrap; integer division truncates toward zero, as in the reference. A function does not modify its
arguments, unless its docstring says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray


def _usable(loops: ModuleType) -> ModuleType | None:
    """Return the compiled loops; None if they were built from an older version of the file."""
    return loops if getattr(loops, "REVISION", 0) == _REVISION else None


_REVISION = 2  # of _compiled.c; it changes when a function is added or changes its arguments
compiled: ModuleType | None
try:
    from kubesched.framework.engine import _compiled
except ImportError:  # installed without a compiler: NumPy alone gives the same results, slower
    compiled = None
else:
    compiled = _usable(_compiled)

__all__ = [
    "add_weighted",
    "balance",
    "balance_change",
    "choose_highest",
    "compiled",
    "counted",
    "divide_toward_zero",
    "free_percent",
    "is_lacking",
    "least_allocated",
    "mean_rounded",
    "mean_toward_zero",
    "number_values",
    "spread_shares",
    "used_percent",
    "weighted_sums",
]

_MOST_RESOURCES = 64  # the limit of the compiled loops
_LARGEST_IN_TABLE = 512

IntColumn = NDArray[np.int64]
IntMatrix = NDArray[np.int64]  # int64[resource, node]
Mask = NDArray[np.bool_]
Fractions = Sequence[NDArray[np.float64]] | NDArray[np.float64]


def is_lacking(allocatable: IntMatrix, allocated: IntMatrix, wanted: list[int]) -> bool:
    """Whether some node has less of a resource left than is requested."""
    if compiled is not None and len(wanted) <= _MOST_RESOURCES:
        return bool(compiled.is_lacking(allocatable, allocated, wanted))
    return bool((allocatable - allocated < np.array(wanted)[:, np.newaxis]).any())


def least_allocated(
    allocatable: IntMatrix, allocated: IntMatrix, wanted: list[int], weights: list[int]
) -> IntColumn:
    """Return the weighted mean of the free shares, in percent.

    A resource of which a node has 0 does not count there.
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
    """Return the change in balance of the resource fractions when the requests are added.

    Resources of which the node has 0 are ignored on that node; see `balance`.
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
    np.clip(shares, 0.0, 1.0, out=shares)  # wrapped sums are negative
    before, after = balance(shares, counts)
    change: IntColumn = after - before
    return change


def choose_highest(values: NDArray[np.signedinteger], draw: Callable[[int], int]) -> int:
    """Return the index of a highest value; `draw(n)` chooses one of n equal values."""
    first = values.argmax()
    is_highest = values == values[first]
    count = int(np.count_nonzero(is_highest))
    if count == 1:
        return int(first)
    place = draw(count)
    if compiled is not None:
        return int(compiled.true_place(is_highest, place))
    return int(is_highest.nonzero()[0][place])


def spread_shares(scores: IntColumn) -> IntColumn:
    """Scale scores from 0 (lowest) to 100 (highest), truncated; all are 0 if they are equal."""
    if not len(scores):
        return scores
    if compiled is not None:
        shares = np.empty_like(scores)
        if compiled.spread_shares(scores, shares):
            return shares
    lowest = int(np.minimum.reduce(scores))
    spread = int(np.maximum.reduce(scores)) - lowest
    if not spread:
        return np.zeros_like(scores)
    if spread > _LARGEST_IN_TABLE:
        return _shares(scores - lowest, spread)
    return _shares_up_to(spread).take(scores - lowest)


def _shares(above: IntColumn, spread: int) -> IntColumn:
    # The order of these operations affects the last digit; it is the reference's.
    share = above.astype(np.float64)
    share /= spread
    share *= 100.0
    return share.astype(np.int64)


@lru_cache(maxsize=1024)
def _shares_up_to(spread: int) -> IntColumn:
    """The shares of all scores up to `spread`.

    A table lookup is cheaper than a division.
    """
    return _shares(np.arange(spread + 1, dtype=np.int64), spread)


def add_weighted(total: IntColumn, scores: IntColumn, weight: int, most: int) -> bool:
    """Add weighted scores to the total, in place. False if a score is not in 0..most.

    The total is then unspecified.
    """
    if compiled is not None:
        return bool(compiled.add_weighted(total, scores, weight, most))
    # As unsigned numbers, negative scores are large, so one comparison checks both bounds.
    if np.count_nonzero(scores.view(np.uint64) > most):
        return False
    total += scores if weight == 1 else scores * weight
    return True


def counted(allocatable: IntMatrix) -> tuple[IntMatrix, Sequence[Mask | None]]:
    """Return divisors without zeros, and where each resource counts."""
    if not allocatable.size or allocatable.min() > 0:
        return allocatable, [None] * len(allocatable)
    has_some = allocatable != 0
    return np.where(has_some, allocatable, 1), list(has_some)


def divide_toward_zero(numerator: IntColumn, divisor: IntColumn | int) -> IntColumn:
    """Divide in place: the numerator is overwritten. The divisor must have no zeros."""
    lowest = divisor if isinstance(divisor, int) else divisor.min(initial=1)
    if numerator.size and (lowest < 0 or numerator.min() < 0):
        exact = numerator.copy()
        np.floor_divide(numerator, divisor, out=numerator)
        numerator += (numerator < 0) & (numerator * divisor != exact)
        return numerator
    return np.floor_divide(numerator, divisor, out=numerator)


def free_percent(free: IntColumn, divisor: IntColumn) -> IntColumn:
    """Return the free share from 0 to 100. `free` is overwritten.

    `divisor` is the allocatable amount, with other values in place of zeros.
    """
    np.maximum(free, 0, out=free)
    free *= 100
    return _percentage(divide_toward_zero(free, divisor))


def used_percent(allocatable: IntColumn, requested: IntColumn, divisor: IntColumn) -> IntColumn:
    """Return the used share from 0 to 100; `divisor` as for `free_percent`."""
    share = np.minimum(requested, allocatable)
    share *= 100
    return _percentage(divide_toward_zero(share, divisor))


def _percentage(share: IntColumn) -> IntColumn:
    """Clip shares in place that wrapped sums put out of range."""
    return np.clip(share, 0, 100, out=share)


def weighted_sums(
    scores: Sequence[IntColumn] | IntColumn, weights: Sequence[int], counted: Sequence[Mask | None]
) -> tuple[IntColumn, IntColumn | int]:
    """Return the weighted sum of the scores, and the sum of the weights that counted.

    `counted[i]` is the mask of the rows where score i counts; None: all rows.
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
    """Divide sums by their weights in place; 0 where nothing counts."""
    return divide_toward_zero(total, _at_least_one(weight_sum))


def mean_rounded(total: IntColumn, weight_sum: IntColumn | int) -> IntColumn:
    """Divide sums by their weights, rounding halves away from zero.

    The mean is 0 where nothing counts.
    """
    mean = total / _at_least_one(weight_sum)
    whole = np.trunc(mean)
    # The difference is exact; adding 0.5 first would round.
    whole += np.copysign(np.abs(mean - whole) >= 0.5, mean)
    return whole.astype(np.int64)


def balance(fractions: Fractions, counted: Sequence[Mask | None]) -> IntColumn:
    """Return 100 × (1 - standard deviation) of the fractions, truncated.

    There are at least two fractions, of equal shape; the last axis is the row. `counted[i]` is
    the mask of the rows where fraction i counts; None: all rows. The operations and their order
    are the reference's, because the result is truncated.
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
    """Number the distinct values other than 0, starting at 1; 0 stays 0."""
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
    """`_deviation`, where each row has its own number of fractions."""
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
