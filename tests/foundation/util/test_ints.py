from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.int64 import MAX_INT64, MIN_INT64, wrap_int64
from kubesched.foundation.util.ints import div_trunc, round_half_away


@pytest.mark.parametrize(
    ("numerator", "denominator", "want"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (6, -3, -2), (0, -5, 0), (1, -100, 0)],
)
def test_division_truncates_toward_zero(numerator: int, denominator: int, want: int) -> None:
    assert div_trunc(numerator, denominator) == want


@given(st.integers(), st.integers().filter(bool))
def test_division_is_the_exact_quotient_without_its_fraction(a: int, b: int) -> None:
    with localcontext() as context:
        context.prec = 200
        exact = (Decimal(a) / Decimal(b)).to_integral_value(ROUND_DOWN)
    assert div_trunc(a, b) == int(exact)


@given(st.integers(), st.integers().filter(bool))
def test_division_leaves_a_remainder_with_the_sign_of_the_numerator(a: int, b: int) -> None:
    remainder = a - div_trunc(a, b) * b
    assert abs(remainder) < abs(b)
    assert remainder == 0 or (remainder < 0) == (a < 0)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (-0.5, -1),
        (-2.5, -3),
        (0.49999999999999994, 0),
        (4503599627370497.5, 4503599627370498),
        (1e300, int(1e300)),
        (-0.0, 0),
    ],
)
def test_halves_round_away_from_zero(value: float, want: int) -> None:
    assert round_half_away(value) == want


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_agrees_with_decimal_arithmetic(value: float) -> None:
    with localcontext() as context:
        context.prec = 1_100
        assert round_half_away(value) == int(Decimal(value).to_integral_value(ROUND_HALF_UP))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_rounding_nan_or_infinity_is_an_error(value: float) -> None:
    with pytest.raises((ValueError, OverflowError)):
        round_half_away(value)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (MAX_INT64, MAX_INT64),
        (MAX_INT64 + 1, MIN_INT64),
        (MIN_INT64 - 1, MAX_INT64),
        (2**64, 0),
        (-1, -1),
    ],
)
def test_overflow_wraps(value: int, want: int) -> None:
    assert wrap_int64(value) == want


@given(st.integers())
def test_wrapping_matches_the_bytes_of_a_register(value: int) -> None:
    low = (value % 2**64).to_bytes(8, "little")
    assert wrap_int64(value) == int.from_bytes(low, "little", signed=True)
