"""Decoding of objects from Kubernetes' protobuf encoding to JSON.

The field numbers are those of the published message definitions. Unknown fields are skipped, as
usual for protocol buffers.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.time import format_time
from kubesched.cluster.apiserver.http.protobuf.message_definitions import (
    CRD,
    DELETE_OPTIONS,
    MAGIC,
    META,
    messages,
)
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import MalformedError, fields
from kubesched.cluster.apiserver.rules.errors.value_limit import (
    MOST_VALUES,
    check_values,
    value_refusal,
)
from kubesched.cluster.apiserver.rules.schema import definition_of
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import format_duration

__all__ = ["read_protobuf"]

Json = dict[str, Any]

_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"


def read_protobuf(body: bytes) -> Json:
    """Decode the object in a body, with its kind and version.

    Raises:
        MalformedError: the body is invalid, or its kind has no known message definition.
        ApiError: 413, the object has too many fields.
    """
    if not body.startswith(MAGIC):
        raise MalformedError("provided data does not appear to be a protobuf message")
    envelope: dict[int, bytes] = {
        number: value for number, value in fields(body[len(MAGIC) :]) if isinstance(value, bytes)
    }
    head = dict(fields(envelope.get(1, b"")))
    api_version, kind = (
        value.decode(errors="replace") if isinstance(value := head.get(number, b""), bytes) else ""
        for number in (1, 2)
    )
    group, _, version = api_version.rpartition("/")
    name = DELETE_OPTIONS if kind == "DeleteOptions" else definition_of(group, version, kind)
    if name is None or name not in messages():
        raise MalformedError(f"no binary form of {kind} in {api_version} is known")
    try:
        content = _message(envelope.get(2, b""), name, _Budget())
    except RecursionError:
        raise MalformedError("exceeded max depth") from None
    return {"kind": kind, "apiVersion": api_version, **content}


class _Budget:
    """The number of further fields that one body may have, unknown fields included."""

    def __init__(self) -> None:
        self._left = MOST_VALUES

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise value_refusal()


def _message(message: bytes, name: str, budget: _Budget) -> Json:
    known = messages().get(name, {})
    document: Json = {}
    for number, raw in fields(message):
        budget.spend()
        field = known.get(str(number))
        if field is None:
            continue
        label, form, kind = field
        if form == "map":
            key, value = _entry(raw, kind, budget)
            document.setdefault(label, {})[key] = value
            continue
        value = _value(raw, kind, budget)
        if form == "list":
            document.setdefault(label, []).append(value)
        elif form == "inline":
            document.update(value)
        elif value is not None and (form == "kept" or value not in ("", 0) or _is_zero(kind, raw)):
            # Encoders always write zero values. In JSON only fields of the form `kept` have them.
            document[label] = value
    return document


def _is_zero(kind: str, raw: int | bytes) -> bool:
    """Whether a value is the number 0 of a field for a number or a text.

    Encoders write such a field only if it is set.
    """
    return kind == _INT_OR_STRING and isinstance(raw, bytes) and _int_or_string(raw) == 0


def _entry(raw: int | bytes, kind: str, budget: _Budget) -> tuple[str, Any]:
    if not isinstance(raw, bytes):
        raise MalformedError("expected an entry of a map")
    parts = dict(fields(raw))
    key = parts.get(1, b"")
    if not isinstance(key, bytes):
        raise MalformedError("expected the key of a map")
    empty: int | bytes = 0 if kind in ("i", "b") else b""
    return key.decode(errors="replace"), _value(parts.get(2, empty), kind, budget)


def _value(raw: int | bytes, kind: str, budget: _Budget) -> Any:
    if isinstance(raw, int):
        if kind not in ("i", "b"):
            raise MalformedError("a number where there should be none")
        return bool(raw) if kind == "b" else raw
    if kind == "s":
        return raw.decode(errors="replace")
    if kind == "y":
        return base64.b64encode(raw).decode()
    if kind == "d" and len(raw) == 8:
        return struct.unpack("<d", raw)[0]
    if (special := _SPECIAL.get(kind)) is not None:
        return special(raw)
    if (schemas := _SCHEMAS.get(kind)) is not None:
        return schemas(raw, budget)
    if kind in ("i", "b", "d", "f"):
        raise MalformedError("bytes where there should be a number")
    return _message(raw, kind, budget)


def _numbers(raw: bytes) -> dict[int, int]:
    return {number: value for number, value in fields(raw) if isinstance(value, int)}


def _text(raw: bytes, number: int = 1) -> str:
    value = dict(fields(raw)).get(number, b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _time(raw: bytes) -> str | None:
    seconds = _numbers(raw).get(1, 0)
    return format_time(seconds * SECOND) if seconds else None


def _micro_time(raw: bytes) -> str | None:
    numbers = _numbers(raw)
    seconds, nanoseconds = numbers.get(1, 0), numbers.get(2, 0)
    if not seconds:
        return None
    return f"{format_time(seconds * SECOND)[:-1]}.{nanoseconds // 1000:06d}Z"


def _int_or_string(raw: bytes) -> int | str:
    numbers = _numbers(raw)
    return _text(raw, 3) if numbers.get(1) else numbers.get(2, 0)


def _raw_json(raw: bytes) -> Any:
    content = dict(fields(raw)).get(1, b"")
    if not isinstance(content, bytes) or not content:
        return None
    check_values(content)
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError as exc:
        raise MalformedError(f"embedded JSON cannot be read: {exc}") from exc


def _items(raw: bytes) -> list[str]:
    return [value.decode(errors="replace") for _, value in fields(raw) if isinstance(value, bytes)]


def _duration(raw: bytes) -> str:
    return format_duration(_numbers(raw).get(1, 0))


def _schema_or(raw: bytes) -> Any:
    """Decode a message that holds a schema or an alternative (several, names, a boolean)."""
    parts: dict[int, list[int | bytes]] = {}
    for number, value in fields(raw):
        parts.setdefault(number, []).append(value)
    return parts


def _schema_or_list(raw: bytes, budget: _Budget) -> Any:
    parts = _schema_or(raw)
    if 2 in parts:
        return [_value(each, CRD + "JSONSchemaProps", budget) for each in parts[2]]
    return _value(parts[1][0], CRD + "JSONSchemaProps", budget) if 1 in parts else None


def _schema_or_bool(raw: bytes, budget: _Budget) -> Any:
    parts = _schema_or(raw)
    if 2 in parts:
        return _value(parts[2][0], CRD + "JSONSchemaProps", budget)
    return bool(parts.get(1, [0])[0])


def _schema_or_names(raw: bytes, budget: _Budget) -> Any:
    parts = _schema_or(raw)
    if 2 in parts:
        return [_value(each, "s", budget) for each in parts[2]]
    return _value(parts[1][0], CRD + "JSONSchemaProps", budget) if 1 in parts else None


_SCHEMAS: dict[str, Callable[[bytes, _Budget], Any]] = {
    CRD + "JSONSchemaPropsOrArray": _schema_or_list,
    CRD + "JSONSchemaPropsOrBool": _schema_or_bool,
    CRD + "JSONSchemaPropsOrStringArray": _schema_or_names,
}
_SPECIAL: dict[str, Callable[[bytes], Any]] = {
    CRD + "JSON": _raw_json,
    META + "Duration": _duration,
    META + "Time": _time,
    META + "MicroTime": _micro_time,
    META + "FieldsV1": _raw_json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _text,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    _INT_OR_STRING: _int_or_string,
    "io.k8s.api.authentication.v1.ExtraValue": _items,
    "io.k8s.api.authorization.v1.ExtraValue": _items,
    "io.k8s.api.certificates.v1.ExtraValue": _items,
}
