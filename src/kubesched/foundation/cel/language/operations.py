"""Operators on values: equality, order, arithmetic, membership, lookup.

Errors have the reference's words. The size of strings and lists is limited here (`MAX_SIZE`); the
reference relies on its cost limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from kubesched.api.quantity import Quantity
from kubesched.foundation.cel.language.cel_errors import (
    CostLimitError,
    EvaluationError,
    no_such_overload,
)
from kubesched.foundation.cel.language.cel_values import (
    MAX_INT,
    MAX_UINT,
    MIN_INT,
    NONE,
    Duration,
    OptionalValue,
    Timestamp,
    UInt,
    UnorderedList,
    Value,
    type_name,
)
from kubesched.foundation.cel.language.conversions import to_text

__all__ = [
    "ARITHMETIC",
    "MAX_SIZE",
    "NONE_FOUND",
    "ORDER",
    "bounded",
    "checked_int",
    "compare",
    "equal",
    "find",
    "index",
    "is_in",
    "list_index",
    "lookup",
    "negate",
    "not_equal",
    "size",
]

# The maximum number of characters or elements of a computed value.
MAX_SIZE: Final = 4_000_000

NONE_FOUND: Final = object()
_Listed: TypeAlias = list[Value] | tuple[Value, ...]
_NUMBERS: Final = frozenset((int, UInt, float))
_PLAIN: Final = frozenset((str, int, bool, bytes, UInt, Duration, Timestamp))
_COMPARABLE: Final = frozenset((str, int, bool, bytes, UInt, Duration, Timestamp, float))


def equal(left: Value, right: Value) -> bool:
    """Whether two values are equal; values of different types are not.

    Raises:
        EvaluationError: the left one has a type that is only comparable with itself.
    """
    cls = type(left)
    if cls is type(right) and cls in _PLAIN:
        return bool(left == right)
    if left is None or right is None:
        return left is right
    if cls in _NUMBERS:
        return type(right) in _NUMBERS and bool(left == right)
    if isinstance(left, list | tuple):
        return isinstance(right, list | tuple) and _equal_lists(left, right)
    if isinstance(left, dict):
        return isinstance(right, dict) and _equal_maps(left, right)
    if isinstance(left, OptionalValue):
        return isinstance(right, OptionalValue) and _equal_optionals(left, right)
    if isinstance(left, Quantity):
        if type(right) is not Quantity:
            raise no_such_overload()
        return left.compare(right) == 0
    if getattr(cls, "equals_own_type_only", False) and type(right) is not cls:
        raise no_such_overload()
    return cls is type(right) and bool(left == right)


def not_equal(left: Value, right: Value) -> bool:
    """Whether two values differ. Values that cannot be compared differ."""
    return not _surely(left, right)


def _surely(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def _possibly(left: Value, right: Value) -> bool:
    """Equality inside a list or map, where values that cannot be compared are skipped."""
    try:
        return equal(left, right)
    except EvaluationError:
        return True


def _equal_lists(left: _Listed, right: _Listed) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, UnorderedList):
        return _equal_unordered(left, right)
    return all(map(_possibly, left, right))


def _equal_unordered(left: UnorderedList, right: _Listed) -> bool:
    there: dict[str, list[Value]] = {}
    for element in right:
        there.setdefault(_rough(left.identity(element)), []).append(element)
    for element in left:
        alike = there.get(_rough(left.identity(element)), [])
        found = next((n for n, other in enumerate(alike) if _surely(element, other)), None)
        if found is None:
            return False
        del alike[found]
    return True


def _rough(identity: Value) -> str:
    """Return a hash text that equal values of one schema share, to reduce comparisons."""
    return identity if type(identity) is str else json.dumps(identity, sort_keys=True, default=str)


def _united(left: UnorderedList, right: _Listed) -> UnorderedList:
    """Return the elements of both lists.

    An element of the right list replaces the one of the left with the same identity, in its place.
    """
    result = UnorderedList(left, left.keys)
    places = {_rough(left.identity(element)): place for place, element in enumerate(left)}
    for element in right:
        place = places.setdefault(_rough(left.identity(element)), len(result))
        if place == len(result):
            result.append(element)
        else:
            result[place] = element
    return result


def _equal_maps(left: dict[Value, Value], right: dict[Value, Value]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other = find(right, key)
        if other is NONE_FOUND or not _possibly(value, other):
            return False
    return True


def _equal_optionals(left: OptionalValue, right: OptionalValue) -> bool:
    if left is NONE or right is NONE:
        return left is right
    return equal(left.value, right.value)


def compare(left: Value, right: Value, operator: str) -> int:
    """-1, 0 or 1 for two values of an ordered type; numbers compare across types.

    Raises:
        EvaluationError: there is no order between them.
    """
    cls = type(left)
    if cls not in _COMPARABLE:
        raise EvaluationError(f"no such overload: _{operator}_")
    if cls is not type(right) and not (cls in _NUMBERS and type(right) in _NUMBERS):
        raise no_such_overload()
    if left != left or right != right:
        raise EvaluationError("NaN values cannot be ordered")
    return int(left > right) - int(left < right)


def _less(left: Value, right: Value) -> bool:
    return compare(left, right, "<") < 0


def _less_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right, "<=") <= 0


def _greater(left: Value, right: Value) -> bool:
    return compare(left, right, ">") > 0


def _greater_or_equal(left: Value, right: Value) -> bool:
    return compare(left, right, ">=") >= 0


ORDER: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "<": _less,
    "<=": _less_or_equal,
    ">": _greater,
    ">=": _greater_or_equal,
}


def checked_int(number: int) -> int:
    """Return the number; raise an error if it exceeds a signed 64-bit integer."""
    if MIN_INT <= number <= MAX_INT:
        return number
    raise EvaluationError("integer overflow")


def _checked_uint(number: int) -> UInt:
    if 0 <= number <= MAX_UINT:
        return UInt(number)
    raise EvaluationError("unsigned integer overflow")


def _checked_duration(nanoseconds: int) -> Duration:
    if MIN_INT <= nanoseconds <= MAX_INT:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


_FIRST_INSTANT: Final = -62_135_596_800 * 10**9
_LAST_INSTANT: Final = 253_402_300_800 * 10**9 - 1


def _checked_timestamp(nanoseconds: int) -> Timestamp:
    if _FIRST_INSTANT <= nanoseconds <= _LAST_INSTANT:
        return Timestamp(nanoseconds)
    raise EvaluationError("timestamp overflow")


def bounded(length: int) -> None:
    """Refuse to make a value of this size.

    Raises:
        CostLimitError: it is too large.
    """
    if length > MAX_SIZE:
        raise CostLimitError


def _add(left: Value, right: Value) -> Value:
    cls, other = type(left), type(right)
    if cls is Timestamp or (cls is Duration and other is Timestamp):
        if {cls, other} != {Timestamp, Duration}:
            raise no_such_overload()
        return _checked_timestamp(left.nanoseconds + right.nanoseconds)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        bounded(len(left) + len(right))
        if isinstance(left, UnorderedList):
            return _united(left, right)
        return [*left, *right]
    if cls not in _ADDERS and not isinstance(left, list | tuple):
        raise EvaluationError("no such overload: _+_")
    if cls is not other:
        raise no_such_overload()
    if cls is int:
        return checked_int(left + right)
    if cls is str or cls is bytes:
        bounded(len(left) + len(right))
        return left + right
    if cls is UInt:
        return _checked_uint(int(left) + int(right))
    if cls is Duration:
        return _checked_duration(left.nanoseconds + right.nanoseconds)
    return left + right


_ADDERS: Final = frozenset((int, UInt, float, str, bytes, Duration, Timestamp))


def _subtract(left: Value, right: Value) -> Value:
    cls, other = type(left), type(right)
    if cls is Timestamp:
        if other is Timestamp:
            return _checked_duration(left.nanoseconds - right.nanoseconds)
        if other is Duration:
            return _checked_timestamp(left.nanoseconds - right.nanoseconds)
        raise no_such_overload()
    if cls is Duration and other is Duration:
        return _checked_duration(left.nanoseconds - right.nanoseconds)
    _require_numbers("-", left, right)
    if cls is float:
        return left - right
    if cls is UInt:
        return _checked_uint(int(left) - int(right))
    return checked_int(left - right)


def _multiply(left: Value, right: Value) -> Value:
    _require_numbers("*", left, right)
    if type(left) is float:
        return left * right
    if type(left) is UInt:
        return _checked_uint(int(left) * int(right))
    return checked_int(left * right)


def _divide(left: Value, right: Value) -> Value:
    _require_numbers("/", left, right)
    if type(left) is float:
        return _divide_floats(left, right)
    if not right:
        raise EvaluationError("division by zero")
    if type(left) is UInt:
        return UInt(int(left) // int(right))
    quotient = abs(left) // abs(right)
    return checked_int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_floats(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _modulo(left: Value, right: Value) -> Value:
    if type(left) is float:
        raise EvaluationError("no such overload: _%_")
    _require_numbers("%", left, right)
    if not right:
        raise EvaluationError("modulus by zero")
    if type(left) is UInt:
        return UInt(int(left) % int(right))
    if left == MIN_INT and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def _require_numbers(operator: str, left: Value, right: Value) -> None:
    if type(left) not in _NUMBERS:
        if type(left) is Duration and operator == "-":
            raise no_such_overload()
        raise EvaluationError(f"no such overload: _{operator}_")
    if type(left) is not type(right):
        raise no_such_overload()


ARITHMETIC: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulo,
}


def negate(value: Value) -> Value:
    """`-value`."""
    if type(value) is int:
        return checked_int(-value)
    if type(value) is float:
        return -value
    if type(value) is Duration:
        return _checked_duration(-value.nanoseconds)
    raise EvaluationError("no such overload: -_")


def size(value: Value) -> int:
    """Return the number of characters, bytes, elements or entries of a value."""
    if isinstance(value, str | bytes | list | tuple | dict):
        return len(value)
    raise no_such_overload()


def find(mapping: dict[Value, Value], key: Value) -> Value:
    """Return the value of a key in a map, or `NONE_FOUND`. True is not the key 1."""
    value = mapping.get(key, NONE_FOUND)
    if value is not NONE_FOUND and type(key) is not str and key in (0, 1):
        boolean = type(key) is bool
        held = next((k for k in mapping if k == key), key)
        if (type(held) is bool) is not boolean:
            return NONE_FOUND
    return value


def is_in(value: Value, container: Value) -> bool:
    """`value in container`: an element of a list, or a key of a map."""
    if isinstance(container, dict):
        if type(value) is str:
            return value in container
        return _is_key(value) and find(dict(container), value) is not NONE_FOUND
    if isinstance(container, list | tuple):
        return any(_surely(value, element) for element in container)
    raise no_such_overload()


def _is_key(value: Value) -> bool:
    return type(value) in (str, int, bool, UInt, float)


def list_index(key: Value) -> int:
    """Convert an integral number of any type to a list index."""
    if type(key) is int or type(key) is UInt:
        return int(key)
    if type(key) is float and key.is_integer():
        return int(key)
    if type(key) is float:
        raise EvaluationError(f"unsupported index value {key} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def lookup(container: Value, key: Value) -> Value:
    """Return the value of a key or index, or `NONE_FOUND`."""
    if isinstance(container, dict):
        return find(container, key) if _is_key(key) else NONE_FOUND
    if isinstance(container, list | tuple):
        position = list_index(key)
        return container[position] if 0 <= position < len(container) else NONE_FOUND
    return NONE_FOUND


def index(container: Value, key: Value) -> Value:
    """`container[key]`.

    Raises:
        EvaluationError: there is nothing under that key.
    """
    value = lookup(container, key)
    if value is NONE_FOUND:
        if isinstance(container, list | tuple):
            raise EvaluationError(f"index out of bounds: {list_index(key)}")
        raise EvaluationError(f"no such key: {to_text(key)}")
    return value
