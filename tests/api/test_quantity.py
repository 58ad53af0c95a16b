"""Quantities: recordings, docs/reference/05 §11.1, laws of arithmetic."""

from __future__ import annotations

import gzip
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.quantity import (
    ZERO,
    Format,
    Quantity,
    parse_milli_value,
    parse_quantity,
    parse_value,
    quantity_from_json,
)
from kubesched.errors import QuantityError

WRONG_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
WRONG_SUFFIX = "unable to parse quantity's suffix"
WRONG_NUMBER = "unable to parse numeric part of quantity"


def test_recorded_quantities(goldens: Path) -> None:
    with gzip.open(goldens / "quantities.jsonl.gz") as lines:
        recorded = [json.loads(line) for line in lines]
    assert len(recorded) == 820
    for want in recorded:
        got: dict[str, object] = {"quantity": want["quantity"]}
        try:
            quantity = parse_quantity(want["quantity"])
        except QuantityError as error:
            got["error"] = str(error)
        else:
            got |= {
                "canonical": str(quantity),
                "value": str(quantity.value),
                "milliValue": str(quantity.milli_value),
                "sign": quantity.sign,
            }
        assert got == want


CANONICAL = {
    "a fraction becomes milli": ("1.5", "1500m"),
    "a binary fraction goes one suffix down": ("1.5Gi", "1536Mi"),
    "binary factors go into the suffix": ("1024Mi", "1Gi"),
    "thousands go into the suffix": ("1000M", "1G"),
    "a binary number with a fraction prints in decimals": ("100.035Ki", "102435840m"),
    "a small binary number prints in decimals": (".001Ki", "1024m"),
    "a tiny binary number rounds up to nanos": (".000000000001Ki", "2n"),
    "finer than nanos rounds up": ("0.00000012345", "124n"),
    "any amount is at least one nano": ("0.1n", "1n"),
    "three and a bit nanos are four": ("3.001n", "4n"),
    "a dot without decimals": ("1.G", "1.G"),
    "decimals without a whole part": (".0001k", "100m"),
    "zero has no suffix": ("0Ki", "0"),
    "an exponent is kept as one": ("10800e-4", "1080e-3"),
    "not a multiple of 1024": ("1025", "1025"),
}


@pytest.mark.parametrize(("text", "want"), CANONICAL.values(), ids=CANONICAL)
def test_canonical_text(text: str, want: str) -> None:
    assert str(parse_quantity(text)) == want


NUMBERS = {
    "a milli is at least one": ("1m", 1, 1),
    "milli values round up": ("0.0001", 1, 1),
    "a bit over one": ("1.0005", 2, 1001),
    "one and a half": ("1500m", 2, 1500),
    "a gibibyte": ("1Gi", 1073741824, 1073741824000),
    "exa, not an exponent": ("1E", 10**18, 0),
    "an exponent": ("1E3", 1000, 1000000),
    "too large for 64 bits by an odd power is zero": ("12E", 0, 0),
    "too large for 64 bits by nine places wraps": ("100000000000G", 7766279631452241920, 0),
    "binary numbers are capped": ("9Ei", 2**63 - 1, -1000),
    "so are long ones": ("9223372036854775807Ki", 2**63 - 1, -1000),
    "negative numbers round away from zero": ("-1.5", -2, -1500),
}


@pytest.mark.parametrize(("text", "value", "milli_value"), NUMBERS.values(), ids=NUMBERS)
def test_integers(text: str, value: int, milli_value: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value, quantity.milli_value) == (value, milli_value)
    assert (parse_value(text), parse_milli_value(text)) == (value, milli_value)


def test_the_notation_is_preserved() -> None:
    assert parse_quantity("1E").format is Format.DECIMAL_SI
    assert parse_quantity("1E3").format is Format.DECIMAL_EXPONENT
    assert parse_quantity("1Ki").format is Format.BINARY_SI
    assert parse_quantity(".000000000001Ki").format is Format.DECIMAL_SI


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", WRONG_FORMAT),
        ("aoeu", WRONG_FORMAT),
        ("1.1.M", WRONG_FORMAT),
        ("1+1.0M", WRONG_FORMAT),
        ("1B", WRONG_FORMAT),
        (" 1", WRONG_FORMAT),
        ("1 ", WRONG_FORMAT),
        ("1\n", WRONG_FORMAT),
        ("\N{ARABIC-INDIC DIGIT ONE}", WRONG_FORMAT),
        ("1i", WRONG_SUFFIX),
        ("0.1mi", WRONG_SUFFIX),
        ("1K", WRONG_SUFFIX),
        ("1e", WRONG_SUFFIX),
        ("1Ei5", WRONG_SUFFIX),
        ("-3.01e-", WRONG_SUFFIX),
        ("1e99999999999999999999", WRONG_SUFFIX),
        ("Ei", WRONG_NUMBER),
    ],
)
def test_invalid_quantities(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as error:
        parse_quantity(text)
    assert str(error.value) == message


def test_json_forms() -> None:
    assert str(quantity_from_json(" 2Gi ")) == "2Gi"
    assert quantity_from_json(2147483648) == parse_quantity("2Gi")
    assert quantity_from_json(0.5) == parse_quantity("500m")
    assert quantity_from_json(None) == ZERO


def test_sums_are_exact_and_round_once() -> None:
    share = parse_quantity("400m")
    assert (share + share + share).value == 2
    assert str(parse_quantity("1Gi") + parse_quantity("1Gi")) == "2Gi"
    assert str(ZERO + parse_quantity("1Gi")) == "1Gi"
    assert str(parse_quantity("1") - parse_quantity("200m")) == "800m"


def test_values_compare_across_notations() -> None:
    assert parse_quantity("1Gi") == parse_quantity("1024Mi")
    assert hash(parse_quantity("1")) == hash(parse_quantity("1000m"))
    assert parse_quantity("1e2000") > parse_quantity("1Ei") > parse_quantity("1E")
    assert parse_quantity("-1") < ZERO < parse_quantity("1n")
    assert parse_quantity("1") != "1"


def test_a_huge_exponent_takes_no_time() -> None:
    assert parse_quantity("1e2000000000").value == 0
    assert parse_quantity("1e-2000000000").nanos == 1
    with pytest.raises(QuantityError):
        parse_quantity("9" * 5000)


SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "e3", "e-3"]
TEXTS = st.builds(
    lambda number, fraction, suffix: f"{number}{fraction}{suffix}",
    st.integers(-(10**6), 10**6),
    st.sampled_from(["", ".", ".5", ".125", ".000001"]),
    st.sampled_from(SUFFIXES),
)


def exact(quantity: Quantity) -> Fraction:
    return Fraction(quantity.nanos, 10**9)


@given(TEXTS)
def test_the_canonical_text_parses_to_the_same_number(text: str) -> None:
    quantity = parse_quantity(text)
    plain = Quantity(quantity.mantissa, quantity.exponent, quantity.format)
    assert parse_quantity(str(plain)) == quantity
    assert parse_quantity(str(quantity)) == quantity


@given(TEXTS, TEXTS)
def test_arithmetic_and_order_are_those_of_exact_numbers(left_text: str, right_text: str) -> None:
    left, right = parse_quantity(left_text), parse_quantity(right_text)
    assert exact(left + right) == exact(left) + exact(right)
    assert exact(left - right) == exact(left) - exact(right)
    assert (left < right) == (exact(left) < exact(right))
    assert (left == right) == (exact(left) == exact(right))
    if left == right:
        assert hash(left) == hash(right)
