"""Values of API types that no client should send: of the right shape, with extreme leaves.

`documents(Pod)` draws JSON documents that decode as a Pod, or nearly so. Few fields are set, to
values at and beyond the limits of their range.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from hypothesis import strategies as st

from kubesched.api.base import RawQuantity

__all__ = ["INTEGERS", "QUANTITIES", "TEXTS", "documents"]

INTEGERS = (
    0,
    1,
    -1,
    100,
    2**31 - 1,
    2**31,
    -(2**31) - 1,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63),
    10**30,
)
QUANTITIES: tuple[Any, ...] = (
    "0",
    "1",
    "-1",
    "1m",
    "100n",
    "1.5Gi",
    "8Ei",
    "8191Pi",
    "9223372036854775807",
    "1e400",
    "1E99999",
    "1e-400",
    "",
    "abc",
    "1Gi1",
    " 1",
    "٣",
    "0x10",
    "+.5",
    ".",
    "--1",
    2**63,
    -5,
    0.1,
    1e308,
    10**40,
    "9" * 5000,
)
TEXTS = (
    "",
    "a",
    "n0",
    "default",
    "kubernetes.io/hostname",
    "In",
    "Exists",
    "NotIn",
    "Gt",
    "Lt",
    "Equal",
    "NoSchedule",
    "NoExecute",
    "DoNotSchedule",
    "ScheduleAnyway",
    "Honor",
    "Always",
    "Never",
    "TCP",
    "9223372036854775808",
    "-1",
    "é\u0000\ud7ff",
    "x" * 10_000,
    "a/b/c",
    "../..",
    "{}",
    "null",
    "2026-01-01T00:00:00Z",
    "9999-99-99",
    "9" * 5000,
    "²",
    "0001-01-01T00:00:00Z",
    "default-scheduler",
)
_RESOURCE_NAMES = (
    "cpu",
    "memory",
    "pods",
    "ephemeral-storage",
    "hugepages-2Mi",
    "example.com/gpu",
    "",
    "x" * 400,
)

_KEYS = ("kubernetes.io/hostname", "a", "", "app", "topology.kubernetes.io/zone", "x" * 400)


def documents(kind: type[msgspec.Struct], most_fields: int = 6) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON documents of a type."""
    return _of(msgspec.inspect.type_info(kind), most_fields, 0)


def _of(info: Any, most: int, depth: int) -> st.SearchStrategy[Any]:
    match info:
        case msgspec.inspect.StructType():
            return _struct(info.cls, most, depth)
        case (
            msgspec.inspect.ListType() | msgspec.inspect.VarTupleType() | msgspec.inspect.SetType()
        ):
            return st.lists(_of(info.item_type, most, depth + 1), max_size=3)
        case msgspec.inspect.DictType():
            if info.value_type == msgspec.inspect.type_info(RawQuantity):
                return st.dictionaries(
                    st.sampled_from(_RESOURCE_NAMES), st.sampled_from(QUANTITIES), max_size=4
                )
            keys = st.sampled_from(_KEYS)
            return st.dictionaries(keys, _of(info.value_type, most, depth + 1), max_size=3)
        case msgspec.inspect.UnionType():
            if info == msgspec.inspect.type_info(RawQuantity):
                return st.sampled_from(QUANTITIES)
            return st.one_of([_of(each, most, depth) for each in info.types])
        case msgspec.inspect.IntType():
            return st.sampled_from(INTEGERS)
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.StrType():
            return st.sampled_from(TEXTS)
        case msgspec.inspect.FloatType():
            return st.sampled_from([0.0, -1.5, 1e308])
        case _:
            return st.sampled_from([None, 0, "", [], {}])


@functools.cache  # inspecting a type takes longer than drawing a value
def _fields(cls: type[msgspec.Struct]) -> dict[str, Any]:
    info: Any = msgspec.inspect.type_info(cls)
    return {field.encode_name: field.type for field in info.fields}


def _struct(cls: type[msgspec.Struct], most: int, depth: int) -> st.SearchStrategy[Any]:
    fields = _fields(cls)
    limit = most if depth == 0 else max(2, most - depth)

    @st.composite
    def draw(draw: Any) -> dict[str, Any]:
        names = (
            draw(st.lists(st.sampled_from(sorted(fields)), max_size=limit, unique=True))
            if fields
            else []
        )
        return {name: draw(_of(fields[name], most, depth + 1)) for name in names}

    return draw()
