"""Computes the writes after which EndpointSlices contain given endpoints, with few changed slices.

A slice has one address type, one list of ports and at most 100 endpoints. An endpoint stays in its
slice as long as the ports of the slice do not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.api.discovery import EndpointSlice
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action, Create, Delete, Patch

__all__ = ["MANAGER_LABEL", "SERVICE_LABEL", "EndpointGroup", "SliceMetadata", "plan_slices"]

Json = dict[str, Any]

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
_PER_SLICE = 100


class EndpointGroup(NamedTuple):
    """Endpoints with the same ports."""

    address_type: str
    ports: list[Json]
    endpoints: list[Json]


class SliceMetadata(NamedTuple):
    """The owner of slices, and the metadata that all of its slices have."""

    owner: Any
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class _StoredSlice(NamedTuple):
    subject: EndpointSlice
    document: Mapping[str, Any]


def plan_slices(
    objects: ObjectIndex, metadata: SliceMetadata, groups: Sequence[EndpointGroup]
) -> list[Action]:
    """Write the groups to the slices that the owner and this manager have."""
    unused = _stored_slices(objects, metadata)
    unplaced: list[EndpointGroup] = []
    actions: list[Action] = []
    for group in groups:
        matching = [
            each
            for each in unused
            if each.document.get("addressType") == group.address_type
            and (each.document.get("ports") or []) == group.ports
        ]
        parts, rest = _distributed(matching, group)
        for each, part in zip(matching, parts, strict=True):
            if part or not group.endpoints:
                unused.remove(each)
                actions += _changes(each, metadata, group.ports, part)
        if rest or not (matching or group.endpoints):
            unplaced.append(group._replace(endpoints=rest))
    for group in unplaced:
        for start in range(0, max(1, len(group.endpoints)), _PER_SLICE):
            part = group.endpoints[start : start + _PER_SLICE]
            actions += _place_part(unused, metadata, group._replace(endpoints=part))
    return actions + [Delete(each.subject) for each in unused]


def _place_part(
    unused: list[_StoredSlice], metadata: SliceMetadata, group: EndpointGroup
) -> Sequence[Action]:
    """Write endpoints to an unused slice, which is removed from the list, or to a new one."""
    for each in unused:
        if each.document.get("addressType") == group.address_type:
            unused.remove(each)
            return _changes(each, metadata, group.ports, group.endpoints)
    return [Create(EndpointSlice, _new_slice(metadata, group))]


def _stored_slices(objects: ObjectIndex, metadata: SliceMetadata) -> list[_StoredSlice]:
    """Return the slices of the owner that its manager has written, the oldest first."""
    owner, manager = metadata.owner.metadata, metadata.labels[MANAGER_LABEL]
    slices: list[EndpointSlice] = sorted(
        (
            each
            for each in objects.controlled(owner.uid, EndpointSlice)
            if each.metadata.labels.get(MANAGER_LABEL) == manager
            and each.metadata.deletion_timestamp is None
        ),
        key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name),
    )
    stored = []
    for each in slices:
        document = objects.document(EndpointSlice, owner.namespace, each.metadata.name)
        if document is not None:
            stored.append(_StoredSlice(each, document))
    return stored


def _distributed(
    slices: Sequence[_StoredSlice], group: EndpointGroup
) -> tuple[list[list[Json]], list[Json]]:
    """Return the endpoints of each slice, and those that fit no slice."""
    waiting = {_identity(each): each for each in group.endpoints}
    parts = [
        [
            waiting.pop(key)
            for endpoint in each.document.get("endpoints") or ()
            if (key := _identity(endpoint)) in waiting
        ]
        for each in slices
    ]
    rest = list(waiting.values())
    # The fullest slice first, so that sparse slices become empty and can be deleted.
    for part in sorted(parts, key=len, reverse=True):
        room = _PER_SLICE - len(part)
        if part and room > 0:
            part += rest[:room]
            rest = rest[room:]
    for part in parts:
        if not part and rest:
            part += rest[:_PER_SLICE]
            rest = rest[_PER_SLICE:]
    return parts, rest


def _identity(endpoint: Mapping[str, Any]) -> tuple[str, str]:
    return endpoint["addresses"][0], (endpoint.get("targetRef") or {}).get("uid", "")


def _changes(
    stored: _StoredSlice, metadata: SliceMetadata, ports: list[Json], endpoints: list[Json]
) -> list[Action]:
    """Return the patch that gives a slice these contents, if anything differs."""
    document = stored.document
    patch: Json = {}
    if (document.get("ports") or []) != ports:
        patch["ports"] = ports
    if (document.get("endpoints") or []) != endpoints:
        patch["endpoints"] = endpoints
    labels = document["metadata"].get("labels", {})
    if labels != metadata.labels:
        removed = {key: None for key in labels if key not in metadata.labels}
        patch["metadata"] = {"labels": {**removed, **metadata.labels}}
    annotations = document["metadata"].get("annotations", {})
    if not metadata.annotations.items() <= annotations.items():
        patch.setdefault("metadata", {})["annotations"] = dict(metadata.annotations)
    return [Patch(stored.subject, patch)] if patch else []


def _new_slice(metadata: SliceMetadata, group: EndpointGroup) -> Json:
    owner = metadata.owner.metadata
    written: Json = {
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": dict(metadata.labels),
        "ownerReferences": [controller_reference(metadata.owner)],
    }
    if metadata.annotations:
        written["annotations"] = dict(metadata.annotations)
    return {
        "metadata": written,
        "addressType": group.address_type,
        "endpoints": group.endpoints,
        "ports": group.ports,
    }
