"""Go's 64-bit integers, in which the reference stores amounts and counters."""

from __future__ import annotations

__all__ = ["MAX_INT64", "MIN_INT64", "add_int64", "wrap_int64"]

MAX_INT64 = (1 << 63) - 1
MIN_INT64 = -(1 << 63)


def add_int64(first: int, second: int) -> int:
    """Add two integers; the sum wraps like a 64-bit register."""
    total = first + second
    return total if MIN_INT64 <= total <= MAX_INT64 else wrap_int64(total)


def wrap_int64(value: int) -> int:
    """Reduce a value to the range of int64, as an overflow does."""
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)
