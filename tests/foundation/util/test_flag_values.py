from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.flag_values import (
    BOOL,
    DURATION,
    FLOAT32,
    INT,
    INT32,
    INT32_LIST,
    IP,
    STRING,
    STRING_LIST,
    STRING_MAP,
    FlagKind,
    format_csv,
    parse_csv,
    parse_uint,
)

READ: dict[str, tuple[FlagKind, str, Any]] = {
    "text is kept as it is": (STRING, " a=b ", " a=b "),
    "short true": (BOOL, "t", True),
    "loud false": (BOOL, "FALSE", False),
    "decimal": (INT, "-42", -42),
    "a leading zero means octal": (INT, "010", 8),
    "hexadecimal": (INT, "0xFf", 255),
    "binary with underscores": (INT, "0b1_01", 5),
    "digits may be grouped": (INT, "1_000", 1000),
    "the smallest integer": (INT, "-9223372036854775808", -(2**63)),
    "the largest 32-bit integer": (INT32, "2147483647", 2**31 - 1),
    "a float keeps 32 bits": (FLOAT32, "0.1", 0.10000000149011612),
    "a hexadecimal float": (FLOAT32, "0x1p-2", 0.25),
    "a duration": (DURATION, "1m30s", 90 * SECOND),
    "an address": (IP, " 10.0.0.1 ", "10.0.0.1"),
    "an IPv6 address": (IP, "::", "::"),
    "an empty address changes nothing": (IP, "", ""),
    "a list": (STRING_LIST, "a,b", ("a", "b")),
    "an empty list": (STRING_LIST, "", ()),
    "a list with a blank element": (STRING_LIST, "a,,b", ("a", "", "b")),
    "quotes keep a comma": (STRING_LIST, '"a,b",c', ("a,b", "c")),
    "doubled quotes are one": (STRING_LIST, '"a""b"', ('a"b',)),
    "a list of numbers": (INT32_LIST, "23,0x1d", (23, 29)),
    "a pair": (STRING_MAP, "k=v", {"k": "v"}),
    "one pair may have commas in its value": (STRING_MAP, "m,l=a,b", {"m,l": "a,b"}),
    "two pairs": (STRING_MAP, "k=v,l=w", {"k": "v", "l": "w"}),
    "quoted pairs with commas": (
        STRING_MAP,
        '"m,l=a,b","m,k=c"',
        {"m,l": "a,b", "m,k": "c"},
    ),
    "no pair": (STRING_MAP, "", {}),
}


@pytest.mark.parametrize(("kind", "text", "want"), READ.values(), ids=READ)
def test_read(kind: FlagKind, text: str, want: Any) -> None:
    assert kind.read(text, None) == want


REFUSED: dict[str, tuple[FlagKind, str, str]] = {
    "yes is not a boolean": (BOOL, "yes", 'strconv.ParseBool: parsing "yes": invalid syntax'),
    "a word is not a number": (INT, "abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
    "nine is not octal": (INT, "09", 'strconv.ParseInt: parsing "09": invalid syntax'),
    "a number too large": (
        INT32,
        "2147483648",
        'strconv.ParseInt: parsing "2147483648": value out of range',
    ),
    "a space is not a digit": (INT, " 1", 'strconv.ParseInt: parsing " 1": invalid syntax'),
    "a float too large": (
        FLOAT32,
        "1e39",
        'strconv.ParseFloat: parsing "1e39": value out of range',
    ),
    "a grouped float": (FLOAT32, "1_0", 'strconv.ParseFloat: parsing "1_0": invalid syntax'),
    "a duration without a unit": (DURATION, "10", 'time: missing unit in duration "10"'),
    "a name is not an address": (IP, "localhost", 'failed to parse IP: "localhost"'),
    "an address with leading zeros": (IP, "010.0.0.1", 'failed to parse IP: "010.0.0.1"'),
    "an address with a zone": (IP, "fe80::1%eth0", 'failed to parse IP: "fe80::1%eth0"'),
    "a quote inside a field": (
        STRING_LIST,
        'a"b',
        'parse error on line 1, column 2: bare " in non-quoted field',
    ),
    "an open quote": (
        STRING_LIST,
        '"a',
        'parse error on line 1, column 3: extraneous or missing " in quoted-field',
    ),
    "nothing but a line": (STRING_LIST, "\n", "EOF"),
    "an empty number": (INT32_LIST, "", 'strconv.ParseInt: parsing "": invalid syntax'),
    "no pair": (STRING_MAP, "k", "k must be formatted as key=value"),
}


@pytest.mark.parametrize(("kind", "text", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(kind: FlagKind, text: str, want: str) -> None:
    with pytest.raises(ValueError) as caught:
        kind.read(text, None)
    assert str(caught.value) == want


def test_lists_and_maps_grow_and_scalars_are_replaced() -> None:
    assert STRING_LIST.read("c", ("a", "b")) == ("a", "b", "c")
    assert INT32_LIST.read("3", (1, 2)) == (1, 2, 3)
    assert STRING_MAP.read("k=w", {"k": "v", "l": "x"}) == {"k": "w", "l": "x"}
    assert STRING.read("b", "a") == "b"


SHOWN: dict[str, tuple[FlagKind, Any, str]] = {
    "a boolean": (BOOL, True, "true"),
    "a duration": (DURATION, 90 * SECOND, "1m30s"),
    "a whole float": (FLOAT32, 50.0, "50"),
    "a list": (STRING_LIST, ("a,b", "c"), '["a,b",c]'),
    "an empty list": (INT32_LIST, (), "[]"),
    "a map, by key": (STRING_MAP, {"b": "2", "a": "1"}, "[a=1,b=2]"),
}


@pytest.mark.parametrize(("kind", "value", "want"), SHOWN.values(), ids=SHOWN)
def test_shown(kind: FlagKind, value: Any, want: str) -> None:
    assert kind.show(value) == want


def test_levels_are_unsigned() -> None:
    assert parse_uint("0010", 31) == 10
    with pytest.raises(ValueError, match=r'^strconv.ParseUint: parsing "-1": invalid syntax$'):
        parse_uint("-1", 31)
    with pytest.raises(ValueError, match=r"value out of range$"):
        parse_uint("9" * 10_000, 31)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r")), min_size=1))
def test_csv_files_are_read_back_unchanged(fields: list[str]) -> None:
    if fields == [""]:
        return  # nothing at all: the flag reads that as no elements
    assert parse_csv(format_csv(fields)) == fields
