"""The static types of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = [
    "ANY",
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "ObjectType",
    "Type",
    "list_of",
    "map_of",
    "named",
    "optional_of",
    "parameter",
    "type_of",
]


class Type(msgspec.Struct, frozen=True, gc=False):
    """A type: its name and, for generic types, its parameters."""

    name: str
    parameters: tuple[Type, ...] = ()
    # Whether it is a type parameter, which unification binds.
    is_parameter: bool = False
    # Whether a value of it may be compared with null.
    is_nullable: bool = False

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_dynamic(self) -> bool:
        """Whether anything can be assigned to it, and it to anything."""
        return self.name in _DYNAMIC


class ObjectType(msgspec.Struct, frozen=True):
    """A declared type with fields: what may be selected from a variable of it."""

    name: str
    fields: Mapping[str, Type]
    # For fields whose name is no identifier: from the escaped name to the key.
    keys: Mapping[str, str] = {}


_DYNAMIC: Final = frozenset(("dyn", "any", "!error!"))

DYN: Final = Type("dyn")
ANY: Final = Type("any")
ERROR: Final = Type("!error!")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type", is_nullable=True)
DURATION: Final = Type("google.protobuf.Duration", is_nullable=True)
TIMESTAMP: Final = Type("google.protobuf.Timestamp", is_nullable=True)
TYPE: Final = Type("type")


def named(name: str) -> Type:
    """Return an object type, or an opaque type of a library."""
    return Type(name, is_nullable=True)


def parameter(name: str) -> Type:
    return Type(name, is_parameter=True)


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,), is_nullable=True)


def type_of(value: Type) -> Type:
    """The type of a type."""
    return Type("type", (value,))
