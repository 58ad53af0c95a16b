"""What every API type is: an immutable msgspec struct with the API's JSON names.

A change is a new struct (`msgspec.structs.replace`). Dictionaries inside are shared and must
not be edited. Fields of the API that nothing here reads are not declared; they are ignored
when decoding.

The version and the kind of an object belong to its type (`Pod.kind`), not to the instance:
objects from a list carry neither on the wire, and must equal the same objects from a watch.
`codec.encode` writes both.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, dataclass_transform

import msgspec

__all__ = ["ApiObject", "ApiStruct", "Int32", "Int64", "IntOrString", "RawQuantity", "ResourceList"]

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Integers as the API has them: a document with a larger one is not of the type."""

RawQuantity = str | int | float
"""A quantity as it stands on the wire; `quantity.parse_quantity` reads it."""

ResourceList = dict[str, RawQuantity]

IntOrString = Int32 | str


# Struct options are inherited, but type checkers look for them on each class anew.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class ApiStruct(
    msgspec.Struct,
    rename="camel",
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    repr_omit_defaults=True,
    gc=False,
):
    """A value inside an API object."""


class ApiObject(ApiStruct):
    """A top-level object. Subclasses say which."""

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""
