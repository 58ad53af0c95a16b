"""Adoption and release: an owner controls the objects that its selector matches.

An owner adopts matching objects without a controller, and releases its objects that no longer
match.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import ReplicationController
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action, Patch

__all__ = ["claim_objects", "selector_of"]


def selector_of(owner: Any) -> Selector:
    """Return the label selector of an owner."""
    selector = owner.spec.selector
    if isinstance(owner, ReplicationController):
        return Selector.from_map(selector or {})
    return Selector.from_label_selector(selector)


def claim_objects(
    objects: ObjectIndex, owner: Any, kind: type[ApiObject], selector: Selector
) -> tuple[list[Any], list[Action]]:
    """Return the objects that an owner controls or adopts, and the patches for that."""
    claimed: list[Any] = []
    actions: list[Action] = []
    metadata = owner.metadata
    deleting = metadata.deletion_timestamp is not None
    for each in objects.controlled(metadata.uid, kind):
        if selector.matches(each.metadata.labels):
            claimed.append(each)
        elif not deleting and each.metadata.deletion_timestamp is None:
            actions.append(_release(each, metadata.uid))
    if not deleting:
        for each in objects.orphans(kind, metadata.namespace):
            if each.metadata.deletion_timestamp is None and selector.matches(each.metadata.labels):
                claimed.append(each)
                actions.append(_adopt(each, owner))
    return claimed, actions


def _adopt(each: Any, owner: Any) -> Patch:
    references = [_reference(other) for other in each.metadata.owner_references]
    references.append(controller_reference(owner))
    return Patch(each, {"metadata": {"ownerReferences": references}})


def _release(each: Any, uid: str) -> Patch:
    kept = [_reference(other) for other in each.metadata.owner_references if other.uid != uid]
    return Patch(each, {"metadata": {"ownerReferences": kept or None}})


def _reference(owner: Any) -> dict[str, Any]:
    written = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
    return {key: value for key, value in written.items() if value is not None}
