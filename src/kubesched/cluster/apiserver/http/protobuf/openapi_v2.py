"""The OpenAPI v2 document as protobuf, the only form that older kubectl versions read.

They use the schemas in it to validate manifests and to explain fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.http.protobuf.wire_encoding import text, wrapped

__all__ = ["openapi_v2"]

_EXTENSION = "x-kubernetes-"
# Numbers of fields in the messages Document, Info, Definitions, NamedSchema and Schema.
_SWAGGER, _INFO, _PATHS, _DEFINITIONS = 1, 2, 8, 9
_TITLE, _VERSION = 1, 2
_NAME, _VALUE = 1, 2
_REFERENCE, _FORMAT, _DESCRIPTION, _REQUIRED = 1, 2, 4, 19
_ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _VENDOR = 21, 22, 23, 25, 31


def openapi_v2(schemas: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Encode a document with these definitions."""
    definitions = b"".join(_named(name, _schema(schema)) for name, schema in schemas.items())
    info = text(_TITLE, "Kubernetes") + text(_VERSION, "v1.36.4")
    return (
        text(_SWAGGER, "2.0")
        + wrapped(_INFO, info)
        + wrapped(_PATHS, b"")
        + wrapped(_DEFINITIONS, definitions)
    )


def _named(name: str, content: bytes) -> bytes:
    return wrapped(1, text(_NAME, name) + wrapped(_VALUE, content))


def _schema(schema: Mapping[str, Any]) -> bytes:
    parts = []
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        parts.append(text(_REFERENCE, f"#/definitions/{name}"))
    for number, field in ((_FORMAT, "format"), (_DESCRIPTION, "description")):
        if value := schema.get(field):
            parts.append(text(number, value))
    parts += [text(_REQUIRED, name) for name in schema.get("required", ())]
    if isinstance(rest := schema.get("additionalProperties"), Mapping):
        parts.append(wrapped(_ADDITIONAL, wrapped(1, _schema(rest))))
    if kind := schema.get("type"):
        parts.append(wrapped(_TYPE, text(1, kind)))
    if (items := schema.get("items")) is not None:
        parts.append(wrapped(_ITEMS, wrapped(1, _schema(items))))
    if properties := schema.get("properties"):
        named = b"".join(_named(name, _schema(part)) for name, part in properties.items())
        parts.append(wrapped(_PROPERTIES, named))
    for name, value in schema.items():
        if name.startswith(_EXTENSION):
            # The field is called `yaml`. JSON is valid YAML.
            parts.append(
                wrapped(_VENDOR, text(_NAME, name) + wrapped(_VALUE, text(2, json.dumps(value))))
            )
    return b"".join(parts)
