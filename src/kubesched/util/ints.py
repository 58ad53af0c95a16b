"""Integer arithmetic where Go's rules differ from Python's.

Go divides toward zero, rounds halves away from zero, and wraps at 64 bits.
"""

from __future__ import annotations

import math

__all__ = [
    "MAX_INT64",
    "MIN_INT64",
    "add_int64",
    "div_trunc",
    "round_half_away",
    "whole_number",
    "wrap_int64",
]

MAX_INT64 = (1 << 63) - 1
MIN_INT64 = -(1 << 63)

# Of no number that fits into 64 bits, sign left out, there are more.
_MOST_DIGITS = 19


def add_int64(first: int, second: int) -> int:
    """Add as a 64-bit register does."""
    total = first + second
    return total if MIN_INT64 <= total <= MAX_INT64 else wrap_int64(total)


def div_trunc(numerator: int, denominator: int) -> int:
    """Divide toward zero, exactly, for integers of any size."""
    quotient = numerator // denominator
    # Floor and truncation differ where the exact quotient is negative and not whole.
    if quotient < 0 and quotient * denominator != numerator:
        quotient += 1
    return quotient


def whole_number(text: str) -> int | None:
    """The number that a few plain digits stand for; None for every other text.

    What `str.isdigit` takes for a digit `int` need not, and it refuses texts of thousands.
    """
    plain = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if plain else None


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero."""
    whole = math.trunc(value)
    # The difference is exact, where adding 0.5 first would round.
    if abs(value - whole) >= 0.5:
        whole += 1 if value > 0 else -1
    return whole


def wrap_int64(value: int) -> int:
    """Reduce to the range of int64 the way a 64-bit register overflows."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
