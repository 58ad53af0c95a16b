"""The base of all API types: immutable msgspec structs with the API's JSON names.

To change an object, create a new one (`msgspec.structs.replace`). Dictionaries inside are shared
and must not be modified. Fields that kubesched does not read are not declared; decoding ignores
them.

The version and the kind of an object belong to its type (`Pod.kind`), not to the instance:
objects from a list have neither on the wire, and must equal the same objects from a watch.
`codec.encode` writes both.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, dataclass_transform

import msgspec

__all__ = ["ApiObject", "ApiStruct", "Int32", "Int64", "IntOrString", "RawQuantity", "ResourceList"]

# Integers of the API: decoding rejects larger ones.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

# A quantity in its wire format; `quantity.parse_quantity` parses it.
RawQuantity = str | int | float

ResourceList = dict[str, RawQuantity]

IntOrString = Int32 | str


# Struct options are inherited, but type checkers need the declaration on each class.
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
    """A top-level object; subclasses set the version and the kind."""

    api_version: ClassVar[str] = ""
    kind: ClassVar[str] = ""
