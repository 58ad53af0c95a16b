"""Whose objects are whose: what matches a selector is taken in, what no longer does is let go."""

from __future__ import annotations

from typing import Any

from kubesched.api import ReplicationController
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action, Patch

__all__ = ["claim_objects", "selector_of"]


def selector_of(owner: Any) -> Selector:
    """What an owner selects by."""
    selector = owner.spec.selector
    if isinstance(owner, ReplicationController):
        return Selector.from_map(selector or {})
    return Selector.from_label_selector(selector)


def claim_objects(
    objects: ObjectIndex, owner: Any, kind: type[ApiObject], selector: Selector
) -> tuple[list[Any], list[Action]]:
    """The objects that are an owner's or become so, and the writes that make it so."""
    mine: list[Any] = []
    actions: list[Action] = []
    metadata = owner.metadata
    deleting = metadata.deletion_timestamp is not None
    for each in objects.controlled(metadata.uid, kind):
        if selector.matches(each.metadata.labels):
            mine.append(each)
        elif not deleting and each.metadata.deletion_timestamp is None:
            actions.append(_released(each, metadata.uid))
    if not deleting:
        for each in objects.orphans(kind, metadata.namespace):
            if each.metadata.deletion_timestamp is None and selector.matches(each.metadata.labels):
                mine.append(each)
                actions.append(_adopted(each, owner))
    return mine, actions


def _adopted(each: Any, owner: Any) -> Patch:
    known = [_reference(other) for other in each.metadata.owner_references]
    return Patch(each, {"metadata": {"ownerReferences": [*known, controller_reference(owner)]}})


def _released(each: Any, uid: str) -> Patch:
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
