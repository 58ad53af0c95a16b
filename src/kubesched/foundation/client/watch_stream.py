"""Decodes the bytes of a watch into events: one JSON document per line.

The class performs no I/O: it is fed with the received bytes. Whole lines are decoded in one call,
directly into the watched type.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api import codec
from kubesched.api.access import ApiError, EventType, WatchEvent
from kubesched.api.base import ApiStruct
from kubesched.api.meta import ObjectMeta, Status
from kubesched.foundation.client.unreadable import leave_out
from kubesched.foundation.util.large_objects import LARGE_TEXT, allocating_large

__all__ = ["LONGEST_LINE", "WatchDecoder"]

T = TypeVar("T", bound=msgspec.Struct)

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
LONGEST_LINE = 64 << 20


class _Event(ApiStruct, Generic[T]):
    type: EventType
    object: T


class _RawEvent(ApiStruct):
    type: str
    object: msgspec.Raw


class _Bookmark(ApiStruct):
    metadata: ObjectMeta = ObjectMeta()


class WatchDecoder(Generic[T]):
    """Holds the beginning of a line whose end has not arrived."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        typed: Any = _Event[kind]  # type: ignore[valid-type]
        self._lines: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(typed)
        self._parts: list[bytes] = []
        self._length = 0
        self.has_seen_bookmark = False
        # Whether the last events have a large object, so that other tasks must run in between.
        self.is_large = False

    def feed(self, chunk: bytes) -> list[WatchEvent[T]]:
        """Append received bytes, and return the events that are complete.

        An event of type ERROR has a Status as its object, and is the last one. An object that
        cannot be decoded is replaced by a bookmark.

        Raises:
            ApiError: the received data cannot be decoded.
        """
        self.is_large = False
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._append_part(chunk)
            return []
        whole = b"".join((*self._parts, chunk[:end]))
        self._parts.clear()
        self._length = 0
        if end < len(chunk):
            self._append_part(chunk[end:])
        if len(whole) > LARGE_TEXT and max(map(len, whole.split(b"\n"))) > LARGE_TEXT:
            self.is_large = True
            with allocating_large(len(whole)):
                return self._decode(whole)
        return self._decode(whole)

    def _append_part(self, part: bytes) -> None:
        self._parts.append(part)
        self._length += len(part)
        if self._length > LONGEST_LINE:
            raise _unreadable("an event is longer than any object can be")

    def _decode(self, lines: bytes) -> list[WatchEvent[T]]:
        try:
            events = self._lines.decode_lines(lines)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # An error has another type; null for a field whose type does not allow it takes the
            # slow path.
            return [self._decode_one(line) for line in lines.splitlines() if line]
        decoded = []
        for event in events:
            if event.type == "ERROR":
                return [self._decode_one(line) for line in lines.splitlines() if line]
            metadata = event.object.metadata  # type: ignore[attr-defined]  # every kind has it
            if event.type == "BOOKMARK":
                decoded.append(self._bookmark(metadata))
            else:
                decoded.append(WatchEvent(event.type, event.object, metadata.resource_version))
        return decoded

    def _decode_one(self, line: bytes) -> WatchEvent[T]:
        try:
            raw = codec.decode(line, _RawEvent)
            if raw.type == "ERROR":
                status: Any = codec.decode(bytes(raw.object), Status)
                return WatchEvent("ERROR", status, "")
            if raw.type == "BOOKMARK":
                return self._bookmark(codec.decode(bytes(raw.object), _Bookmark).metadata)
        except msgspec.MsgspecError as exc:
            raise _unreadable(str(exc)) from exc
        if raw.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise _unreadable(f"unknown type of event {raw.type!r}")
        try:
            changed = codec.decode(bytes(raw.object), self._kind)
        except msgspec.MsgspecError as exc:
            if raw.type == "DELETED":
                raise _unreadable(str(exc)) from exc  # a new list will not have it
            return WatchEvent("BOOKMARK", None, leave_out(self._kind, bytes(raw.object), exc))
        version = changed.metadata.resource_version  # type: ignore[attr-defined]
        return WatchEvent(raw.type, changed, version)  # type: ignore[arg-type]

    def _bookmark(self, metadata: ObjectMeta) -> WatchEvent[T]:
        is_end = metadata.annotations.get(_INITIAL_EVENTS_END) == "true"
        # The one that ends the initial list promises no others: where nothing has ever changed,
        # servers have none to send.
        self.has_seen_bookmark = self.has_seen_bookmark or not is_end
        return WatchEvent("BOOKMARK", None, metadata.resource_version, is_end)


def _unreadable(why: str) -> ApiError:
    message = f"unable to decode an event from the watch stream: {why}"
    return ApiError(Status(status="Failure", code=500, reason="InternalError", message=message))
