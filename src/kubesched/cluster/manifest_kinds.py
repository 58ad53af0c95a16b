"""The kinds that manifests may contain: built-in kinds, and those that manifests define."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from kubesched.api.base import ApiObject
from kubesched.api.custom_kinds import CustomObject, custom_kind
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.admission_policies import enforce_policies
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
    serve_stored_definitions,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = [
    "ManifestKind",
    "ManifestKinds",
    "is_definition",
    "serve_everything",
    "stored_definitions",
]

_DEFINITION: Final = CUSTOM_RESOURCE_DEFINITION


class ManifestKind(NamedTuple):
    """A kind of object, and its Python type."""

    group: str
    version: str
    kind: str
    namespaced: bool
    type: type[ApiObject]


class ManifestKinds:
    """The kinds of a set of documents. A definition among them applies to all documents."""

    def __init__(self, store: Store, documents: Iterable[Any]) -> None:
        """Collect the kinds that the store serves, and those that `documents` define."""
        known = (_kind(resource) for resource in store.catalog.all())
        self._kinds = {(_version(each), each.kind): each for each in known}
        self._ranks = {each.type: rank for rank, each in enumerate(self._kinds.values())}
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == _DEFINITION.kind:
                self._define(document)

    def find(self, api_version: str, kind: str) -> ManifestKind | None:
        """Return a kind; None if it is neither built-in nor defined."""
        return self._kinds.get((api_version, kind))

    def unknown(self, api_version: str, kind: str) -> str:
        """Return the error text for an unknown kind."""
        text = f'no kind "{kind}" is known in version "{api_version}"'
        if versions := [version for version, name in self._kinds if name == kind]:
            return f'{text}; did you mean "{versions[-1]}"?'
        names = [name for version, name in self._kinds if version == api_version]
        if near := difflib.get_close_matches(kind, names, n=1):
            return f'{text}; did you mean "{near[0]}"?'
        group, slash, _ = api_version.partition("/")
        if slash and "." in group and not group.endswith(".k8s.io"):
            return f"{text}; is a file with its CustomResourceDefinition missing?"
        return text

    def rank(self, kind: type[ApiObject]) -> int:
        """Return the position in the order of creation: referenced kinds come first."""
        if is_definition(kind):
            return -1
        return len(self._ranks) if issubclass(kind, CustomObject) else self._ranks[kind]

    def _define(self, document: dict[str, Any]) -> None:
        """Add the kinds of a definition. The store reports the problems of an invalid one."""
        try:
            spec = document["spec"]
            group, plural, kind = spec["group"], spec["names"]["plural"], spec["names"]["kind"]
            namespaced = spec["scope"] == "Namespaced"
            for version in spec["versions"]:
                found = custom_kind(f"{plural}.{version['name']}.{group}", kind)
                if found is not None:
                    made = ManifestKind(group, version["name"], kind, namespaced, found.type)
                    self._kinds[_version(made), kind] = made
        except (KeyError, TypeError):
            return


def is_definition(kind: type[ApiObject]) -> bool:
    """Whether objects of this type define custom resources."""
    return kind is _kind(_DEFINITION).type


def serve_everything(store: Store) -> None:
    """Make a store serve the optional kinds: definitions and admission policies."""
    serve_stored_definitions(store)
    enforce_policies(store)


def stored_definitions(store: Store) -> list[dict[str, Any]]:
    """Return the definitions of custom resources that a store contains and serves."""
    serve_everything(store)
    served = {each.group_resource for each in store.catalog.all()}
    records = store.collection(_DEFINITION).objects
    return [record.data for key, record in records.items() if key in served]


def _version(kind: ManifestKind) -> str:
    return f"{kind.group}/{kind.version}" if kind.group else kind.version


def _kind(resource: Resource) -> ManifestKind:
    read_as: Any = resource.type
    if read_as is None:
        custom = custom_kind(
            f"{resource.plural}.{resource.version}.{resource.group}", resource.kind
        )
        assert custom is not None, "custom resources have groups"
        read_as = custom.type
    return ManifestKind(
        resource.group, resource.version, resource.kind, resource.namespaced, read_as
    )
