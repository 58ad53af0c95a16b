"""Decoding of time fields in documents.

The struct types hold times as strings, which readers parse and compare long after the object was
stored. So the server writes every time of a request in one form, as the reference does when it
decodes a body: in UTC, with whole seconds or with six decimals. It refuses invalid times.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from kubesched.api.time import format_micro_time, format_time, parse_time
from kubesched.cluster.apiserver.rules.schema.definitions import (
    Json,
    definition_of,
    definitions,
    reference_target,
)
from kubesched.foundation.util.go_format import quote

__all__ = ["InvalidTimeError", "canonical_times", "time_problem"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
_LAYOUTS: Final = {
    _TIME: "2006-01-02T15:04:05Z07:00",
    _MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00",
}
_NOTHING: Final[Json] = {}

# Takes a value and a value that was decoded before, and returns the value with canonical times.
# The result is the value itself if it has no other times. Raises InvalidTimeError.
_Decoder = Callable[[Any, Any], Any]


class InvalidTimeError(ValueError):
    """A field that is declared as a time has another text."""


def canonical_times(
    group: str, version: str, kind: str, document: Json, known: Json | None = None
) -> Json:
    """Return a document with all its times in the form that the server stores.

    Parts without other times are the same objects as in the document. Parts that are the same
    objects as in the `known` document are not decoded again.

    Raises:
        InvalidTimeError: the text of a time is not a time.
    """
    decode = _decoder_of_kind(definition_of(group, version, kind))
    if decode is None:
        return document
    decoded: Json = decode(document, known)
    return decoded


def time_problem(group: str, version: str, kind: str, document: Json) -> str:
    """Return the problem of the first invalid time in a document; empty if there is none."""
    try:
        canonical_times(group, version, kind, document)
    except InvalidTimeError as exc:
        return str(exc)
    return ""


@cache
def _decoder_of_kind(name: str | None) -> _Decoder | None:
    """Build the decoder of a kind. For a kind without a definition it decodes the metadata."""
    if name is not None:
        return _decoder_of_definition(name)
    metadata = _decoder_of_definition(_META)
    assert metadata is not None
    return _object_decoder({"metadata": metadata})


@cache
def _decoder_of_definition(name: str, above: tuple[str, ...] = ()) -> _Decoder | None:
    """Build the decoder of a definition; None if it contains no times.

    `above` are the definitions that contain this one.
    """
    if name in _LAYOUTS:
        return _time_decoder(name)
    if name in above:
        return None  # no recursive definition contains a time
    found = {
        field: decode
        for field, schema in definitions()[name].get("properties", {}).items()
        if (decode := _decoder_of_schema(schema, (*above, name))) is not None
    }
    return _object_decoder(found) if found else None


def _decoder_of_schema(schema: Json, above: tuple[str, ...]) -> _Decoder | None:
    name = reference_target(schema)
    if name is None and len(parts := schema.get("allOf", ())) == 1:
        name = reference_target(parts[0])
    if name is not None:
        return _decoder_of_definition(name, above)
    for keyword, make_decoder in (("items", _list_decoder), ("additionalProperties", _map_decoder)):
        part = schema.get(keyword)
        if isinstance(part, dict) and (inner := _decoder_of_schema(part, above)) is not None:
            return make_decoder(inner)
    return None


def _time_decoder(name: str) -> _Decoder:
    format_canonical = format_time if name == _TIME else format_micro_time
    layout = _LAYOUTS[name]

    def decode(value: Any, _known: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            decoded = format_canonical(parse_time(value))
        except (ValueError, OverflowError) as exc:
            shown = quote(value[:100])
            text = f'parsing time {shown} as "{layout}": cannot parse {shown} as "2006"'
            raise InvalidTimeError(text) from exc
        return value if decoded == value else decoded

    return decode


def _object_decoder(fields: dict[str, _Decoder]) -> _Decoder:
    def decode(value: Any, known: Any) -> Any:
        if value is known or not isinstance(value, dict):
            return value
        before: dict[str, Any] = known if isinstance(known, dict) else _NOTHING
        changed: dict[str, Any] = {}
        for field, inner in fields.items():
            each = value.get(field)
            if each is None or each is before.get(field):
                continue
            decoded = inner(each, before.get(field))
            if decoded is not each:
                changed[field] = decoded
        return {**value, **changed} if changed else value

    return decode


def _list_decoder(inner: _Decoder) -> _Decoder:
    def decode(value: Any, known: Any) -> Any:
        if value is known or not isinstance(value, list):
            return value
        decoded_before = {*map(id, known)} if isinstance(known, list) else ()
        changed = False
        items = []
        for each in value:
            decoded = each if id(each) in decoded_before else inner(each, None)
            changed |= decoded is not each
            items.append(decoded)
        return items if changed else value

    return decode


def _map_decoder(inner: _Decoder) -> _Decoder:
    def decode(value: Any, known: Any) -> Any:
        if value is known or not isinstance(value, dict):
            return value
        changed = {
            key: decoded
            for key, each in value.items()
            if (decoded := inner(each, None)) is not each
        }
        return {**value, **changed} if changed else value

    return decode
