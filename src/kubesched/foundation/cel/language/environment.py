"""The environment of an expression: variables, types, functions, and the cost limit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kubesched.foundation.cel.language import expression_types as types
from kubesched.foundation.cel.language.declarations import Library, merge
from kubesched.foundation.cel.language.expression_types import (
    ObjectType,
    Type,
    list_of,
    map_of,
    parameter,
    type_of,
)

__all__ = ["Environment"]

_TYPES: Final[dict[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": list_of(parameter("A")),
    "map": map_of(parameter("A"), parameter("B")),
    "null_type": types.NULL,
    "string": types.STRING,
    "type": types.TYPE,
    "uint": types.UINT,
    "optional_type": types.optional_of(parameter("A")),
    "net.CIDR": types.named("net.CIDR"),
    "net.IP": types.named("net.IP"),
}


class Environment:
    """Declarations that expressions are checked against. Immutable."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        *,
        libraries: Iterable[Library],
        objects: Iterable[ObjectType] = (),
        makes: Iterable[str] = (),
        cost_limit: int,
    ) -> None:
        """`makes` names the types that expressions may construct (`Object{…}`).

        Their nested types (`Object.spec{…}`) are included. The values are maps.
        """
        self.variables = dict(variables)
        self.functions = merge(libraries)
        self.cost_limit = cost_limit
        self._makes = tuple(makes)
        self._objects = {each.name: each for each in objects}

    def identifier(self, name: str) -> Type | None:
        """The type of a variable, or of a type's name, or None."""
        if name in self.variables:
            return self.variables[name]
        found = _TYPES.get(name)
        return None if found is None else type_of(found)

    def fields_of(self, found: Type) -> Mapping[str, Type] | None:
        """The fields of a declared object type; None for other types."""
        declared = self._objects.get(found.name)
        return None if declared is None else declared.fields

    def key_of(self, found: Type, field: str) -> str:
        """The key under which an object of a type holds a field."""
        declared = self._objects.get(found.name)
        return field if declared is None else declared.keys.get(field, field)

    def makes(self, name: str) -> bool:
        """Whether an expression may write a value of a type."""
        return any(name == each or name.startswith(f"{each}.") for each in self._makes)

    def is_type(self, name: str) -> bool:
        """Whether a name is a type's and not a variable's."""
        return name in _TYPES and name not in self.variables

    def type_named(self, name: str) -> str:
        """Return the name of the type that an identifier denotes."""
        assert name in _TYPES
        return name
