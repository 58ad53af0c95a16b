"""Kinds of values of command line flags, parsed and formatted as Go programs do.

docs/reference/01 §11.1. A kind converts the text of one use of a flag to a value, given the
previous value: numbers and texts are replaced; the first use replaces the default of lists and
maps, and later uses extend them. Errors are `ValueError` with the text of Go's `strconv`, `time`
and `csv` packages.
"""

from __future__ import annotations

import ipaddress
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kubesched.foundation.util.go_format import format_duration, parse_duration, quote

__all__ = [
    "BOOL",
    "DURATION",
    "FLOAT32",
    "INT",
    "INT32",
    "INT32_LIST",
    "IP",
    "STRING",
    "STRING_LIST",
    "STRING_MAP",
    "FlagKind",
    "Previous",
    "format_csv",
    "parse_bool",
    "parse_csv",
    "parse_float32",
    "parse_int",
    "parse_uint",
]

# The value that earlier uses of a flag gave it; None on the first use.
Previous = Any


class FlagKind(msgspec.Struct, frozen=True):
    """How one kind of flag is parsed and formatted."""

    label: str  # in the help, after the flag's name
    read: Callable[[str, Previous], Any]
    show: Callable[[Any], str] = str
    bare: str = ""  # the value of a flag without a value; empty: a value is required


_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT: Final = re.compile(
    r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+|0(_?[0-7])*|[1-9](_?[0-9])*)",
    re.ASCII,
)
_FLOAT: Final = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0x([0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)p[+-]?\d+", re.ASCII | re.IGNORECASE
)
_BAD_QUOTE: Final = 'extraneous or missing " in quoted-field'


def parse_bool(text: str) -> bool:
    """Read a boolean in any spelling that Go accepts."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"strconv.ParseBool: parsing {quote(text)}: invalid syntax")


def parse_int(text: str, bits: int = 64) -> int:
    """Read an integer in the base that its prefix names."""
    if not _INT.fullmatch(text):
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    digits = text.replace("_", "")
    magnitude = digits.lstrip("+-")
    is_octal = len(magnitude) > 1 and magnitude[0] == "0" and magnitude[1].isdigit()
    number = int(magnitude, 8 if is_octal else 0) * (-1 if digits[0] == "-" else 1)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"strconv.ParseInt: parsing {quote(text)}: value out of range")
    return number


def parse_uint(text: str, bits: int) -> int:
    """Read decimal digits."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("0")
    # A text with more digits than any allowed number is rejected without conversion.
    if len(digits) > 20 or int(digits or "0") >= 1 << bits:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(digits or "0")


def parse_float32(text: str) -> float:
    """Read a number and truncate it to 32 bits, as the reference does."""
    if _HEX_FLOAT.fullmatch(text):
        read = float.fromhex
    elif _FLOAT.fullmatch(text):
        read = float
    else:
        raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: invalid syntax")
    try:
        number = read(text)
        if math.isinf(number) and "inf" not in text.lower():
            raise OverflowError
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise ValueError(f"strconv.ParseFloat: parsing {quote(text)}: value out of range") from None


def parse_csv(text: str) -> list[str]:
    """Split at commas; text in double quotes may contain commas and doubled double quotes."""
    text = text.lstrip("\n")
    if not text:
        raise ValueError("EOF")
    fields: list[str] = []
    position = 0
    while True:
        if text[position : position + 1] == '"':
            field, position = _quoted_field(text, position)
        else:
            end = _field_end(text, position)
            field = text[position:end]
            if (bare := field.find('"')) >= 0:
                raise _csv_error(text[: position + bare], 'bare " in non-quoted field')
            position = end
        fields.append(field)
        if text[position : position + 1] != ",":
            return fields  # of the first line only
        position += 1


def _field_end(text: str, start: int) -> int:
    ends = (text.find(mark, start) for mark in (",", "\n"))
    return min((end for end in ends if end >= 0), default=len(text))


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    position = start + 1
    while True:
        close = text.find('"', position)
        if close < 0:
            raise _csv_error(text, _BAD_QUOTE)
        parts.append(text[position:close])
        position = close + 1
        following = text[position : position + 1]
        if following == '"':
            parts.append('"')
            position += 1
        elif following in ("", ",", "\n"):
            return "".join(parts), position
        else:
            raise _csv_error(text[:close], _BAD_QUOTE)


def _csv_error(before: str, problem: str) -> ValueError:
    column = len(before.encode(errors="surrogatepass")) + 1
    return ValueError(f"parse error on line 1, column {column}: {problem}")


def format_csv(fields: list[str]) -> str:
    """Join with commas, quoting the fields that need it."""
    return ",".join(map(_csv_field, fields))


def _csv_field(field: str) -> str:
    needs_quotes = field == r"\." or field[:1].isspace() or not {*'",\r\n'}.isdisjoint(field)
    if not needs_quotes:
        return field
    escaped = field.replace('"', '""')
    return f'"{escaped}"'


def _read_strings(text: str, previous: Previous) -> tuple[str, ...]:
    return (*(previous or ()), *(parse_csv(text) if text else ()))


def _read_int32s(text: str, previous: Previous) -> tuple[int, ...]:
    return (*(previous or ()), *(parse_int(item, 32) for item in text.split(",")))


def _read_map(text: str, previous: Previous) -> dict[str, str]:
    pairs: list[str] = []
    if text:
        # A single pair may have commas in its value without quotes.
        pairs = [text.strip('"')] if text.count("=") == 1 else parse_csv(text)
    added: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{pair} must be formatted as key=value")
        added[key] = value
    return {**(previous or {}), **added}


def _read_ip(text: str, previous: Previous) -> str:
    if not text:
        return str(previous or "")
    try:
        if "%" in text:
            raise ValueError
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quote(text)}") from None


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _show_list(values: tuple[object, ...]) -> str:
    return f"[{format_csv([str(value) for value in values])}]"


def _show_map(pairs: Mapping[str, str]) -> str:
    return f"[{format_csv([f'{key}={value}' for key, value in sorted(pairs.items())])}]"


def _show_float(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e6 else repr(number)


STRING: Final = FlagKind("string", lambda text, _: text)
BOOL: Final = FlagKind("", lambda text, _: parse_bool(text), _show_bool, bare="true")
INT: Final = FlagKind("int", lambda text, _: parse_int(text))
INT32: Final = FlagKind("int32", lambda text, _: parse_int(text, 32))
FLOAT32: Final = FlagKind("float32", lambda text, _: parse_float32(text), _show_float)
DURATION: Final = FlagKind("duration", lambda text, _: parse_duration(text), format_duration)
IP: Final = FlagKind("ip", _read_ip)
STRING_LIST: Final = FlagKind("strings", _read_strings, _show_list)
INT32_LIST: Final = FlagKind("int32Slice", _read_int32s, _show_list)
STRING_MAP: Final = FlagKind("stringToString", _read_map, _show_map)
