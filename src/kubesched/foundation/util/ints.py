"""Integer arithmetic where Go's rules differ from Python's.

Go divides toward zero and rounds halves away from zero. `kubesched.api.int64` has the wrapping
arithmetic of 64-bit amounts.
"""

from __future__ import annotations

import math

__all__ = [
    "div_trunc",
    "round_half_away",
    "whole_number",
]

# The largest 64-bit integer has nineteen digits.
_MOST_DIGITS = 19


def div_trunc(numerator: int, denominator: int) -> int:
    """Divide toward zero, exactly, for integers of any size."""
    quotient = numerator // denominator
    # Floor and truncation differ where the exact quotient is negative and not whole.
    if quotient < 0 and quotient * denominator != numerator:
        quotient += 1
    return quotient


def whole_number(text: str) -> int | None:
    """Return the value of a text of few plain digits; None for every other text.

    `str.isdigit` accepts characters that `int` does not, and `int` rejects texts of thousands of
    digits.
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
