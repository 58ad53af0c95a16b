"""Records: one revision of one object, and one change in the log.

The store holds an object as a JSON-like dictionary. It is immutable once stored, because
revisions share its parts. A record creates the typed struct and the encoded bytes on demand and
caches them, once per revision for all readers.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kubesched.api.access import WatchEvent
from kubesched.api.custom_kinds import CustomObject, named_custom_kind
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.typed_views import derive_struct, make_struct
from kubesched.cluster.apiserver.store.wire_form import wire_form

__all__ = ["ChangeType", "Record", "StoredChange"]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Record(msgspec.Struct, eq=False, gc=False):
    """An object at a revision. Treat `data` as frozen.

    A record is never part of a reference cycle, so the garbage collector does not track records
    (`gc=False`). A log may hold hundreds of thousands of them.
    """

    resource: Resource
    key: str
    data: dict[str, Any]
    revision: int
    # An older struct, its data, and the data of this object without its version; see `typed`.
    _made_from: tuple[Any, dict[str, Any], dict[str, Any]] | None = None
    _typed: Any = None
    _encoded: bytes | None = None

    @staticmethod
    def numbered(
        resource: Resource,
        key: str,
        data: dict[str, Any],
        revision: int,
        base: tuple[Any, dict[str, Any]] | None,
    ) -> Record:
        """Create the record of a new revision, and set the object's version to its number.

        `base` is a struct and its data. `typed` makes the struct of this object from them.
        """
        metadata = {**data["metadata"], "resourceVersion": str(revision)}
        made_from = None if base is None else (*base, data)
        return Record(resource, key, {**data, "metadata": metadata}, revision, made_from)

    @property
    def base(self) -> tuple[Any, dict[str, Any]] | None:
        """The struct and its data, from which the struct of the next revision can be derived.

        None if no reader has used the struct. This is not the record itself, because a chain of
        records would hold the whole history in memory.
        """
        return None if self._typed is None else (self._typed, self.data)

    @property
    def typed(self) -> Any:
        """The struct of this object. Shared: structs are immutable."""
        typed = self._typed
        if typed is None:
            if self._made_from is not None:
                typed = derive_struct(*self._made_from, self.data["metadata"]["resourceVersion"])
                self._made_from = None
            else:
                typed = make_struct(_type_of(self.resource), self.data)
            self._typed = typed
        return typed

    @property
    def encoded(self) -> bytes:
        """The object as JSON, with its kind and version."""
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = msgspec.json.encode(wire_form(self.resource, self.data))
        return encoded

    def redefine(self, resource: Resource, data: dict[str, Any]) -> None:
        """Replace the resource definition and the data of this revision, and clear its caches."""
        if data is not self.data or resource is not self.resource:
            self.resource, self.data = resource, data
            self._typed = self._encoded = self._made_from = None

    def with_revision(self, revision: int) -> Record:
        """Return a record of the same object with another version.

        A watch shows it when an object leaves the watch's selection.
        """
        return Record.numbered(self.resource, self.key, self.data, revision, self.base)


class StoredChange(msgspec.Struct, eq=False, gc=False):
    """One entry of the log: the new record of an object and the previous one."""

    type: ChangeType
    record: Record
    previous: Record | None
    revision: int
    _event: WatchEvent[Any] | None = None

    @property
    def event(self) -> WatchEvent[Any]:
        """The change as a watch event for a watch without selectors."""
        event = self._event
        if event is None:
            record = self.record
            event = WatchEvent(self.type, record.typed, str(record.revision))
            self._event = event
        return event


def _type_of(resource: Resource) -> type[Any]:
    """Return the type of a resource's objects: that of a plugin for a custom resource, if any."""
    if resource.type is not None:
        return resource.type
    version = f"{resource.group}/{resource.version}"
    custom = named_custom_kind(version, resource.kind)
    return CustomObject if custom is None else custom.type
