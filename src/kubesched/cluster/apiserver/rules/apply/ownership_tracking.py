"""What other writes mean for ownership: who changes a field owns it.

Only objects that somebody has applied are tracked; the others have nobody to protect.
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
    """A new version of an object with the owners that it has by then."""
    before, after = owned_leaves(resource, live), owned_leaves(resource, new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    owners = Owners(live["metadata"].get("managedFields", ()))
    for each, owned in owners:
        kept = owned - gone
        if each != manager:
            kept -= changed
        if kept != owned:
            owners.set(each, kept, owners.time(each))
    if changed:
        owners.set(manager, owners.of(manager) | changed, now)
    metadata = {**new["metadata"], "managedFields": owners.entries()}
    return {**new, "metadata": metadata}
