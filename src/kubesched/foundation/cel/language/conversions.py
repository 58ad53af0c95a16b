"""Conversions between types, and values as text.

Numbers are limited to 64 bits. Times are parsed and formatted as RFC 3339, durations in Go's form.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError, no_such_overload
from kubesched.foundation.cel.language.cel_values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
)

__all__ = [
    "double_text",
    "duration_text",
    "parse_duration",
    "parse_timestamp",
    "timestamp_text",
    "to_bool",
    "to_bytes",
    "to_double",
    "to_duration",
    "to_int",
    "to_string",
    "to_text",
    "to_timestamp",
    "to_uint",
]

_SECOND: Final = 10**9
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_DURATION: Final = re.compile(
    r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)"
)
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_INT: Final = re.compile(r"[+-]?[0-9]{1,400}")
_UINT: Final = re.compile(r"[0-9]{1,400}")
_DOUBLE: Final = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:[iI]nf(?:inity)?|NaN|nan)"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def to_int(value: Value) -> int:
    """`int(x)`."""
    cls = type(value)
    if cls is int:
        return int(value)
    if cls is UInt:
        if value > MAX_INT:
            raise EvaluationError("integer overflow")
        return int(value)
    if cls is float:
        if not -(2.0**63) < value < 2.0**63:
            raise EvaluationError("integer overflow")
        return int(value)
    if cls is str:
        if not _INT.fullmatch(value) or not MIN_INT <= (number := int(value)) <= MAX_INT:
            raise EvaluationError("type conversion error from 'string' to 'int'")
        return number
    if cls is Timestamp:
        seconds: int = value.nanoseconds // _SECOND
        return seconds
    if cls is Duration:
        nanoseconds: int = value.nanoseconds
        return nanoseconds
    raise no_such_overload()


def to_uint(value: Value) -> UInt:
    """`uint(x)`."""
    cls = type(value)
    if cls is UInt:
        return UInt(value)
    if cls is int:
        if value < 0:
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if cls is float:
        if not 0 <= value < 2.0**64:
            raise EvaluationError("unsigned integer overflow")
        return UInt(int(value))
    if cls is str:
        if not _UINT.fullmatch(value) or (number := int(value)) > MAX_UINT:
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        return UInt(number)
    raise no_such_overload()


def to_double(value: Value) -> float:
    """`double(x)`."""
    if type(value) in (int, UInt, float):
        return float(value)
    if type(value) is str:
        if not _DOUBLE.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'double'")
        return float(value)
    raise no_such_overload()


def to_bool(value: Value) -> bool:
    """`bool(x)`."""
    if type(value) is bool:
        return value
    if type(value) is str:
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise EvaluationError("type conversion error from 'string' to 'bool'")
    raise no_such_overload()


def to_bytes(value: Value) -> bytes:
    """`bytes(x)`."""
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode(errors="surrogatepass")
    raise no_such_overload()


def to_string(value: Value) -> str:
    """`string(x)`."""
    if type(value) is str:
        return value
    if type(value) is bytes:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
    if type(value) in (bool, int, UInt, float, Duration, Timestamp):
        return to_text(value)
    raise no_such_overload()


def to_duration(value: Value) -> Duration:
    """`duration(x)`."""
    if type(value) is Duration:
        return value
    if type(value) is int:
        return Duration(value)
    if type(value) is str:
        return parse_duration(value)
    raise no_such_overload()


def to_timestamp(value: Value) -> Timestamp:
    """`timestamp(x)`."""
    if type(value) is Timestamp:
        return value
    if type(value) is int:
        if not -62_135_596_800 <= value <= 253_402_300_799:
            raise EvaluationError("timestamp overflow")
        return Timestamp(value * _SECOND)
    if type(value) is str:
        return parse_timestamp(value)
    raise no_such_overload()


def to_text(value: Value) -> str:
    """A scalar as the language prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case UInt():
            return str(int(value))
        case float():
            return double_text(value)
        case None:
            return "null"
        case Duration():
            return duration_text(value)
        case Timestamp():
            return timestamp_text(value)
        case TypeValue():
            return value.name
        case bytes():
            return value.decode(errors="replace")
        case _:
            return str(value)


def double_text(value: float) -> str:
    """Return the shortest text of a double; very large and small ones have an exponent."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if exponent:
        power = int(exponent)
        digits = mantissa.removesuffix(".0")
        if -5 < power < 21:
            return f"{value:f}".rstrip("0").rstrip(".") if power < 0 else str(int(value))
        return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return text.removesuffix(".0")


def parse_duration(text: str) -> Duration:
    """Parse a duration in Go's form: `1h30m`, `-1.5s`.

    Raises:
        EvaluationError: it is invalid, or too long.
    """
    if len(text) > 400 or not _DURATION.fullmatch(text):
        raise EvaluationError("type conversion error from 'string' to 'google.protobuf.Duration'")
    total = 0
    for whole, fraction, unit in _DURATION_PART.findall(text):
        total += int(whole or 0) * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
    if text[0] == "-":
        total = -total
    if not MIN_INT <= total <= MAX_INT:
        raise EvaluationError("duration overflow")
    return Duration(total)


def duration_text(value: Duration) -> str:
    """A duration in seconds."""
    seconds = value.nanoseconds / _SECOND
    text = f"{seconds:.9f}".rstrip("0").rstrip(".") if value.nanoseconds % _SECOND else ""
    return f"{text or value.nanoseconds // _SECOND}s"


def parse_timestamp(text: str) -> Timestamp:
    """Parse a time in RFC 3339.

    Raises:
        EvaluationError: it is invalid.
    """
    wrong = EvaluationError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise wrong
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, off_hours, off_minutes = match.groups()[6:]
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise wrong from None
    elapsed = moment - _EPOCH
    nanoseconds = (elapsed.days * 86_400 + elapsed.seconds) * _SECOND
    if fraction:
        nanoseconds += int(fraction[:9].ljust(9, "0"))
    if sign:
        offset = (int(off_hours) * 60 + int(off_minutes)) * 60 * _SECOND
        nanoseconds -= offset if sign == "+" else -offset
    return Timestamp(nanoseconds)


def timestamp_text(value: Timestamp) -> str:
    """A time in RFC 3339, in UTC."""
    seconds, nanoseconds = divmod(value.nanoseconds, _SECOND)
    moment = _EPOCH + timedelta(seconds=seconds)
    text = moment.strftime("%m-%dT%H:%M:%S")
    fraction = f".{nanoseconds:09d}".rstrip("0") if nanoseconds else ""
    return f"{moment.year:04d}-{text}{fraction}Z"
