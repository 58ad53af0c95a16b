"""Adoption and release: an owner controls the objects that its selector matches.

An owner adopts matching objects without a controller, and releases its objects that no longer
match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubesched.api import OwnerReference, ReplicationController
from kubesched.api.base import ApiObject
from kubesched.api.labels import Selector
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action, Patch

__all__ = ["claim_objects", "owners_patch", "reference_document", "selector_of"]


def _any_object(_subject: Any) -> bool:
    return True


def selector_of(owner: Any) -> Selector:
    """Return the label selector of an owner."""
    selector = owner.spec.selector
    if isinstance(owner, ReplicationController):
        return Selector.from_map(selector or {})
    return Selector.from_label_selector(selector)


def claim_objects(
    objects: ObjectIndex,
    owner: Any,
    kind: type[ApiObject],
    selector: Selector,
    is_member: Callable[[Any], bool] = _any_object,
) -> tuple[list[Any], list[Action]]:
    """Return the objects that an owner controls or adopts, and the patches for adoptions.

    `is_member` is a condition besides the selector, such as the form of the name.
    """
    claimed: list[Any] = []
    actions: list[Action] = []
    metadata = owner.metadata
    deleting = metadata.deletion_timestamp is not None
    for each in objects.controlled(metadata.uid, kind):
        if selector.matches(each.metadata.labels) and is_member(each):
            claimed.append(each)
        elif not deleting and each.metadata.deletion_timestamp is None:
            actions.append(_release(each, metadata.uid))
    if not deleting:
        for each in objects.orphans(kind, metadata.namespace):
            if each.metadata.deletion_timestamp is not None:
                continue
            if selector.matches(each.metadata.labels) and is_member(each):
                claimed.append(each)
                actions.append(_adopt(each, owner))
    return claimed, actions


def _adopt(each: Any, owner: Any) -> Patch:
    references = [reference_document(other) for other in each.metadata.owner_references]
    return owners_patch(each, [*references, controller_reference(owner)])


def _release(each: Any, uid: str) -> Patch:
    kept = [other for other in each.metadata.owner_references if other.uid != uid]
    return owners_patch(each, [reference_document(other) for other in kept])


def owners_patch(subject: Any, owners: Sequence[Mapping[str, Any]]) -> Patch:
    """Return the patch that replaces the owner references of an object."""
    patch = {"metadata": {"ownerReferences": list(owners) or None}}
    return Patch(subject, patch, unless_changed=True)


def reference_document(owner: OwnerReference) -> dict[str, Any]:
    """Return the JSON of an owner reference."""
    written = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
    return {key: value for key, value in written.items() if value is not None}
