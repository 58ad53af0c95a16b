"""The published form of a custom resource's schema in OpenAPI documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubesched.cluster.apiserver.rules.custom.definition import CustomSchema
from kubesched.cluster.apiserver.rules.custom.structural_schema import PRESERVE
from kubesched.cluster.apiserver.rules.schema.definitions import Json

__all__ = ["METADATA", "published_name", "published_schema"]

METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_OF_EVERY_RESOURCE: Final[Mapping[str, Json]] = {
    "apiVersion": {
        "type": "string",
        "description": "APIVersion defines the group and version whose schema the object follows.",
    },
    "kind": {
        "type": "string",
        "description": "Kind is the name of what the object stands for. It does not change.",
    },
    "metadata": {
        "description": "Standard object's metadata.",
        "allOf": [{"$ref": f"#/components/schemas/{METADATA}"}],
    },
}
_NOT_IN_VERSION_2: Final = frozenset(("nullable", "oneOf", "anyOf", "allOf", "not"))


def published_name(group: str, version: str, kind: str) -> str:
    """Return the name of a schema.

    For `stable.example.com`, `v1`, `Widget` this is `com.example.stable.v1.Widget`.
    """
    return ".".join([*reversed(group.split(".")), version, kind])


def published_schema(
    custom: CustomSchema, group: str, version: str, kind: str, *, version_2: bool = False
) -> Json:
    """Return the schema with the fields of every object.

    With `version_2` it contains only keywords that OpenAPI 2 has.
    """
    schema = _for_version_2(custom.schema) if version_2 else custom.schema
    common: dict[str, Json] = dict(_OF_EVERY_RESOURCE)
    if version_2:
        common["metadata"] = {
            "description": common["metadata"]["description"],
            "$ref": f"#/components/schemas/{METADATA}",
        }
    if version_2 and custom.schema.get(PRESERVE):
        schema = {"type": "object"}
    else:
        schema = {**schema, "properties": {**(schema.get("properties") or {}), **common}}
    shown = {"group": group, "version": version, "kind": kind}
    return {**schema, _GROUP_VERSION_KIND: [shown]}


def _for_version_2(schema: Any) -> Any:
    """Remove the keywords that OpenAPI 2 does not have."""
    if not isinstance(schema, dict):
        return schema
    result: Json = {}
    for key, value in schema.items():
        if key in _NOT_IN_VERSION_2:
            continue
        if key == "properties" and isinstance(value, dict):
            result[key] = {name: _for_version_2(part) for name, part in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _for_version_2(value)
        else:
            result[key] = value
    return result
