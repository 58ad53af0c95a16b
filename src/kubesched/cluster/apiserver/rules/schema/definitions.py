"""OpenAPI definitions of the kinds that the server has.

Names, types and list rules of the fields are those of the Kubernetes v1.36 API, for the kinds
here and what they refer to; without descriptions. Read when somebody first asks.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

import msgspec

__all__ = ["Json", "definition_of", "definitions", "referenced"]

Json = dict[str, Any]

_DATA = "definitions.json.gz"
_KINDS = "x-kubernetes-group-version-kind"
_REFERENCE = "#/components/schemas/"


@cache
def definitions() -> Mapping[str, Json]:
    """All definitions by their names. Do not change them."""
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
    """The name of a kind's definition; None for a custom resource."""
    return _names().get((group, version, kind))


def target(schema: Mapping[str, Any]) -> str | None:
    """The definition that a schema stands for, if it is only a reference."""
    reference: str | None = schema.get("$ref")
    return None if reference is None else reference.removeprefix(_REFERENCE)


def referenced(names: Iterable[str]) -> dict[str, Json]:
    """These definitions and all that they need, in order of their names."""
    found: dict[str, Json] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions()[name]
            waiting.extend(_needed(found[name]))
    return dict(sorted(found.items()))


def _needed(schema: Json) -> Iterator[str]:
    if (name := target(schema)) is not None:
        yield name
    for field in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(field), dict):
            yield from _needed(inner)
    for part in schema.get("properties", {}).values():
        yield from _needed(part)
