"""The probability that a load, as a fraction of the capacity, stays below a threshold.

The load is modelled as a beta distribution with the measured mean and deviation. NumPy has no
regularised incomplete beta function, so it is computed by its continued fraction (Numerical
Recipes, 6.4). There are functions for arrays and for single values, because NumPy would take twenty
times as long for a single value.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "incomplete_beta_of_one",
    "probability_below",
    "probability_below_of_one",
    "regularized_incomplete_beta",
]

_STEPS: Final = 200
_TINY: Final = 1e-300
_PRECISION: Final = 1e-12

Floats = NDArray[np.float64]

_log_gamma: Final = np.frompyfunc(math.lgamma, 1, 1)


def regularized_incomplete_beta(a: Floats, b: Floats, x: Floats) -> Floats:
    """Return I_x(a, b) for a, b > 0 and x in [0, 1]."""
    # The fraction converges fast for x below the mean. Above the mean, that of 1 - x is used.
    is_swapped = x >= (a + 1) / (a + b + 2)
    a, b = np.where(is_swapped, b, a), np.where(is_swapped, a, b)
    y = np.where(is_swapped, 1 - x, x)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = (
            np.asarray(_log_gamma(a + b) - _log_gamma(a) - _log_gamma(b), dtype=np.float64)
            + a * np.log(y)
            + b * np.log1p(-y)
        )
        value = np.exp(logarithm) * _fraction(a, b, y) / a
    value = np.where(is_swapped, 1 - value, value)
    return np.where(x <= 0, 0.0, np.where(x >= 1, 1.0, value))


def _fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the continued fraction by Lentz's method."""
    c = np.ones_like(x)
    d = 1 / _nonzero(1 - (a + b) * x / (a + 1))
    value = d.copy()
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _nonzero(1 + even * d), _nonzero(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _nonzero(1 + odd * d), _nonzero(1 + odd / c)
        step = d * c
        value *= step
        if not (np.abs(step - 1) > _PRECISION).any():
            break
    return value


def _nonzero(value: Floats) -> Floats:
    value[np.abs(value) < _TINY] = _TINY
    return value


def probability_below(mean: Floats, deviation: Floats, threshold: Floats) -> Floats:
    """Return the probability that the load is at most the threshold."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = mean * (1 - mean) / deviation**2 - 1
    is_spread = (deviation > 0) & (mean > 0) & (mean < 1) & (size > 0)
    certain = np.where((mean <= 0) | (mean <= threshold), 1.0, 0.0)
    if not is_spread.any():
        return certain
    a = np.where(is_spread, mean * size, 1.0)
    b = np.where(is_spread, (1 - mean) * size, 1.0)
    return np.where(is_spread, regularized_incomplete_beta(a, b, threshold), certain)


def incomplete_beta_of_one(a: float, b: float, x: float) -> float:
    """Return I_x(a, b) for a, b > 0 and x in [0, 1]."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x >= (a + 1) / (a + b + 2):
        return 1 - _below_mean(b, a, 1 - x)
    return _below_mean(a, b, x)


def _below_mean(a: float, b: float, x: float) -> float:
    logarithm = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(logarithm) * _fraction_of_one(a, b, x) / a


def _fraction_of_one(a: float, b: float, x: float) -> float:
    c = 1.0
    d = value = 1 / _nonzero_of_one(1 - (a + b) * x / (a + 1))
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1 / _nonzero_of_one(1 + even * d), _nonzero_of_one(1 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1 / _nonzero_of_one(1 + odd * d), _nonzero_of_one(1 + odd / c)
        value *= d * c
        if abs(d * c - 1) <= _PRECISION:
            break
    return value


def _nonzero_of_one(value: float) -> float:
    return value if abs(value) >= _TINY else _TINY


def probability_below_of_one(mean: float, deviation: float, threshold: float) -> float:
    """Return the probability that the load is at most the threshold."""
    if deviation > 0 and 0 < mean < 1:
        size = mean * (1 - mean) / deviation**2 - 1
        if size > 0:
            return incomplete_beta_of_one(mean * size, (1 - mean) * size, threshold)
    return 1.0 if mean <= 0 or mean <= threshold else 0.0
