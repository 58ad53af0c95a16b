"""The apply operation: merges a configuration, unless another manager owns a changed field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api.meta import StatusCause
from kubesched.cluster.apiserver.rules.apply.field_ownership import Manager, Owners
from kubesched.cluster.apiserver.rules.apply.merge_structure import (
    Path,
    format_path,
    leaves,
    schema_of,
)
from kubesched.cluster.apiserver.rules.apply.object_merge import merge_applied, remove_paths
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["apply_document", "owned_leaves"]

Json = dict[str, Any]

BEFORE = "before-first-apply"
_IDENTITY = frozenset({"apiVersion", "kind"})
# The server writes these fields. They have no owner.
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
    """Return the paths and values in a document that can have an owner."""
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
    """Return the object after an apply, with updated field ownership.

    Raises:
        ApiError: 409, other managers own fields that would change, and `force` is not set.
    """
    document = {key: value for key, value in applied.items() if key not in _IDENTITY}
    applied_leaves = owned_leaves(resource, applied)
    if live is None:
        owners = Owners()
        owners.set(manager, set(applied_leaves), now)
        return _with_owners(document, owners)
    live_leaves = owned_leaves(resource, live)
    owners = Owners(live["metadata"].get("managedFields", ()))
    if not owners.entries():
        before = Manager(BEFORE, "Update", manager.api_version)
        owners.set(before, {path for path in live_leaves if path[0] != "f:status"}, now)
    _resolve_conflicts(owners, manager, applied_leaves, live_leaves, now, force=force)
    owned_by_others = {path for each, owned in owners if each != manager for path in owned}
    dropped = owners.of(manager) - applied_leaves.keys() - owned_by_others
    owners.set(manager, set(applied_leaves), now)
    schema = schema_of(resource)
    result: Json = merge_applied(remove_paths(live, dropped, schema), document, schema)
    return _with_owners(result, owners)


def _resolve_conflicts(
    owners: Owners,
    manager: Manager,
    applied: Mapping[Path, Any],
    live: Mapping[Path, Any],
    now: str,
    *,
    force: bool,
) -> None:
    """Raise ApiError 409 for conflicts, or with `force` remove the other managers' ownership."""
    changing = {path for path, value in applied.items() if path not in live or live[path] != value}
    conflicts = [
        (each, path)
        for each, owned in owners
        if each != manager
        for path in sorted(owned & changing)
        if path in live
    ]
    if conflicts and not force:
        raise api_errors.apply_conflict(
            [
                StatusCause(
                    reason="FieldManagerConflict",
                    message=f"conflict with {_description(owners, each)}",
                    field=format_path(path),
                )
                for each, path in conflicts
            ]
        )
    for each, path in conflicts:
        owners.set(each, owners.of(each) - {path}, now)


def _description(owners: Owners, manager: Manager) -> str:
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
