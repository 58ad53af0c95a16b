"""Encodes objects and their changes as lines of a recording.

A line has the fields that scheduling reads (`clusters/read_fields.py`), and the resource version.
An update has only the fields that differ from the previous version.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from kubesched.api import Pod
from kubesched.api.codec import from_builtins
from kubesched.explain.clusters.read_fields import (
    CAPTURED_KINDS,
    READ_ANNOTATIONS,
    read_fields_of,
    with_read_fields,
)

__all__ = [
    "NOT_REPLAYED",
    "NO_NODE_FITS",
    "RECORDED_KINDS",
    "RecordedObjects",
    "added_line",
    "removed_line",
    "updated_line",
]

RECORDED_KINDS: Final = {kind.type: kind.kind for kind in CAPTURED_KINDS}
# Stored instead of the number of evaluated nodes of a decision.
NO_NODE_FITS: Final = -1
NOT_REPLAYED: Final = -2  # an error, or an attempt with extenders
_TYPES: Final = {kind.kind: kind.type for kind in CAPTURED_KINDS}
_encode = msgspec.json.Encoder().encode


def added_line(at_ns: int, new: Any) -> bytes:
    """Return the line of a new object, or of one in a snapshot."""
    document: dict[str, Any] = {}
    for name, encoded, default in _fields_of(new):
        value = getattr(new, name)
        if isinstance(value, msgspec.Struct):
            document[encoded] = _section(value)
        elif value != default:
            document[encoded] = _document(value)
    kind = RECORDED_KINDS[type(new)]
    return _encode(("+", at_ns, kind, new.metadata.resource_version, document))


def removed_line(at_ns: int, gone: Any) -> bytes:
    metadata = gone.metadata
    return _encode(("-", at_ns, RECORDED_KINDS[type(gone)], metadata.namespace, metadata.name))


def updated_line(at_ns: int, old: Any, new: Any) -> bytes:
    """Return the line of a changed object."""
    metadata = new.metadata
    if old.metadata.uid != metadata.uid:
        return added_line(at_ns, new)
    # No decision depends on the conditions of a pod on a node, and kubelets write them often.
    is_placed = type(new) is Pod and bool(old.spec.node_name)
    sections: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {}
    for name, encoded, _ in _fields_of(new):
        before, after = getattr(old, name), getattr(new, name)
        if before is after:
            continue
        if isinstance(after, msgspec.Struct) and type(before) is type(after):
            changed = _section(after, before, "conditions" if is_placed else "")
            if changed:
                sections[encoded] = changed
        elif before != after:
            whole[encoded] = _document(after)
    kind, version = RECORDED_KINDS[type(new)], metadata.resource_version
    return _encode(("~", at_ns, kind, metadata.namespace, metadata.name, version, sections, whole))


def _section(
    value: msgspec.Struct, before: msgspec.Struct | None = None, without: str = ""
) -> dict[str, Any]:
    """Return the read fields of a part of an object: all, or those that differ from `before`."""
    found: dict[str, Any] = {}
    for name, encoded, default in _fields_of(value):
        each = getattr(value, name)
        if before is None:
            if each is default or each == default:
                continue
        else:
            other = getattr(before, name)
            if each is other or name == without or each == other:
                continue
        if isinstance(each, _PLAIN):
            found[encoded] = each
        elif name == "annotations":
            found[encoded] = {key: text for key, text in each.items() if key in READ_ANNOTATIONS}
        elif name == "volumes":
            # The volumes to record depend on the pod that contains them.
            read: Any = with_read_fields(value)
            found[encoded] = read.volumes
        else:
            found[encoded] = _part(each)
    return found


def _document(value: Any) -> Any:
    """Return the read fields of a value in the encoded form."""
    if isinstance(value, msgspec.Struct):
        return _section(value)
    if isinstance(value, tuple):
        return [_document(each) for each in value]
    if isinstance(value, dict):
        return {key: _document(each) for key, each in value.items()}
    return value


# Encoded parts of objects by identity. Pods of one template share their parts.
_PARTS: Final[dict[int, tuple[Any, msgspec.Raw]]] = {}
_MOST_PARTS: Final = 10_000
_PLAIN: Final = (str, int, float, bool, type(None))


def _part(value: Any) -> msgspec.Raw:
    known = _PARTS.get(id(value))
    if known is not None and known[0] is value:
        return known[1]
    raw = msgspec.Raw(_encode(_document(value)))
    if len(_PARTS) >= _MOST_PARTS:
        _PARTS.clear()
    _PARTS[id(value)] = (value, raw)
    return raw


def _fields_of(value: msgspec.Struct) -> tuple[tuple[str, str, Any], ...]:
    return _fields(type(value))


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, str, Any], ...]:
    """Return the fields that scheduling reads: the name in Python, in JSON, and the default."""
    read = read_fields_of(kind.__name__)
    found = []
    for field in msgspec.structs.fields(kind):
        if field.name in read:
            default = field.default
            if field.default_factory is not msgspec.NODEFAULT:
                default = field.default_factory()
            found.append((field.name, field.encode_name, default))
    return tuple(found)


class RecordedObjects:
    """Decodes the lines of one segment; it has the last state of every object."""

    def __init__(self) -> None:
        self._documents: dict[tuple[str, str, str], dict[str, Any]] = {}

    def read(self, record: list[Any]) -> tuple[type[Any], str, str, Any]:
        """Return type, namespace and name of an object, and its new state or None."""
        match record:
            case ["+", _, kind, version, document]:
                metadata = document["metadata"]
                metadata["resourceVersion"] = version
                namespace, name = metadata.get("namespace", ""), metadata["name"]
                self._documents[kind, namespace, name] = document
            case ["-", _, kind, namespace, name]:
                self._documents.pop((kind, namespace, name), None)
                return _TYPES[kind], namespace, name, None
            case [_, _, kind, namespace, name, version, changes, whole]:
                document = self._documents[kind, namespace, name]
                for section, values in changes.items():
                    document.setdefault(section, {}).update(values)
                document.update(whole)
                document["metadata"]["resourceVersion"] = version
            case _:
                raise ValueError(f"unknown record {record[:1]}")
        return _TYPES[kind], namespace, name, from_builtins(document, _TYPES[kind])
