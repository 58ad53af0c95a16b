"""Objects in which every text is a different word, generated from the published schema.

This module does not need pytest.
"""

from __future__ import annotations

import itertools
from typing import Any

from kubesched.api.kinds import Kind
from kubesched.cluster.apiserver.rules.schema.definitions import (
    definition_of,
    definitions,
    reference_target,
)

__all__ = ["PlantedObjects"]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_TIMES = {
    f"{_META}Time": "2026-01-01T00:00:00Z",
    f"{_META}MicroTime": "2026-01-01T00:00:00.000000Z",
}
_NUMBERS = {"integer": 1, "number": 1, "boolean": True}


class PlantedObjects:
    """Makes objects, and has the word of every text by its path: `Pod.spec.nodeName`."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self._numbers = itertools.count(1)

    def document(self, kind: Kind) -> dict[str, Any]:
        """Return an object of the kind with every field that the schema has."""
        name = definition_of(kind.group, kind.version, kind.kind)
        assert name is not None
        document: dict[str, Any] = self._value({"$ref": f"#/{name}"}, kind.kind, (name,))
        metadata = document["metadata"]
        if not kind.namespaced:
            metadata.pop("namespace", None)
        metadata.pop("deletionTimestamp", None)
        return {**document, "apiVersion": kind.api_version, "kind": kind.kind}

    def _word(self, path: str) -> str:
        word = f"planted{next(self._numbers):05}"
        self.words[path] = word
        return word

    def _value(self, schema: dict[str, Any], path: str, above: tuple[str, ...]) -> Any:
        parts = schema.get("allOf", ())
        reference = reference_target(parts[0] if parts else schema)
        if reference is not None:
            reference = reference.removeprefix("#/")
            if reference == _QUANTITY:
                return "1"
            if reference in _TIMES:
                return _TIMES[reference]
            if above.count(reference) > 1 or len(above) > 20:
                return None
            return self._value(definitions()[reference], path, (*above, reference))
        kind = schema.get("type")
        if kind == "array":
            inner = self._value(schema["items"], f"{path}[]", above)
            return [] if inner is None else [inner]
        if "properties" in schema:
            found = {}
            for name, inner in schema["properties"].items():
                value = self._value(inner, f"{path}.{name}", above)
                if value is not None:
                    found[name] = value
            return found
        if isinstance(inner := schema.get("additionalProperties"), dict):
            return {self._word(f"{path}{{}}"): self._value(inner, f"{path}{{=}}", above)}
        if schema.get("format") == "int-or-string" or "oneOf" in schema:
            return "1"
        if kind in _NUMBERS:
            return _NUMBERS[kind]
        if kind == "string":
            return "1" if schema.get("format") == "byte" else self._word(path)
        return {self._word(f"{path}{{}}"): self._word(f"{path}{{=}}")}  # any value
