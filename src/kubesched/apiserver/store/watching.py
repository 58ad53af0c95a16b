"""Following a collection: which changes a watcher sees, and as what.

An object that starts to match a selection appears as ADDED, one that ceases to match as
DELETED, whatever happened to it in the store. A watcher whose selection hides most changes
gets a bookmark now and then, so that it can resume from where the log still reaches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kubesched.api.access import EventType, WatchEvent
from kubesched.apiserver.rules.served_resources import Resource
from kubesched.apiserver.store.collection import Collection
from kubesched.apiserver.store.records import Change, Record
from kubesched.apiserver.store.selection import Selection

__all__ = ["Seen", "Watcher"]

BOOKMARK_EVERY = 1000
"""Changes that pass unseen before a bookmark says so."""
_BATCH = 4096


class Seen(NamedTuple):
    """A change as a watcher sees it; a bookmark has no record."""

    type: EventType
    record: Record | None
    revision: int
    change: Change | None = None

    @property
    def event(self) -> WatchEvent[Any]:
        if self.change is not None:
            return self.change.event
        typed = None if self.record is None else self.record.typed
        return WatchEvent(self.type, typed, str(self.revision))


class Watcher:
    """A position in a collection's log and a selection. Reads only when asked to."""

    def __init__(
        self,
        collection: Collection,
        revision: int,
        selection: Selection,
        face: Resource | None = None,
        *,
        initial: Iterable[Record] = (),
    ) -> None:
        """`initial` is shown first, as added; `face` is the form in which to show objects."""
        self.collection = collection
        self._face = face
        self._initial = [Seen("ADDED", record, record.revision) for record in initial]
        self._selection = selection
        self._position = collection.position_after(revision)
        # From a revision that is still to come, what happens before it is not news.
        self._after = revision
        self._unseen = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to read."""
        return self._position >= self.collection.end and not self._initial

    def read(self) -> list[Seen]:
        """What is new, oldest first; empty if nothing is.

        Raises:
            ApiError: 410, the watcher fell too far behind.
        """
        seen, self._initial = self._initial, []
        changes = self.collection.changes(self._position, _BATCH)
        if changes:
            seen += self._select(changes)
        if self._face is None:
            return seen
        return [_in_face(self._face, each) for each in seen]

    def _select(self, changes: list[Change]) -> list[Seen]:
        self._position += len(changes)
        if changes[0].revision <= self._after:
            changes = [change for change in changes if change.revision > self._after]
        if self._selection.everything:
            return [Seen(change.type, change.record, change.revision, change) for change in changes]
        seen = []
        for change in changes:
            if (shown := self._show(change)) is not None:
                seen.append(shown)
                self._unseen = 0
            else:
                self._unseen += 1
                if self._unseen >= BOOKMARK_EVERY:
                    seen.append(Seen("BOOKMARK", None, change.revision))
                    self._unseen = 0
        return seen

    def _show(self, change: Change) -> Seen | None:
        matches = self._selection.matches
        record, previous = change.record, change.previous
        before = previous is not None and matches(previous)
        if change.type == "DELETED":
            return Seen("DELETED", record, change.revision, change) if before else None
        now = matches(record)
        if now:
            kind: EventType = "MODIFIED" if before else "ADDED"
            same = change if kind == change.type else None
            return Seen(kind, record, change.revision, same)
        if before:
            assert previous is not None
            return Seen("DELETED", previous.with_revision(change.revision), change.revision)
        return None


def _in_face(face: Resource, seen: Seen) -> Seen:
    record = seen.record
    if record is None:
        return seen
    assert face.from_stored is not None
    shown = Record(face, record.key, face.from_stored(record.data), record.revision)
    return Seen(seen.type, shown, seen.revision)
