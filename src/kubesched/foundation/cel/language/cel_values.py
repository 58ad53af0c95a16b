"""The values of expressions at run time.

Most are plain Python values: bool, int, float, str, bytes, None, list, dict. This module has the
other types. In Python a bool is an int, in CEL it is not, so code that compares types uses `type(x)
is`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from kubesched.api.quantity import Quantity

__all__ = [
    "MAX_INT",
    "MAX_UINT",
    "MIN_INT",
    "NONE",
    "UNSET",
    "ComputedQuantity",
    "Duration",
    "OptionalValue",
    "Timestamp",
    "TypeValue",
    "UInt",
    "UnorderedList",
    "Value",
    "type_name",
]

# Any value of an expression; its type is checked when the expression runs.
Value: TypeAlias = Any

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1


class UInt(int):
    """An unsigned integer: `3u`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time."""

    nanoseconds: int


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A point in time, in nanoseconds since 1970 UTC."""

    nanoseconds: int


class OptionalValue(msgspec.Struct, frozen=True, eq=False):
    """A value, or its absence (`NONE`)."""

    value: Value


class UnorderedList(list[Any]):
    """A list with the meaning of a set, or of a map whose keys are fields of its elements.

    It equals a list with the same elements in any order. An added element replaces the one with the
    same identity.
    """

    __slots__ = ("keys",)

    def __init__(self, elements: Iterable[Any], keys: tuple[str, ...] = ()) -> None:
        super().__init__(elements)
        # The keys that identify an element; without any, it is the element itself.
        self.keys = keys

    def identity(self, element: Any) -> Any:
        """Return the key that identifies an element."""
        if not self.keys or not isinstance(element, dict):
            return element
        return {key: element[key] for key in self.keys if key in element}


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value: what `type(x)` returns. Only the name counts."""

    name: str


class ComputedQuantity(Quantity, frozen=True, eq=False, gc=False):
    """The result of adding or subtracting quantities.

    The reference does not find it equal to anything when it is on the right of `==`.
    """


NONE: Final = OptionalValue(None)
# Stands for a bound variable that has not been evaluated.
UNSET: Final = object()

_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    OptionalValue: "optional_type",
    TypeValue: "type",
    Quantity: "kubernetes.Quantity",
    ComputedQuantity: "kubernetes.Quantity",
}


def type_name(value: Value) -> str:
    """The name of a value's type."""
    cls = type(value)
    if (name := _NAMES.get(cls)) is not None:
        return name
    if isinstance(value, dict):
        return "map"
    if isinstance(value, list):
        return "list"
    declared: str = getattr(cls, "cel_type", "dyn")
    return declared
