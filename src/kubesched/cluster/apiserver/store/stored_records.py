"""One stored revision of one object, and one change in the log.

An object's truth is a JSON-like dictionary that nobody changes once it is stored: parts are
shared between revisions. What readers need beside it is made on demand and kept, once per
revision however many readers there are: the typed struct, and the bytes on the wire.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kubesched.api.access import WatchEvent
from kubesched.api.custom_kinds import CustomObject
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.typed_views import derive, typed_view
from kubesched.cluster.apiserver.store.wire_form import wire_form

__all__ = ["ChangeType", "Record", "StoredChange"]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Record(msgspec.Struct, eq=False, gc=False):
    """An object at a revision. Treat `data` as frozen.

    Nothing that a record holds leads back to it, so the garbage collector is not made to look at
    the hundreds of thousands that a log may hold.
    """

    resource: Resource
    key: str
    data: dict[str, Any]
    revision: int
    # A struct and its data, and the data of this object before it got its version.
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
        """The next revision of an object, whose number becomes its version.

        `base` is a struct and its data, to make the struct of this object from.
        """
        metadata = {**data["metadata"], "resourceVersion": str(revision)}
        made_from = None if base is None else (*base, data)
        return Record(resource, key, {**data, "metadata": metadata}, revision, made_from)

    @property
    def base(self) -> tuple[Any, dict[str, Any]] | None:
        """What to make the struct of the next revision from, if anybody has asked for this one's.

        Not the record itself: records must not chain up their history.
        """
        return None if self._typed is None else (self._typed, self.data)

    @property
    def typed(self) -> Any:
        """The struct of this object. Shared: structs are immutable."""
        typed = self._typed
        if typed is None:
            if self._made_from is not None:
                typed = derive(*self._made_from, self.data["metadata"]["resourceVersion"])
                self._made_from = None
            else:
                typed = typed_view(self.resource.type or CustomObject, self.data)
            self._typed = typed
        return typed

    @property
    def encoded(self) -> bytes:
        """The object as JSON, with its kind and version."""
        encoded = self._encoded
        if encoded is None:
            encoded = self._encoded = msgspec.json.encode(wire_form(self.resource, self.data))
        return encoded

    def show_as(self, resource: Resource, data: dict[str, Any]) -> None:
        """See the same revision through another definition of its resource."""
        if data is not self.data or resource is not self.resource:
            self.resource, self.data = resource, data
            self._typed = self._encoded = self._made_from = None

    def with_revision(self, revision: int) -> Record:
        """The same object under another version, as a watch shows what left its selection."""
        return Record.numbered(self.resource, self.key, self.data, revision, self.base)


class StoredChange(msgspec.Struct, eq=False, gc=False):
    """One entry of the log: what an object became, and what it was before."""

    type: ChangeType
    record: Record
    previous: Record | None
    revision: int
    _event: WatchEvent[Any] | None = None

    @property
    def event(self) -> WatchEvent[Any]:
        """The change as a watch without a selection shows it."""
        event = self._event
        if event is None:
            record = self.record
            event = WatchEvent(self.type, record.typed, str(record.revision))
            self._event = event
        return event
