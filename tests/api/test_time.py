"""Parsing and formatting of times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.time import format_micro_time, format_time, parse_time

CASES = {
    "whole seconds": ("1970-01-01T00:00:01Z", 1_000_000_000),
    "microseconds": ("1970-01-01T00:00:00.000001Z", 1_000),
    "nanoseconds": ("1970-01-01T00:00:00.123456789Z", 123_456_789),
    "finer digits are cut": ("1970-01-01T00:00:00.1234567899Z", 123_456_789),
    "an offset east of Greenwich": ("1970-01-01T02:00:00+02:00", 0),
    "an offset west of Greenwich": ("1969-12-31T19:30:00-04:30", 0),
    "before the epoch": ("1969-12-31T23:59:59.5Z", -500_000_000),
    "far away": ("9999-12-31T23:59:59Z", 253_402_300_799_000_000_000),
}


@pytest.mark.parametrize(("text", "want"), CASES.values(), ids=CASES)
def test_parse(text: str, want: int) -> None:
    assert parse_time(text) == want


@pytest.mark.parametrize(
    "text", ["", "now", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"]
)
def test_invalid_times(text: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        parse_time(text)


def test_format() -> None:
    ns = 1_767_225_600_123_456_789
    assert format_time(ns) == "2026-01-01T00:00:00Z"
    assert format_micro_time(ns) == "2026-01-01T00:00:00.123456Z"


@given(st.integers(min_value=-(10**18), max_value=10**19))
def test_formatting_loses_only_digits_beyond_the_precision(ns: int) -> None:
    assert parse_time(format_time(ns)) == ns // 10**9 * 10**9
    assert parse_time(format_micro_time(ns)) == ns // 1000 * 1000
