"""Kubernetes quantities: `quantity("40Gi")`, their comparison and arithmetic."""

from __future__ import annotations

from typing import Final

from kubesched.api.quantity import Format, Quantity, parse_quantity
from kubesched.errors import QuantityError
from kubesched.foundation.cel.language.cel_errors import EvaluationError
from kubesched.foundation.cel.language.cel_values import MAX_INT, MIN_INT, ComputedQuantity
from kubesched.foundation.cel.language.declarations import Library, by_size
from kubesched.foundation.cel.language.expression_types import BOOL, DOUBLE, INT, STRING, named

__all__ = ["QUANTITIES", "QUANTITY"]

QUANTITIES: Final = Library()
QUANTITY: Final = named("kubernetes.Quantity")


@QUANTITIES.function("quantity", STRING, result=QUANTITY, cost=by_size(0.1))
def _quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityError as error:
        raise EvaluationError(str(error)) from None


@QUANTITIES.function("isQuantity", STRING, result=BOOL, cost=by_size(0.1))
def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


@QUANTITIES.function("sign", QUANTITY, result=INT)
def _sign(quantity: Quantity) -> int:
    return quantity.sign


@QUANTITIES.method("isGreaterThan", QUANTITY, QUANTITY, result=BOOL)
def _is_greater(quantity: Quantity, other: Quantity) -> bool:
    return quantity.compare(other) > 0


@QUANTITIES.method("isLessThan", QUANTITY, QUANTITY, result=BOOL)
def _is_less(quantity: Quantity, other: Quantity) -> bool:
    return quantity.compare(other) < 0


@QUANTITIES.method("compareTo", QUANTITY, QUANTITY, result=INT)
def _compare(quantity: Quantity, other: Quantity) -> int:
    return quantity.compare(other)


@QUANTITIES.method("asApproximateFloat", QUANTITY, result=DOUBLE)
def _as_float(quantity: Quantity) -> float:
    try:
        if quantity.exponent < 0:
            return float(quantity.mantissa) * 10.0**quantity.exponent
        return float(quantity.mantissa * 10**quantity.exponent)
    except OverflowError:
        return float("inf") if quantity.sign > 0 else float("-inf")


def _integer(quantity: Quantity) -> int | None:
    """The number as a 64-bit integer, if the reference holds it as such."""
    if not quantity.compact or quantity.exponent < 0 or quantity.exponent > 19:
        return None if quantity.mantissa or not quantity.compact else 0
    number = int(quantity.mantissa * 10**quantity.exponent)
    return number if MIN_INT <= number <= MAX_INT else None


@QUANTITIES.method("isInteger", QUANTITY, result=BOOL)
def _is_integer(quantity: Quantity) -> bool:
    return _integer(quantity) is not None


@QUANTITIES.method("asInteger", QUANTITY, result=INT)
def _as_integer(quantity: Quantity) -> int:
    number = _integer(quantity)
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _computed(quantity: Quantity) -> ComputedQuantity:
    return ComputedQuantity(quantity.mantissa, quantity.exponent, quantity.format, quantity.compact)


@QUANTITIES.method("add", QUANTITY, QUANTITY, result=QUANTITY)
def _add(quantity: Quantity, other: Quantity) -> Quantity:
    return _computed(quantity + other)


@QUANTITIES.method("add", QUANTITY, INT, result=QUANTITY)
def _add_int(quantity: Quantity, number: int) -> Quantity:
    return _computed(quantity + Quantity.from_value(number, Format.DECIMAL_EXPONENT))


@QUANTITIES.method("sub", QUANTITY, QUANTITY, result=QUANTITY)
def _sub(quantity: Quantity, other: Quantity) -> Quantity:
    return _computed(quantity - other)


@QUANTITIES.method("sub", QUANTITY, INT, result=QUANTITY)
def _sub_int(quantity: Quantity, number: int) -> Quantity:
    return _computed(quantity - Quantity.from_value(number, Format.DECIMAL_EXPONENT))
