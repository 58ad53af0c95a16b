"""The building blocks of configuration types: the base struct, and scalars with ranges.

To a type checker the scalars are plain `int` and `float`. The decoder reads the name in
`extra` to check the range, to accept a duration only in its written form, and to word its
errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, dataclass_transform

import msgspec
from msgspec import Meta, inspect

__all__ = [
    "MILLISECOND",
    "MINUTE",
    "SCALAR",
    "SECOND",
    "ConfigStruct",
    "DurationNs",
    "Float32",
    "Int32",
    "Int64",
    "RawValue",
    "scalar_members",
]

MILLISECOND: Final = 1_000_000
SECOND: Final = 1000 * MILLISECOND
MINUTE: Final = 60 * SECOND

SCALAR: Final = "scalar"  # the key in `extra`

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, extra={SCALAR: "int32"})]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra={SCALAR: "int64"})]
Float32 = Annotated[float, Meta(extra={SCALAR: "float32"})]

# Nanoseconds in memory, text such as "1m30s" in the file.
DurationNs = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra={SCALAR: "duration"})]

# A value that the decoder returns unchanged; another module decodes it.
RawValue = Annotated[Any, Meta(extra={SCALAR: "raw"})]


@cache
def scalar_members(struct: type) -> Mapping[str, str]:
    """Return the members of a struct that are scalars of this module, by name in the file."""
    described = inspect.type_info(struct)
    if not isinstance(described, inspect.StructType):
        return {}
    scalars = {field.encode_name: _scalar(field.type) for field in described.fields}
    return {name: scalar for name, scalar in scalars.items() if scalar}


def _scalar(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        return "".join(map(_scalar, kind.types))
    return (kind.extra or {}).get(SCALAR, "") if isinstance(kind, inspect.Metadata) else ""


# Struct options are inherited, but type checkers read them on each class.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of configuration types: immutable, with the names of the file."""
