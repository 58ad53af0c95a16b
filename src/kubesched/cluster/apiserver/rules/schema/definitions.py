"""OpenAPI definitions of the kinds that the server serves.

They have the field names, types and list rules of the Kubernetes v1.36 API, for these kinds and
the definitions that they refer to, without descriptions. They are loaded on first use.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

__all__ = ["Json", "collect_definitions", "definition_of", "definitions"]

Json = dict[str, Any]

_DATA = "definitions.json.gz"
_KINDS = "x-kubernetes-group-version-kind"
_REFERENCE = "#/components/schemas/"


@cache
def definitions() -> Mapping[str, Json]:
    """Return all definitions by name. Callers must not change them."""
    data = (resources.files("kubesched.cluster.apiserver.rules.schema") / _DATA).read_bytes()
    return msgspec.json.decode(gzip.decompress(data), type=dict[str, Json])


@cache
def _names() -> Mapping[tuple[str, str, str], str]:
    return {
        (kind["group"], kind["version"], kind["kind"]): name
        for name, definition in definitions().items()
        for kind in definition.get(_KINDS, ())
    }


def definition_of(group: str, version: str, kind: str) -> str | None:
    """Return the name of a kind's definition; None for a custom resource."""
    return _names().get((group, version, kind))


def reference_target(schema: Mapping[str, Any]) -> str | None:
    """Return the name of the definition that a schema refers to; None if it is no reference."""
    reference: str | None = schema.get("$ref")
    return None if reference is None else reference.removeprefix(_REFERENCE)


def collect_definitions(names: Iterable[str]) -> dict[str, Json]:
    """Return these definitions and all that they refer to, ordered by name."""
    found: dict[str, Json] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions()[name]
            waiting.extend(_references(found[name]))
    return dict(sorted(found.items()))


def _references(schema: Json) -> Iterator[str]:
    if (name := reference_target(schema)) is not None:
        yield name
    for field in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(field), dict):
            yield from _references(inner)
    for part in schema.get("properties", {}).values():
        yield from _references(part)
