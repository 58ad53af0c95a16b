"""Encoding of objects from JSON to Kubernetes' protobuf encoding.

The server uses it for clients that accept nothing else. Fields that the published message
definitions do not have are omitted.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.http.protobuf.message_definitions import CRD, MAGIC, META, messages
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import text, varint, wrapped
from kubesched.cluster.apiserver.rules.schema import definition_of
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import parse_duration

__all__ = ["UnwritableError", "watch_frame", "write_protobuf"]

Json = Mapping[str, Any]

_MASK = (1 << 64) - 1
_META_KINDS = frozenset(
    {
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "Status",
    }
)


class UnwritableError(KubeschedError):
    """The object's kind has no known message definition."""


def write_protobuf(document: Json) -> bytes:
    """Encode an object, in an envelope with its kind and version.

    Raises:
        UnwritableError: its kind has no known message definition.
    """
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    content = _top(document, api_version, kind)
    head = text(1, api_version) + text(2, kind)
    return MAGIC + wrapped(1, head) + wrapped(2, content) + text(3, "") + text(4, "")


def watch_frame(kind: str, document: Json) -> bytes:
    """Encode an event of a watch: its length in four bytes, then the event."""
    event = text(1, kind) + wrapped(2, wrapped(1, write_protobuf(document)))
    return struct.pack(">I", len(event)) + event


def _top(document: Json, api_version: str, kind: str) -> bytes:
    name = _message_name(api_version, kind)
    if name is not None:
        return _message(document, name)
    item = kind.removesuffix("List")
    name = _message_name(api_version, item) if item != kind else None
    if name is None:
        raise UnwritableError(f"no binary form of {kind} in {api_version} is known")
    # All list messages have the same fields: metadata and items.
    pieces = [wrapped(1, _message(document.get("metadata") or {}, META + "ListMeta"))]
    pieces += [wrapped(2, _message(each, name)) for each in document.get("items") or ()]
    return b"".join(pieces)


def _message_name(api_version: str, kind: str) -> str | None:
    if kind in _META_KINDS:
        return META + kind
    group, _, version = api_version.rpartition("/")
    name = definition_of(group, version, kind)
    return name if name in messages() else None


@cache
def _numbers(name: str) -> tuple[tuple[int, str, str, str], ...]:
    return tuple(
        (int(number), label, form, kind) for number, (label, form, kind) in messages()[name].items()
    )


def _message(document: Json, name: str) -> bytes:
    return b"".join(_fields(document, name))


def _fields(document: Json, name: str) -> Iterator[bytes]:
    for number, label, form, kind in _numbers(name):
        if form == "inline":
            yield wrapped(number, _message(document, kind))
            continue
        value = document.get(label)
        if value is None:
            continue
        if form == "map":
            for key, each in value.items():
                yield wrapped(number, text(1, key) + _field(2, each, kind))
        elif form == "list":
            for each in value:
                yield _field(number, each, kind)
        else:
            yield _field(number, value, kind)


def _field(number: int, value: Any, kind: str) -> bytes:
    if kind == "s":
        return text(number, str(value))
    if kind in ("i", "b"):
        return varint(number << 3) + varint(int(value) & _MASK)
    if kind == "y":
        return wrapped(number, base64.b64decode(value))
    if kind == "d":
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if (special := _SPECIAL.get(kind)) is not None:
        return wrapped(number, special(value))
    return wrapped(number, _message(value, kind))


def _time(value: Any) -> bytes:
    ns = parse_time(value)
    return _field(1, ns // SECOND, "i") + _field(2, 0, "i")


def _micro_time(value: Any) -> bytes:
    seconds, nanoseconds = divmod(parse_time(value), SECOND)
    return _field(1, seconds, "i") + _field(2, nanoseconds, "i")


def _int_or_string(value: Any) -> bytes:
    if isinstance(value, str):
        return _field(1, 1, "i") + _field(2, 0, "i") + text(3, value)
    return _field(1, 0, "i") + _field(2, value, "i") + text(3, "")


def _raw_json(value: Any) -> bytes:
    return wrapped(1, msgspec.json.encode(value))


def _items(value: Any) -> bytes:
    return b"".join(text(1, each) for each in value)


def _schema_or_list(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_field(2, each, CRD + "JSONSchemaProps") for each in value)
    return _field(1, value, CRD + "JSONSchemaProps")


def _schema_or_bool(value: Any) -> bytes:
    if isinstance(value, bool):
        return _field(1, value, "b")
    return _field(1, True, "b") + _field(2, value, CRD + "JSONSchemaProps")


def _schema_or_names(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(text(2, each) for each in value)
    return _field(1, value, CRD + "JSONSchemaProps")


_SPECIAL: dict[str, Callable[[Any], bytes]] = {
    CRD + "JSON": _raw_json,
    CRD + "JSONSchemaPropsOrArray": _schema_or_list,
    CRD + "JSONSchemaPropsOrBool": _schema_or_bool,
    CRD + "JSONSchemaPropsOrStringArray": _schema_or_names,
    META + "Duration": lambda value: _field(1, parse_duration(value), "i"),
    META + "Time": _time,
    META + "MicroTime": _micro_time,
    META + "FieldsV1": _raw_json,
    META + "Verbs": _items,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": lambda value: text(1, str(value)),
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.api.authentication.v1.ExtraValue": _items,
    "io.k8s.api.authorization.v1.ExtraValue": _items,
    "io.k8s.api.certificates.v1.ExtraValue": _items,
}
