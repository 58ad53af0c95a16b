"""OpenAPI documents: version 3 has one per group and version, version 2 has a single one.

They contain what clients such as kubectl use: the schemas of kinds, the parameters of requests
and the descriptions of fields. Custom resources have the schema of their definition.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kubesched.cluster.apiserver.http.access_reviews import REVIEWS
from kubesched.cluster.apiserver.http.discovery_documents import Discovery
from kubesched.cluster.apiserver.http.protobuf import openapi_v2
from kubesched.cluster.apiserver.http.response_rendering import encode
from kubesched.cluster.apiserver.rules.custom import (
    CustomStrategy,
    published_name,
    published_schema,
)
from kubesched.cluster.apiserver.rules.custom.schema_publication import METADATA
from kubesched.cluster.apiserver.rules.resources.resource_catalog import Catalog
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema import collect_definitions, definition_of

__all__ = ["OpenApi"]

Json = dict[str, Any]

_RELEASE = "v1.36.4"
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
    """Creates the OpenAPI documents of a catalog and caches the large ones."""

    def __init__(self, catalog: Catalog, discovery: Discovery) -> None:
        self._catalog = catalog
        self._discovery = discovery
        self._index: tuple[int, Json] = (-1, {})
        self._version_2: tuple[int, bytes] = (-1, b"")

    def index(self) -> Json:
        changes = self._catalog.changes
        if self._index[0] != changes:
            self._index = (changes, self._make_index())
        return self._index[1]

    def _make_index(self) -> Json:
        paths = {}
        for group, version in self._discovery.group_versions():
            name = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = self._digest(group, version)
            paths[name] = {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest}"}
        return {"paths": paths}

    def _digest(self, group: str, version: str) -> str:
        """Return a digest that changes when the document of a version changes.

        Only documents with custom resources can change.
        """
        resources = [
            each for each in self._catalog.all() if (each.group, each.version) == (group, version)
        ]
        content = f"{group}/{version} {_RELEASE}".encode()
        if any(isinstance(each.strategy, CustomStrategy) for each in resources):
            content = encode(self.document(group, version))
        return hashlib.sha256(content).hexdigest().upper()

    def version_2(self) -> bytes:
        """Return the document of version 2 as protobuf, which older clients request."""
        return openapi_v2(self._definitions())

    def version_2_json(self) -> bytes:
        """Return the document of version 2 as JSON."""
        if self._version_2[0] != self._catalog.changes:
            self._version_2 = (self._catalog.changes, self._version_2_json())
        return self._version_2[1]

    def _version_2_json(self) -> bytes:
        document = {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": _RELEASE},
            "paths": {},
            "definitions": self._definitions(),
        }
        return encode(document).replace(b'"#/components/schemas/', b'"#/definitions/')

    def _definitions(self) -> dict[str, Json]:
        """Return the schemas of all kinds in the form of version 2."""
        known = (
            definition_of(resource.group, resource.version, resource.kind)
            for resource in self._catalog.all()
        )
        definitions = collect_definitions([name for name in known if name is not None])
        for resource in self._catalog.all():
            definitions |= _custom_schemas(resource, version_2=True)
        return definitions

    def document(self, group: str, version: str) -> Json:
        """Return the document of a group and version that the server serves."""
        paths: Json = {}
        names = []
        custom: dict[str, Json] = {}
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for resource in self._catalog.all():
            if (resource.group, resource.version) == (group, version):
                custom |= _custom_schemas(resource)
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
        schemas = collect_definitions([name for name in known if name is not None])
        if custom:
            schemas = {**collect_definitions([METADATA]), **schemas, **custom}
            schemas[METADATA] = _described(schemas[METADATA])
        shown: Json = {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": _RELEASE},
            "paths": paths,
        }
        # Clients compare a document with its decoded and re-encoded form, which omits empty fields.
        return {**shown, "components": {"schemas": schemas}} if schemas else shown


def _custom_schemas(resource: Resource, *, version_2: bool = False) -> dict[str, Json]:
    """Return the schema of a custom resource by its name; empty for other resources."""
    strategy = resource.strategy
    if not isinstance(strategy, CustomStrategy) or strategy.custom is None:
        return {}
    identity = (resource.group, resource.version, resource.kind)
    schema = published_schema(strategy.custom, *identity, version_2=version_2)
    return {published_name(*identity): schema}


def _described(metadata: Json) -> Json:
    """Add the description of `creationTimestamp`, which `kubectl explain` users look up."""
    created = {
        **metadata["properties"]["creationTimestamp"],
        "description": "CreationTimestamp is a timestamp of the server's clock at the creation.",
    }
    return {**metadata, "properties": {**metadata["properties"], "creationTimestamp": created}}


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
    if name is None and "." in group and not group.endswith(".k8s.io"):
        name = published_name(group, version, kind)
    content: Json = {}
    if name is not None:
        reference = {"$ref": f"#/components/schemas/{name}"}
        content = {"content": {"application/json": {"schema": reference}}}
    shown: Json = {
        _ACTION: method,
        _KIND: {"group": group, "version": version, "kind": kind},
        "responses": {"200": {"description": "OK", **content}},
    }
    if parameters:
        schema = {"type": "string"}
        shown["parameters"] = [
            {"name": each, "in": "query", "schema": schema} for each in parameters
        ]
    return shown
