"""The random numbers of the published runs.

An additive lagged Fibonacci generator over 64 bits with lags 607 and 273, which many programs used.
Its initial state comes from a seed and a constant table. The table is the state of the recurrence
after very many steps, so it is computed here instead of being copied.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["Generator"]

_LENGTH, _TAP = 607, 273
_FEED = _LENGTH - _TAP
_MASK_63 = (1 << 63) - 1
_MASK_64 = (1 << 64) - 1
_WARM_UP_STEPS = 7_800_000_000_000  # after which the state is the constant table


class Generator:
    """Random numbers of one seed, in order."""

    def __init__(self, seed: int) -> None:
        steps = _congruential(seed)
        table = _table()
        self._state = [
            ((next(steps) << 40) ^ (next(steps) << 20) ^ next(steps) ^ constant) & _MASK_64
            for constant in table
        ]
        self._tap, self._feed = 0, _FEED

    def next63(self) -> int:
        """The next draw of 63 bits."""
        state = self._state
        self._tap = (self._tap or _LENGTH) - 1
        self._feed = (self._feed or _LENGTH) - 1
        drawn = state[self._feed] = (state[self._feed] + state[self._tap]) & _MASK_64
        return drawn & _MASK_63

    def below(self, bound: int) -> int:
        """A number below the bound, for drawing pods and permutations."""
        drawn = self.next63() >> 32
        if bound & (bound - 1) == 0:
            return drawn & (bound - 1)
        largest = (1 << 31) - 1 - (1 << 31) % bound
        while drawn > largest:
            drawn = self.next63() >> 32
        return drawn % bound

    def below_for_shuffle(self, bound: int) -> int:
        """A number below the bound, as shuffles draw it."""
        wide = (self.next63() >> 31) * bound
        if wide % (1 << 32) < bound:
            threshold = ((1 << 32) - bound) % bound
            while wide % (1 << 32) < threshold:
                wide = (self.next63() >> 31) * bound
        return wide >> 32


def _congruential(seed: int) -> Iterator[int]:
    number = seed
    for step in range(20 + 3 * _LENGTH):
        number = 48271 * number % ((1 << 31) - 1)
        if step >= 20:
            yield number


@functools.cache
def _table() -> tuple[int, ...]:
    """Return the constant table: the recurrence from seed 1 after very many steps.

    Its outputs obey y[j] = y[j - 607] + y[j - 273], so y[N + i] is a sum of the first 607 with the
    coefficients of z^(N + i) modulo z^607 - z^334 - 1.
    """
    steps = _congruential(1)
    cells = [(next(steps) << 20) ^ (next(steps) << 10) ^ next(steps) for _ in range(_LENGTH)]
    before = np.array([cells[(_FEED - 1 - j) % _LENGTH] for j in range(_LENGTH)], dtype=np.uint64)
    power = _power_of_z(_WARM_UP_STEPS)
    table = [0] * _LENGTH
    for j in range(_LENGTH):
        # y[N - 607 + j], counted from the 607 values before step 0.
        value = int((power * before).sum(dtype=np.uint64))
        table[(_FEED - 1 - (_WARM_UP_STEPS - _LENGTH + j)) % _LENGTH] = value
        power = _times_z(power)
    return tuple(table)


def _power_of_z(exponent: int) -> NDArray[np.uint64]:
    result = np.zeros(_LENGTH, dtype=np.uint64)
    result[0] = 1
    for bit in bin(exponent)[2:]:
        result = _reduced(_product(result, result))
        if bit == "1":
            result = _times_z(result)
    return result


def _times_z(power: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _reduced(np.concatenate((np.zeros(1, dtype=np.uint64), power)))


def _product(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> NDArray[np.uint64]:
    product = np.zeros(2 * _LENGTH - 1, dtype=np.uint64)
    for place in np.flatnonzero(left).tolist():
        product[place : place + _LENGTH] += left[place : place + 1] * right
    return product


def _reduced(product: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Reduce modulo z^607 = z^334 + 1, from the highest power, in steps as large as possible."""
    end = len(product)
    while end > _LENGTH:
        start = max(_LENGTH, end - _TAP)
        high = product[start:end].copy()
        product[start - _LENGTH : end - _LENGTH] += high
        product[start - _LENGTH + _FEED : end - _LENGTH + _FEED] += high
        end = start
    return product[:_LENGTH]
