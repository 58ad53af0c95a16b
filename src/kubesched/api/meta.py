"""Types of `meta/v1`: object metadata, label selectors, and `Status`."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from kubesched.api.base import ApiObject, ApiStruct, Int32, Int64

__all__ = [
    "Condition",
    "LabelSelector",
    "LabelSelectorRequirement",
    "List",
    "ListMeta",
    "ObjectMeta",
    "OwnerReference",
    "Status",
    "StatusCause",
    "StatusDetails",
]


class OwnerReference(ApiStruct):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiStruct):
    """Identity and version of an object.

    `managedFields` is not declared: it is the largest part of most objects, kubesched does not
    read it, and a server preserves its own if an update does not contain it.
    """

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ListMeta(ApiStruct):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")
    remaining_item_count: Int64 | None = None


class LabelSelectorRequirement(ApiStruct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, gc=True, weakref=True):
    """A selection of labels; None selects nothing, an empty selector everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(ApiStruct):
    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class StatusCause(ApiStruct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(ApiStruct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 = 0


class Status(ApiObject):
    """A server's response to a request that returns no object."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Status"

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: Int32 = 0


class List(ApiObject):
    """Objects of any kinds in one document, as in manifests."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "List"

    metadata: ListMeta = ListMeta()
    items: tuple[dict[str, Any], ...] = ()
