"""Following a collection: which changes a watcher sees, and as what.

An object that starts to match a selection appears as ADDED, one that ceases to match as
DELETED, whatever happened to it in the store. A watcher whose selection hides most changes
gets a bookmark now and then, so that it can resume from where the log still reaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kubesched.api.access import EventType, WatchEvent
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.selector_matching import Selection
from kubesched.cluster.apiserver.store.stored_records import Record, StoredChange

__all__ = ["Seen", "Watcher"]

# Changes that pass unseen before a bookmark says so.
BOOKMARK_EVERY = 1000
_BATCH = 4096


class Shown(NamedTuple):
    """Something else than the change itself, as a watcher sees it; a bookmark has no record."""

    type: EventType
    record: Record | None
    revision: int

    @property
    def event(self) -> WatchEvent[Any]:
        typed = None if self.record is None else self.record.typed
        return WatchEvent(self.type, typed, str(self.revision))


# What a watcher sees: nearly always a change as it is.
Seen = StoredChange | Shown


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
        self._initial: list[Seen] = [Shown("ADDED", record, record.revision) for record in initial]
        self._selection = selection
        self._position = collection.position_after(revision)
        # From a revision that is still to come, what happens before it is not news.
        self._after = revision
        self._unseen = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to read."""
        return self._position == self.collection.end and not self._initial

    def read(self) -> Sequence[Seen]:
        """What is new, oldest first; empty if nothing is.

        Raises:
            ApiError: 410, the watcher fell too far behind.
        """
        changes = self.collection.changes(self._position, _BATCH)
        seen: Sequence[Seen] = []
        if changes:
            self._position += len(changes)
            if changes[0].revision <= self._after:
                changes = [change for change in changes if change.revision > self._after]
            seen = changes if self._selection.everything else self._select(changes)
        if self._initial:
            seen, self._initial = [*self._initial, *seen], []
        return seen if self._face is None else [_in_face(self._face, each) for each in seen]

    def _select(self, changes: list[StoredChange]) -> Sequence[Seen]:
        """Changes as those see them who have made a selection."""
        seen: list[Seen] = []
        matches = self._selection.matches
        for change in changes:
            previous = change.previous
            was_chosen = previous is not None and matches(previous)
            is_chosen = change.type != "DELETED" and matches(change.record)
            if was_chosen or is_chosen:
                self._unseen = 0
                # As it is, unless the object has come into the selection, or left it.
                is_as_it_is = was_chosen == is_chosen or change.type != "MODIFIED"
                seen.append(change if is_as_it_is else _moved(change, is_chosen))
            else:
                self._unseen += 1
                if self._unseen >= BOOKMARK_EVERY:
                    seen.append(Shown("BOOKMARK", None, change.revision))
                    self._unseen = 0
        return seen


def _moved(change: StoredChange, is_chosen: bool) -> Shown:
    """A change by which an object has come into a selection, or left it."""
    if is_chosen:
        return Shown("ADDED", change.record, change.revision)
    assert change.previous is not None
    return Shown("DELETED", change.previous.with_revision(change.revision), change.revision)


def _in_face(face: Resource, seen: Seen) -> Seen:
    record = seen.record
    if record is None:
        return seen
    assert face.from_stored is not None
    shown = Record(face, record.key, face.from_stored(record.data), record.revision)
    return Shown(seen.type, shown, seen.revision)
