"""One apply: what a writer wants an object to say, made so unless somebody else objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api.meta import StatusCause
from kubesched.cluster.apiserver.rules.apply.field_ownership import Manager, Owners
from kubesched.cluster.apiserver.rules.apply.merge_structure import Path, leaves, schema_of, shown
from kubesched.cluster.apiserver.rules.apply.object_merge import merged, without
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["apply_document", "owned_leaves"]

Json = dict[str, Any]

BEFORE = "before-first-apply"
_IDENTITY = frozenset({"apiVersion", "kind"})
# What the server writes has no owner.
_SERVER_METADATA = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)


def owned_leaves(resource: Resource, document: Mapping[str, Any]) -> dict[Path, Any]:
    """Everything in a document that somebody may own."""
    content = {key: value for key, value in document.items() if key not in _IDENTITY}
    metadata = content.get("metadata", {})
    content["metadata"] = {k: v for k, v in metadata.items() if k not in _SERVER_METADATA}
    if not content["metadata"]:
        del content["metadata"]
    return {path: value for path, value in leaves(content, schema_of(resource)) if path}


def apply_document(
    resource: Resource,
    live: Mapping[str, Any] | None,
    applied: Mapping[str, Any],
    manager: Manager,
    now: str,
    *,
    force: bool = False,
) -> Json:
    """The object as it is to be, with its new owners.

    Raises:
        ApiError: 409, others own fields that would change, and `force` is not given.
    """
    document = {key: value for key, value in applied.items() if key not in _IDENTITY}
    wanted = owned_leaves(resource, applied)
    if live is None:
        owners = Owners()
        owners.set(manager, set(wanted), now)
        return _with_owners(document, owners)
    there = owned_leaves(resource, live)
    owners = Owners(live["metadata"].get("managedFields", ()))
    if not owners.entries():
        before = Manager(BEFORE, "Update", manager.api_version)
        known = {path for path in there if path[0] != "f:status"}
        owners.set(before, known, now)
    _settle_conflicts(owners, manager, wanted, there, now, force=force)
    others = {path for each, owned in owners if each != manager for path in owned}
    dropped = owners.of(manager) - wanted.keys() - others
    owners.set(manager, set(wanted), now)
    schema = schema_of(resource)
    made: Json = merged(without(live, dropped, schema), document, schema)
    return _with_owners(made, owners)


def _settle_conflicts(
    owners: Owners,
    manager: Manager,
    wanted: Mapping[Path, Any],
    there: Mapping[Path, Any],
    now: str,
    *,
    force: bool,
) -> None:
    changing = {path for path, value in wanted.items() if path not in there or there[path] != value}
    conflicts = [
        (each, path)
        for each, owned in owners
        if each != manager
        for path in sorted(owned & changing)
        if path in there
    ]
    if conflicts and not force:
        raise api_errors.apply_conflict(
            [
                StatusCause(
                    reason="FieldManagerConflict",
                    message=f"conflict with {_named(owners, each)}",
                    field=shown(path),
                )
                for each, path in conflicts
            ]
        )
    for each, path in conflicts:
        owners.set(each, owners.of(each) - {path}, now)


def _named(owners: Owners, manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
        if time := owners.time(manager):
            text += f" at {time}"
    return text


def _with_owners(document: Json, owners: Owners) -> Json:
    metadata = {**document.get("metadata", {}), "managedFields": owners.entries()}
    return {**document, "metadata": metadata}
