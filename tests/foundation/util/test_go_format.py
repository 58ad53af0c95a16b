from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.foundation.util.go_format import (
    format_duration,
    format_slice,
    parse_duration,
    quote,
    sprintf_without_arguments,
)

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

# From the documentation and tests of Go's time package.
DURATIONS = {
    "0s": 0,
    "1ns": 1,
    "1.1µs": 1_100,
    "2.2ms": 2_200_000,
    "3.3s": 3_300_000_000,
    "1m0s": MINUTE,
    "15m0s": 15 * MINUTE,
    "4m5s": 4 * MINUTE + 5 * SECOND,
    "4m5.001s": 4 * MINUTE + 5_001_000_000,
    "5h6m7.001s": 5 * HOUR + 6 * MINUTE + 7_001_000_000,
    "8m0.000000001s": 8 * MINUTE + 1,
    "1h0m0s": HOUR,
    "-2s": -2 * SECOND,
    "2562047h47m16.854775807s": MAX_INT64,
    "-2562047h47m16.854775808s": MIN_INT64,
}


@pytest.mark.parametrize(("text", "duration_ns"), DURATIONS.items(), ids=DURATIONS)
def test_durations_print_and_parse(text: str, duration_ns: int) -> None:
    assert format_duration(duration_ns) == text
    assert parse_duration(text) == duration_ns


@given(st.integers(MIN_INT64, MAX_INT64))
def test_a_printed_duration_parses_to_itself(duration_ns: int) -> None:
    # Fractions go through floats, exactly so below 2**53 of their unit.
    assert parse_duration(format_duration(duration_ns)) == duration_ns


PARSED = {
    "0": 0,
    "+5s": 5 * SECOND,
    "-.5s": -SECOND // 2,
    "5.s": 5 * SECOND,
    "1h15m30.918s": HOUR + 15 * MINUTE + 30_918_000_000,
    "10.5s4m": 4 * MINUTE + 10_500_000_000,
    "12us": 12_000,
    "12μs": 12_000,
    "52763797000ns": 52_763_797_000,
    "0.3333333333333333333h": 20 * MINUTE,
    "0.100000000000000000000h": 6 * MINUTE,
    "9223372036854775807ns": MAX_INT64,
    "-9223372036854775808ns": MIN_INT64,
}


@pytest.mark.parametrize(("text", "want"), PARSED.items(), ids=PARSED)
def test_durations_parse(text: str, want: int) -> None:
    assert parse_duration(text) == want


BAD = {
    "": 'time: invalid duration ""',
    "3": 'time: missing unit in duration "3"',
    "-": 'time: invalid duration "-"',
    "s": 'time: invalid duration "s"',
    ".": 'time: invalid duration "."',
    ".s": 'time: invalid duration ".s"',
    "+.s": 'time: invalid duration "+.s"',
    "1d": 'time: unknown unit "d" in duration "1d"',
    " 1s": 'time: invalid duration " 1s"',
    "1s2": 'time: missing unit in duration "1s2"',
    "9223372036854775808ns": 'time: invalid duration "9223372036854775808ns"',
    "3000000h": 'time: invalid duration "3000000h"',
}


@pytest.mark.parametrize(("text", "want"), BAD.items(), ids=BAD)
def test_bad_durations_are_refused_in_gos_words(text: str, want: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == want


def test_slices() -> None:
    assert format_slice([]) == "[]"
    assert format_slice(["a", 1, "b"]) == "[a 1 b]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", '"plain"'),
        ('a"b\\c', r'"a\"b\\c"'),
        ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'),
        ("\x00\x1f\x7f", r'"\x00\x1f\x7f"'),
        ("☺ é", '"☺ é"'),
        ("\u00a0\u200b\ufeff", r'"\u00a0\u200b\ufeff"'),
        ("\U000e0001", r'"\U000e0001"'),
    ],
)
def test_quoting(text: str, want: str) -> None:
    assert quote(text) == want


# From the rules and tests of Go's fmt package.
SPRINTF = {
    "no verb, no change": ("0/3 nodes are available", "0/3 nodes are available"),
    "a doubled sign is one": ("100%%", "100%"),
    "at the end": ("100%", "100%!(NOVERB)"),
    "before a word": ("50% done", "50%!d(MISSING)one"),
    "before a full stop": ("above 50%. Or", "above 50%! (MISSING)Or"),
    "a verb": ("hi%d", "hi%!d(MISSING)"),
    "flags and numbers belong to the verb": ("%-010.2f!", "%!f(MISSING)!"),
    "a precision at the end": ("x %.2", "x %!(NOVERB)"),
    "a star as width": ("%*s", "%!(BADWIDTH)%!s(MISSING)"),
    "a star as precision": ("%.*s", "%!(BADPREC)%!s(MISSING)"),
    "an argument index": ("%[2]d", "%!d(BADINDEX)"),
    "an index that never closes": ("%[3", "%!(NOVERB)"),
    "a bracket and nothing else": ("%[", "%!(NOVERB)"),
    "an index that is no number": ("%[x]d", "%!d(BADINDEX)"),
    "an index below zero": ("%[-3]d", "%!d(BADINDEX)"),
    "an empty index": ("%[]d", "%!d(BADINDEX)"),
    "a number beyond reason swallows the rest": (
        "a %017091901790959340919092959340919017929593813360d b",
        "a %!(NOVERB)",
    ),
    "seven digits are within reason": ("%2000000d b", "%!d(MISSING) b"),
    "any letter is a verb": ("%é", "%!é(MISSING)"),
    "several": ("%s %% %", "%!s(MISSING) % %!(NOVERB)"),
}


@pytest.mark.parametrize(("text", "want"), SPRINTF.values(), ids=SPRINTF)
def test_sprintf_without_arguments(text: str, want: str) -> None:
    assert sprintf_without_arguments(text) == want


@given(st.text(alphabet="%[]*.#0+- 19dé", max_size=30))
def test_sprintf_never_fails_and_leaves_no_bare_verb(text: str) -> None:
    doubled = text.replace("%", "%%")
    assert sprintf_without_arguments(doubled) == text
    sprintf_without_arguments(text)
