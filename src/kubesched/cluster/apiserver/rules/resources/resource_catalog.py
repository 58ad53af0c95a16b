"""The catalog of served resources, with lookups by URL, by type and by manifest."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kubesched.api.kinds import Kind
from kubesched.cluster.apiserver.rules.errors.api_errors import unknown_resource
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["Catalog"]


class Catalog:
    """The resources that a server serves."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_url: dict[tuple[str, str, str], Resource] = {}
        self._by_type: dict[type, Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        # The number of additions and removals. Caches of the catalog compare it.
        self.changes = 0
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        self.changes += 1
        self._by_url[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource
        if resource.type is not None:
            self._by_type[resource.type] = resource

    def remove(self, resource: Resource) -> None:
        """Remove a custom resource."""
        self.changes += 1
        self._by_url.pop((resource.group, resource.version, resource.plural), None)
        self._by_kind.pop((resource.api_version, resource.kind), None)

    def all(self) -> Iterable[Resource]:
        return self._by_url.values()

    def by_url(self, group: str, version: str, plural: str) -> Resource:
        """Find a resource by its URL. Raises ApiError 404."""
        found = self._by_url.get((group, version, plural))
        if found is None:
            raise unknown_resource()
        return found

    def has_url(self, group: str, version: str, plural: str) -> bool:
        return (group, version, plural) in self._by_url

    def by_type(self, kind: type[msgspec.Struct]) -> Resource:
        """Find the resource of a struct type. Raises ApiError 404 if it is not served."""
        found = self._by_type.get(kind)
        if found is not None:
            return found
        custom: Kind | None = getattr(kind, "custom_kind", None)
        if custom is None:
            raise unknown_resource()
        return self.by_url(custom.group, custom.version, custom.plural)

    def has_type(self, kind: type[msgspec.Struct]) -> bool:
        """Whether objects of a struct type are served, which a feature gate may prevent."""
        return kind in self._by_type or getattr(kind, "custom_kind", None) is not None

    def by_manifest(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind))
