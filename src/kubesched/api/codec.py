"""Conversion between JSON and API types.

Decoders are built once per type. They ignore unknown fields, and treat null as absent, as the
reference does. Encoding writes `kind` and `apiVersion`, which belong to the type of an object.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api.access import ObjectList
from kubesched.api.base import ApiObject, ApiStruct
from kubesched.api.meta import ListMeta

__all__ = [
    "decode",
    "decode_list",
    "encode",
    "encode_list",
    "from_builtins",
    "to_builtins",
]

T = TypeVar("T", bound=msgspec.Struct)

_ENCODER = msgspec.json.Encoder()

# Servers accept 10,000 levels of JSON; removing nulls needs two calls per level.
_MAX_DEPTH = 25_000


class _Page(ApiStruct, Generic[T]):
    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode an object of a known type.

    Raises:
        msgspec.DecodeError: invalid JSON, or (ValidationError) not an object of that type.
    """
    try:
        try:
            return _decode(data, kind)
        except RecursionError:
            pass
        with _raised_recursion_limit():
            return _decode(data, kind)
    except UnicodeDecodeError as exc:
        raise msgspec.ValidationError(f"a text is not UTF-8: {exc}") from exc
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply") from None


def decode_list(data: bytes | str, kind: type[T]) -> ObjectList[T]:
    """Decode one page of objects of a known type."""
    page: type[_Page[T]] = _Page[kind]  # type: ignore[valid-type]
    decoded = decode(data, page)
    metadata = decoded.metadata
    return ObjectList(decoded.items, metadata.resource_version, metadata.continue_token)


def encode(obj: msgspec.Struct) -> bytes:
    """Encode an object; a top-level one starts with its kind and version."""
    body = _ENCODER.encode(obj)
    if not isinstance(obj, ApiObject):
        return body
    head = _head(obj.kind, obj.api_version)
    return head + b"}" if body == b"{}" else head + b"," + body[1:]


def encode_list(
    items: Iterable[msgspec.Struct],
    kind: type[ApiObject],
    *,
    resource_version: str = "",
    continue_token: str = "",
    remaining_item_count: int | None = None,
) -> bytes:
    """Encode one page of objects; the items have neither kind nor version."""
    metadata = ListMeta(
        resource_version=resource_version,
        continue_token=continue_token,
        remaining_item_count=remaining_item_count,
    )
    head = _head(f"{kind.kind}List", kind.api_version)
    page = {"metadata": metadata, "items": list(items)}
    return head + b"," + _ENCODER.encode(page)[1:]


def from_builtins(document: Mapping[str, Any], kind: type[T]) -> T:
    """Convert dictionaries and lists with the API's names to an object."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError:
        return msgspec.convert(_without_nulls(document), kind)


def to_builtins(obj: msgspec.Struct) -> dict[str, Any]:
    """Convert an object to dictionaries and lists with the API's names."""
    # Through JSON, because msgspec's own conversion keeps tuples instead of lists.
    document: dict[str, Any] = msgspec.json.decode(encode(obj))
    return document


def _decode(data: bytes | str, kind: type[T]) -> T:
    try:
        decoded: T = _decoder(kind).decode(data)
        return decoded
    except msgspec.ValidationError:
        return from_builtins(_decode_without_nulls(data), kind)


@contextmanager
def _raised_recursion_limit() -> Iterator[None]:
    """Accept JSON that is nested thousands of levels deep, as API servers do."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(_MAX_DEPTH)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _head(kind: str, api_version: str) -> bytes:
    return b'{"kind":' + _ENCODER.encode(kind) + b',"apiVersion":' + _ENCODER.encode(api_version)


def _decode_without_nulls(data: bytes | str) -> Any:
    # A decoder accepts null only for fields whose type allows None, but a server may write null
    # for any list or map that is nil (`drivers: null` in a CSINode).
    return _without_nulls(msgspec.json.decode(data))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    return value
