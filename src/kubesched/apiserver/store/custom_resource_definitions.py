"""Custom resources: from a definition that a user creates to a resource that is served.

Objects of a custom resource are stored as they come; the schemas in its definition are kept
and not enforced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.apiserver.rules import api_errors
from kubesched.apiserver.rules.served_resources import Resource, custom_resource
from kubesched.apiserver.rules.strategies.base import Strategy
from kubesched.apiserver.rules.validation.problems import Problem, invalid, required
from kubesched.apiserver.store.object_store import Store

__all__ = ["CUSTOM_RESOURCE_DEFINITION", "established", "serve", "serve_stored", "withdraw"]

Json = dict[str, Any]


class _DefinitionStrategy(Strategy):
    counts_generations = True
    has_status = True
    keeps_status = True  # the server writes it, before it stores the definition


CUSTOM_RESOURCE_DEFINITION = msgspec.structs.replace(
    custom_resource(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
    ),
    strategy=_DefinitionStrategy(),
)


def established(definition: Json, created: str) -> Json:
    """A new definition with the status of one whose resource is being served.

    Raises:
        ApiError: 422, it does not say which resource it defines.
    """
    spec = definition.get("spec", {})
    names = spec.get("names", {}) if isinstance(spec, dict) else {}
    name = definition.get("metadata", {}).get("name", "")
    problems = _problems(name, spec, names)
    if problems:
        raise api_errors.invalid(CUSTOM_RESOURCE_DEFINITION.group_kind, name, problems)
    singular = names.get("singular") or names["kind"].lower()
    names = {"listKind": f"{names['kind']}List", **names, "singular": singular}
    reasons = {"NamesAccepted": "NoConflicts", "Established": "InitialNamesAccepted"}
    status = {
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": created, "reason": reason}
            for kind, reason in reasons.items()
        ],
        "acceptedNames": names,
        "storedVersions": [each["name"] for each in spec["versions"] if each.get("storage")],
    }
    return {**definition, "spec": {**spec, "names": names}, "status": status}


def _problems(name: str, spec: Any, names: Any) -> list[Problem]:
    if not isinstance(spec, dict) or not isinstance(names, dict):
        return [required("spec")]
    problems = [
        required(f"spec.names.{field}")
        for field in ("plural", "kind")
        if not isinstance(names.get(field), str) or not names[field]
    ]
    if not spec.get("group"):
        problems.append(required("spec.group"))
    versions = spec.get("versions")
    if not isinstance(versions, list) or not all(
        isinstance(each, dict) and each.get("name") for each in versions
    ):
        problems.append(required("spec.versions"))
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if not problems and name != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        problems.append(invalid("metadata.name", name, detail))
    return problems


def _resources(definition: Json) -> Iterator[Resource]:
    spec = definition["spec"]
    names = spec["names"]
    for version in spec["versions"]:
        if version.get("served", True):
            yield custom_resource(
                spec["group"],
                version["name"],
                names["kind"],
                names["plural"],
                namespaced=spec.get("scope", "Namespaced") == "Namespaced",
                has_status="status" in version.get("subresources", {}),
                short_names=tuple(names.get("shortNames", ())),
                categories=tuple(names.get("categories", ())),
            )


def serve(store: Store, definition: Json) -> None:
    """Let the store have the resource that a definition describes."""
    for resource in _resources(definition):
        store.register(resource)


def serve_stored(store: Store) -> None:
    """Let the store have definitions, and the resources of those that it holds."""
    store.register(CUSTOM_RESOURCE_DEFINITION)
    for record in store.collection(CUSTOM_RESOURCE_DEFINITION).objects.values():
        serve(store, record.data)


def withdraw(store: Store, definition: Json, now_ns: int) -> None:
    """Delete all objects of a resource whose definition is gone, and forget it."""
    for resource in _resources(definition):
        store.delete_collection(resource, None, now_ns)
        store.catalog.remove(resource)
