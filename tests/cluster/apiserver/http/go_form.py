"""Objects as typed Go clients encode them: as protobuf with zeros and empty structures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.http.protobuf.message_definitions import (
    DELETE_OPTIONS,
    MAGIC,
    META,
    messages,
)
from kubesched.cluster.apiserver.http.protobuf.protobuf_writer import _SPECIAL as LEAVES
from kubesched.cluster.apiserver.http.protobuf.protobuf_writer import _field as written_field
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import text, varint, wrapped
from kubesched.cluster.apiserver.rules.schema import definition_of

__all__ = ["as_in_go", "options_as_in_go"]

# Fields that are not pointers in Go, so clients always encode them.
STRUCTURES = frozenset(
    {
        "acceptedNames",
        "deprecatedSource",
        "involvedObject",
        "jobTemplate",
        "lastState",
        "loadBalancer",
        "metadata",
        "names",
        "nodeInfo",
        "regarding",
        "resources",
        "source",
        "spec",
        "state",
        "status",
        "strategy",
        "template",
        "updateStrategy",
    }
)
# Fields with such a name that are pointers nevertheless.
POINTERS = frozenset(
    {
        ("io.k8s.api.core.v1.ContainerStatus", "resources"),
        ("io.k8s.api.core.v1.PodSpec", "resources"),
        ("io.k8s.api.core.v1.PodStatus", "resources"),
        ("io.k8s.api.core.v1.ReplicationControllerSpec", "template"),
    }
)


def as_in_go(document: Mapping[str, Any], api_version: str, kind: str) -> bytes:
    group, _, version = api_version.rpartition("/")
    name = definition_of(group, version, kind)
    assert name is not None
    head = text(1, api_version) + text(2, kind)
    return MAGIC + wrapped(1, head) + wrapped(2, with_zeros(document, name))


def with_zeros(document: Mapping[str, Any], name: str) -> bytes:
    """Encode a document, with zeros for absent fields as in Go."""
    pieces = []
    for number, (label, form, kind) in messages()[name].items():
        field, value = int(number), document.get(label)
        is_message = kind.startswith("io.") and kind not in LEAVES
        if form == "inline":
            pieces.append(wrapped(field, with_zeros(document, kind)))
        elif value is not None and is_message and form == "map":
            pieces += [
                wrapped(field, text(1, key) + wrapped(2, with_zeros(each, kind)))
                for key, each in value.items()
            ]
        elif value is not None and is_message:
            values = value if form == "list" else [value]
            pieces += [wrapped(field, with_zeros(each, kind)) for each in values]
        elif value is not None:
            pieces.append(leaves(field, value, form, kind))
        elif form == "one" and kind == "s":
            pieces.append(text(field, ""))
        elif form == "one" and kind in ("i", "b"):
            pieces.append(varint(field << 3) + varint(0))
        elif form == "one" and kind == f"{META}Time":
            pieces.append(wrapped(field, b""))
        elif form == "one" and is_message and _is_structure(name, label):
            pieces.append(wrapped(field, with_zeros({}, kind)))
    return b"".join(pieces)


def _is_structure(name: str, label: str) -> bool:
    return label in STRUCTURES and (name, label) not in POINTERS


def leaves(field: int, value: Any, form: str, kind: str) -> bytes:
    """Encode a field that does not contain a message."""
    if form == "map":
        entries = [text(1, key) + written_field(2, each, kind) for key, each in value.items()]
        return b"".join(wrapped(field, each) for each in entries)
    values = value if form == "list" else [value]
    return b"".join(written_field(field, each, kind) for each in values)


def options_as_in_go(options: Mapping[str, Any]) -> bytes:
    """Encode DeleteOptions."""
    head = text(1, "meta.k8s.io/v1") + text(2, "DeleteOptions")
    return MAGIC + wrapped(1, head) + wrapped(2, with_zeros(options, DELETE_OPTIONS))
