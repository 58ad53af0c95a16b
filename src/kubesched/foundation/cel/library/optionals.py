"""Optional values: `optional.of(x)`, `.orValue(y)` and similar functions."""

from __future__ import annotations

from typing import Final

from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import (
    NONE,
    Duration,
    OptionalValue,
    Timestamp,
    Value,
)
from kubesched.foundation.cel.language.declarations import Library
from kubesched.foundation.cel.language.expression_types import BOOL, list_of, optional_of, parameter

__all__ = ["OPTIONALS"]

OPTIONALS: Final = Library()
_T: Final = parameter("T")
_OPTIONAL: Final = optional_of(_T)


@OPTIONALS.function("optional.of", _T, result=_OPTIONAL)
def _of(value: Value) -> OptionalValue:
    return OptionalValue(value)


@OPTIONALS.function("optional.ofNonZeroValue", _T, result=_OPTIONAL)
def _of_non_zero(value: Value) -> OptionalValue:
    return NONE if _is_zero(value) else OptionalValue(value)


def _is_zero(value: Value) -> bool:
    if isinstance(value, OptionalValue):
        return value is NONE
    if isinstance(value, Duration):
        return not value.nanoseconds
    if isinstance(value, Timestamp):
        return value.nanoseconds == -62_135_596_800 * 10**9
    return not value


@OPTIONALS.function("optional.none", result=_OPTIONAL)
def _none() -> OptionalValue:
    return NONE


@OPTIONALS.method("hasValue", _OPTIONAL, result=BOOL)
def _has_value(value: OptionalValue) -> bool:
    return value is not NONE


@OPTIONALS.method("value", _OPTIONAL, result=_T)
def _value(value: OptionalValue) -> Value:
    if value is NONE:
        raise EvaluationError("optional.none() dereference")
    return value.value


@OPTIONALS.method("or", _OPTIONAL, _OPTIONAL, result=_OPTIONAL)
def _or(value: OptionalValue, otherwise: OptionalValue) -> OptionalValue:
    return otherwise if value is NONE else value


@OPTIONALS.method("orValue", _OPTIONAL, _T, result=_T)
def _or_value(value: OptionalValue, otherwise: Value) -> Value:
    return otherwise if value is NONE else value.value


@OPTIONALS.function("optional.unwrap", list_of(_OPTIONAL), result=list_of(_T))
@OPTIONALS.method("unwrapOpt", list_of(_OPTIONAL), result=list_of(_T))
def _unwrap(values: list[OptionalValue]) -> list[Value]:
    return [each.value for each in values if each is not NONE]


@OPTIONALS.method("first", list_of(_T), result=_OPTIONAL)
def _first(values: list[Value]) -> OptionalValue:
    return OptionalValue(values[0]) if values else NONE


@OPTIONALS.method("last", list_of(_T), result=_OPTIONAL)
def _last(values: list[Value]) -> OptionalValue:
    return OptionalValue(values[-1]) if values else NONE
