"""The language's own operators and functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesched.foundation.cel.language import conversions, operations, regex
from kubesched.foundation.cel.language.cel_errors import EvaluationError, no_such_overload
from kubesched.foundation.cel.language.cel_values import (
    Duration,
    Timestamp,
    TypeValue,
    Value,
    type_name,
)
from kubesched.foundation.cel.language.declarations import Library, by_size, size_or_one
from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    parameter,
    type_of,
)

__all__ = ["STANDARD"]

STANDARD: Final = Library(standard=True)
_A: Final = parameter("A")
_B: Final = parameter("B")
_LISTS: Final = list_of(_A)
_MAPS: Final = map_of(_A, _B)


def _operator(name: str, *signatures: tuple[Type, ...]) -> None:
    """Declare an operator; the last type of a signature is the result."""
    calls = operations.ARITHMETIC | operations.ORDER
    call = calls.get(name.strip("_"), operations.equal)
    for *parameters, result in signatures:
        STANDARD.function(name, *parameters, result=result)(call)


_operator("_==_", (_A, _A, BOOL))
_operator("_!=_", (_A, _A, BOOL))
_operator(
    "_+_",
    (BYTES, BYTES, BYTES),
    (DOUBLE, DOUBLE, DOUBLE),
    (DURATION, DURATION, DURATION),
    (DURATION, TIMESTAMP, TIMESTAMP),
    (TIMESTAMP, DURATION, TIMESTAMP),
    (INT, INT, INT),
    (_LISTS, _LISTS, _LISTS),
    (STRING, STRING, STRING),
    (UINT, UINT, UINT),
)
_operator(
    "_-_",
    (DOUBLE, DOUBLE, DOUBLE),
    (DURATION, DURATION, DURATION),
    (INT, INT, INT),
    (TIMESTAMP, DURATION, TIMESTAMP),
    (TIMESTAMP, TIMESTAMP, DURATION),
    (UINT, UINT, UINT),
)
for _name in ("_*_", "_/_"):
    _operator(_name, (DOUBLE, DOUBLE, DOUBLE), (INT, INT, INT), (UINT, UINT, UINT))
_operator("_%_", (INT, INT, INT), (UINT, UINT, UINT))
_operator("-_", (DOUBLE, DOUBLE), (INT, INT))
_NUMBERS: Final = (INT, UINT, DOUBLE)
for _name in ("_<_", "_<=_", "_>_", "_>=_"):
    _operator(_name, *((left, right, BOOL) for left in _NUMBERS for right in _NUMBERS))
    _operator(_name, *((each, each, BOOL) for each in (BOOL, STRING, BYTES, TIMESTAMP, DURATION)))
_operator("@in", (_A, _LISTS, BOOL), (_A, _MAPS, BOOL))

for _sized in (BYTES, _LISTS, STRING, _MAPS):
    STANDARD.function("size", _sized, result=INT)(operations.size)
    STANDARD.method("size", _sized, result=INT)(operations.size)


def _strings(*values: Value) -> None:
    if any(type(value) is not str for value in values):
        raise no_such_overload()


@STANDARD.method("startsWith", STRING, STRING, result=BOOL, cost=by_size(0.1, 1))
def _starts_with(text: str, prefix: str) -> bool:
    _strings(text, prefix)
    return text.startswith(prefix)


@STANDARD.method("endsWith", STRING, STRING, result=BOOL, cost=by_size(0.1, 1))
def _ends_with(text: str, suffix: str) -> bool:
    _strings(text, suffix)
    return text.endswith(suffix)


def _product(arguments: tuple[Value, ...], _result: Value) -> int:
    first, second = (-(-size_or_one(each) // 10) for each in arguments)
    return first * second


@STANDARD.method("contains", STRING, STRING, result=BOOL, cost=_product)
def _contains(text: str, part: str) -> bool:
    _strings(text, part)
    return part in text


@STANDARD.function("matches", STRING, STRING, result=BOOL, cost=regex.cost)
@STANDARD.method("matches", STRING, STRING, result=BOOL, cost=regex.cost)
def _matches(text: str, pattern: str) -> bool:
    _strings(text, pattern)
    return regex.search(pattern, text)


for _from in (INT, UINT, DOUBLE, STRING, TIMESTAMP, DURATION):
    STANDARD.function("int", _from, result=INT)(conversions.to_int)
for _from in (UINT, INT, DOUBLE, STRING):
    STANDARD.function("uint", _from, result=UINT)(conversions.to_uint)
for _from in (DOUBLE, INT, STRING, UINT):
    STANDARD.function("double", _from, result=DOUBLE)(conversions.to_double)
for _from in (BOOL, STRING):
    STANDARD.function("bool", _from, result=BOOL)(conversions.to_bool)
for _from in (BYTES, STRING):
    STANDARD.function("bytes", _from, result=BYTES, cost=by_size(0.1))(conversions.to_bytes)
for _from in (STRING, BOOL, BYTES, DOUBLE, DURATION, INT, TIMESTAMP, UINT):
    STANDARD.function("string", _from, result=STRING)(conversions.to_string)
for _from in (DURATION, INT, STRING):
    STANDARD.function("duration", _from, result=DURATION)(conversions.to_duration)
for _from in (TIMESTAMP, INT, STRING):
    STANDARD.function("timestamp", _from, result=TIMESTAMP)(conversions.to_timestamp)


@STANDARD.function("dyn", _A, result=DYN)
def _dyn(value: Value) -> Value:
    return value


@STANDARD.function("type", _A, result=type_of(_A))
def _type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


def _moment(value: Value, zone: str) -> datetime:
    if type(value) is not Timestamp or type(zone) is not str:
        raise no_such_overload()
    seconds = value.nanoseconds // 10**9
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


def _zone(name: str) -> tzinfo:
    """A time zone by its name or by its distance from UTC."""
    if name in ("", "UTC", "Z"):
        return UTC
    hours, colon, minutes = name.lstrip("+-").partition(":")
    if colon and hours.isdecimal() and minutes.isdecimal() and len(hours) <= 2 >= len(minutes):
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        if offset < timedelta(days=1):
            return timezone(-offset if name[0] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


_PARTS: Final = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}
_SPANS: Final = {
    "getHours": 3600 * 10**9,
    "getMinutes": 60 * 10**9,
    "getSeconds": 10**9,
    "getMilliseconds": 10**6,
}


def _declare_accessor(name: str) -> None:
    """Declare a part of a time, in UTC or in a zone, or of a duration."""
    part, span = _PARTS.get(name), _SPANS.get(name)

    def read(value: Value, zone: str = "UTC") -> int:
        if type(value) is Duration and span is not None:
            whole = abs(value.nanoseconds) // span
            return whole if value.nanoseconds >= 0 else -whole
        if part is None:
            if type(value) is not Timestamp:
                raise no_such_overload()
            milliseconds: int = value.nanoseconds // 10**6 % 1000
            return milliseconds
        return int(part(_moment(value, zone)))

    STANDARD.method(name, TIMESTAMP, result=INT)(read)
    STANDARD.method(name, TIMESTAMP, STRING, result=INT)(read)
    if span is not None:
        STANDARD.method(name, DURATION, result=INT)(read)


for _accessor in sorted(_PARTS.keys() | _SPANS.keys()):
    _declare_accessor(_accessor)
