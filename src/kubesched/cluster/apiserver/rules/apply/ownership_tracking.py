"""Ownership after writes other than apply: the writer owns the fields that it changes.

Ownership is tracked only for objects that have been applied. For others there can be no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.apply.field_ownership import Manager, Owners
from kubesched.cluster.apiserver.rules.apply.server_side_apply import owned_leaves
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["is_tracked", "tracked_document"]

Json = dict[str, Any]


def is_tracked(live: Mapping[str, Any]) -> bool:
    return bool(live["metadata"].get("managedFields"))


def tracked_document(
    resource: Resource,
    live: Mapping[str, Any],
    new: Mapping[str, Any],
    manager: Manager,
    now: str,
) -> Json:
    """Return the new version of an object with updated field ownership."""
    before, after = owned_leaves(resource, live), owned_leaves(resource, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    owners = Owners(live["metadata"].get("managedFields", ()))
    for each, owned in owners:
        kept = owned - removed
        if each != manager:
            kept -= changed
        if kept != owned:
            owners.set(each, kept, owners.time(each))
    if changed:
        owners.set(manager, owners.of(manager) | changed, now)
    metadata = {**new["metadata"], "managedFields": owners.entries()}
    return {**new, "metadata": metadata}
