"""OpenAPI documents: one per group and version in version 3, and a single one in version 2.

Enough for clients that look up the shape of a kind, ask which parameters a request takes, or
explain a field. A custom resource appears with its paths and without a shape.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kubesched.apiserver.http.discovery import Discovery
from kubesched.apiserver.http.protobuf import openapi_v2
from kubesched.apiserver.http.rendering import encode
from kubesched.apiserver.http.reviews import REVIEWS
from kubesched.apiserver.rules.resource_catalog import Catalog
from kubesched.apiserver.rules.schema import definition_of, referenced

__all__ = ["OpenApi"]

Json = dict[str, Any]

_KIND = "x-kubernetes-group-version-kind"
_ACTION = "x-kubernetes-action"
_WRITING = ("dryRun", "fieldManager", "fieldValidation")
_LISTING = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)


class OpenApi:
    def __init__(self, catalog: Catalog, discovery: Discovery) -> None:
        self._catalog = catalog
        self._discovery = discovery
        self._index: tuple[int, Json] = (0, {})

    def index(self) -> Json:
        resources = sum(1 for _ in self._catalog.all())
        if self._index[0] != resources:
            self._index = (resources, self._indexed())
        return self._index[1]

    def _indexed(self) -> Json:
        paths = {}
        for group, version in self._discovery.group_versions():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(encode(self.document(group, version))).hexdigest().upper()
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return {"paths": paths}

    def version_2(self) -> bytes:
        """Every definition, as older clients want it."""
        known = (
            definition_of(resource.group, resource.version, resource.kind)
            for resource in self._catalog.all()
        )
        return openapi_v2([name for name in known if name is not None])

    def document(self, group: str, version: str) -> Json:
        """The document of a version; the caller knows that there is one."""
        paths: Json = {}
        names = []
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for resource in self._catalog.all():
            if (resource.group, resource.version) == (group, version):
                names.append((resource.kind, resource.plural, resource.namespaced))
                paths |= _object_paths(
                    base, resource.plural, resource.kind, resource.namespaced, group, version
                )
        for (owner, plural), (kind, namespaced) in REVIEWS.items():
            if owner == group and version == "v1":
                names.append((kind, plural, namespaced))
                path = f"{base}/{_namespaced(plural, namespaced)}"
                paths[path] = {"post": _operation("post", kind, group, version, _WRITING)}
        known = [definition_of(group, version, kind) for kind, _, _ in names]
        schemas = referenced([name for name in known if name is not None])
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "v1.36.4"},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _namespaced(plural: str, namespaced: bool) -> str:
    return f"namespaces/{{namespace}}/{plural}" if namespaced else plural


def _object_paths(
    base: str, plural: str, kind: str, namespaced: bool, group: str, version: str
) -> Json:
    def operations(**parameters: tuple[str, ...]) -> Json:
        return {
            method: _operation(method, kind, group, version, names)
            for method, names in parameters.items()
        }

    path = f"{base}/{_namespaced(plural, namespaced)}"
    paths = {
        path: operations(get=_LISTING, post=_WRITING, delete=_LISTING),
        f"{path}/{{name}}": operations(
            get=(), put=_WRITING, patch=(*_WRITING, "force"), delete=("dryRun",)
        ),
    }
    if namespaced:
        paths[f"{base}/{plural}"] = operations(get=_LISTING)
    return paths


def _operation(
    method: str, kind: str, group: str, version: str, parameters: tuple[str, ...]
) -> Json:
    name = definition_of(group, version, kind)
    content: Json = {}
    if name is not None:
        reference = {"$ref": f"#/components/schemas/{name}"}
        content = {"content": {"application/json": {"schema": reference}}}
    return {
        _ACTION: method,
        _KIND: {"group": group, "version": version, "kind": kind},
        "parameters": [
            {"name": each, "in": "query", "schema": {"type": "string"}} for each in parameters
        ],
        "responses": {"200": {"description": "OK", **content}},
    }
