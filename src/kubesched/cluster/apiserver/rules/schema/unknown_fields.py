"""Unknown and duplicate fields in documents.

Depending on the request, the server refuses them, warns about them or ignores them. Free-form
parts (maps, raw JSON) have no unknown fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = ["duplicate_fields", "known_metadata", "unknown_fields", "unknown_in_metadata"]

_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def unknown_fields(group: str, version: str, kind: str, document: Any) -> list[str]:
    """Return the paths of unknown fields, such as `spec.containers[0].imagee`, in order."""
    name = definition_of(group, version, kind)
    if name is None:
        return []
    return list(_unknown(document, definitions()[name], ""))


def unknown_in_metadata(metadata: Any, path: str) -> Iterator[str]:
    """Iterate over the paths of unknown fields in the metadata at `path`."""
    schema = definitions().get(_METADATA)
    if schema is not None:
        yield from _unknown(metadata, schema, path)


def known_metadata(metadata: Any) -> Any:
    """Return metadata without the fields that the metadata of objects does not have."""
    schema = definitions().get(_METADATA)
    if schema is None or not isinstance(metadata, dict):
        return metadata
    properties = schema["properties"]
    if all(key in properties for key in metadata):
        return metadata
    return {key: value for key, value in metadata.items() if key in properties}


def _unknown(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    while (name := reference_target(schema)) is not None:
        schema = definitions()[name]
    if isinstance(value, list):
        if (items := schema.get("items")) is not None:
            for index, item in enumerate(value):
                yield from _unknown(item, items, f"{path}[{index}]")
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties")
    if properties is None:
        if (rest := schema.get("additionalProperties")) is not None:
            for key, item in value.items():
                yield from _unknown(item, rest, f"{path}.{key}" if path else key)
        return
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        if key not in properties:
            # Patches contain directives such as `$patch`, which are not fields.
            if not key.startswith("$"):
                yield inner
        else:
            yield from _unknown(item, properties[key], inner)


class _Object(dict[str, Any]):
    """A decoded object with the list of its duplicate keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]


def duplicate_fields(body: bytes) -> list[str]:
    """Return the paths of fields that occur more than once in a JSON text."""
    return list(_duplicates(json.loads(body, object_pairs_hook=_Object), ""))


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicates(item, f"{path}[{index}]")
    elif isinstance(value, _Object):
        for key in dict.fromkeys(value.repeated):
            yield f"{path}.{key}" if path else key
        for key, item in value.items():
            yield from _duplicates(item, f"{path}.{key}" if path else key)
