"""The review of a write: the data that admission policies evaluate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kubesched.foundation.cel.language.expression_types import (
    BOOL,
    DYN,
    STRING,
    ObjectType,
    list_of,
    map_of,
    named,
)

if TYPE_CHECKING:
    from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["REQUEST_TYPES", "Review"]

Json = dict[str, Any]

_KIND = ObjectType(
    "kubernetes.GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING)
)
_RESOURCE = ObjectType(
    "kubernetes.GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING)
)
_USER = ObjectType(
    "kubernetes.UserInfo",
    {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
_REQUEST = ObjectType(
    "kubernetes.AdmissionRequest",
    {
        "kind": named(_KIND.name),
        "resource": named(_RESOURCE.name),
        "subResource": STRING,
        "requestKind": named(_KIND.name),
        "requestResource": named(_RESOURCE.name),
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": named(_USER.name),
        "dryRun": BOOL,
        "options": DYN,
    },
)
# The types of the variable `request`. The last one is that of the variable itself.
REQUEST_TYPES = (_KIND, _RESOURCE, _USER, _REQUEST)


class Review(msgspec.Struct, frozen=True):
    """A requested operation, with the object before and after it."""

    resource: Resource
    operation: str  # `CREATE`, `UPDATE` or `DELETE`
    name: str
    namespace: str
    new: Json | None = None
    old: Json | None = None
    subresource: str = ""
    dry_run: bool = False
    user: Json = {}  # the requester; empty for components of the cluster itself

    def labels(self) -> list[dict[str, str]]:
        """Return the labels of the new and of the old object."""
        return [
            each.get("metadata", {}).get("labels") or {}
            for each in (self.new, self.old)
            if each is not None
        ]

    def shown(self, data: Json | None) -> Json | None:
        """Add the kind and version to an object."""
        if data is None:
            return None
        return {"apiVersion": self.resource.api_version, "kind": self.resource.kind, **data}

    def request(self) -> Json:
        """Return the value of the variable `request`."""
        resource = self.resource
        versioned = {"group": resource.group, "version": resource.version}
        kind = {**versioned, "kind": resource.kind}
        named_resource = {**versioned, "resource": resource.plural}
        return {
            "kind": kind,
            "resource": named_resource,
            "subResource": self.subresource,
            "requestKind": kind,
            "requestResource": named_resource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": {"username": "", "uid": "", "groups": [], "extra": {}, **self.user},
            "dryRun": self.dry_run,
            "options": {},
        }
