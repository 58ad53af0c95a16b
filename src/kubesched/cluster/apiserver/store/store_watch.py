"""Watches: which changes of a collection a watcher receives, and with which type.

An object that begins to match a watch's selectors appears as ADDED. An object that no longer
matches appears as DELETED. If the selectors hide most changes, the watcher receives bookmarks,
so that it can resume at a revision that the log still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kubesched.api.access import EventType, WatchEvent
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.conversion_webhooks import VersionConversion
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.selector_matching import Selection
from kubesched.cluster.apiserver.store.stored_records import Record, StoredChange

__all__ = ["WatchedChange", "Watcher"]

# The number of hidden changes after which a watcher receives a bookmark.
BOOKMARK_EVERY = 1000
_BATCH = 4096


class DerivedChange(NamedTuple):
    """A change as a watcher receives it, if it differs from the entry of the log.

    A bookmark has no record.
    """

    type: EventType
    record: Record | None
    revision: int

    @property
    def event(self) -> WatchEvent[Any]:
        typed = None if self.record is None else self.record.typed
        return WatchEvent(self.type, typed, str(self.revision))


# What a watcher receives: nearly always the entry of the log itself.
WatchedChange = StoredChange | DerivedChange


class Watcher:
    """A position in a collection's log, and a selection of objects.

    A watcher is passive: it reads the log only when `read` is called.
    """

    def __init__(
        self,
        collection: Collection,
        revision: int,
        selection: Selection,
        served_as: Resource | None = None,
        *,
        initial: Iterable[Record] = (),
    ) -> None:
        """Begin after `revision`, with the records of `initial` as ADDED.

        `served_as` is the API version to which objects are converted, if it is not the stored one.
        """
        self.collection = collection
        self._served_as = served_as
        self._initial: list[WatchedChange] = [
            DerivedChange("ADDED", record, record.revision) for record in initial
        ]
        self._selection = selection
        self._position = collection.position_after(revision)
        # A watch may begin after a future revision. It then skips the changes up to it.
        self._after = revision
        # Changes that have been read from the log and wait for their conversion.
        self._unconverted: Sequence[WatchedChange] = ()
        self._hidden = 0  # changes since the last visible change or bookmark

    @property
    def idle(self) -> bool:
        """Whether there are no unread changes."""
        return self._position == self.collection.end and not self._initial and not self._unconverted

    def read(self) -> Sequence[WatchedChange]:
        """Return unread changes, oldest first.

        Raises:
            ApiError: 410, the log no longer holds the next change.
            CallsNeededError: a conversion is missing; the changes stay unread.
        """
        if self._unconverted:
            return self._converted_changes(self._unconverted)
        changes = self.collection.changes(self._position, _BATCH)
        seen: Sequence[WatchedChange] = []
        if changes:
            self._position += len(changes)
            if changes[0].revision <= self._after:
                changes = [change for change in changes if change.revision > self._after]
            seen = changes if self._selection.everything else self._select(changes)
        if self._initial:
            seen, self._initial = [*self._initial, *seen], []
        return seen if self._served_as is None else self._converted_changes(seen)

    def _converted_changes(self, seen: Sequence[WatchedChange]) -> Sequence[WatchedChange]:
        """Convert changes. They stay unread if a conversion is missing."""
        served_as = self._served_as
        assert served_as is not None
        self._unconverted = seen
        if isinstance(served_as.from_stored, VersionConversion):
            served_as.from_stored.fetch(
                each.record.data for each in seen if each.record is not None
            )
        converted = [_converted(served_as, each) for each in seen]
        self._unconverted = ()
        return converted

    def _select(self, changes: list[StoredChange]) -> Sequence[WatchedChange]:
        """Return the changes that concern the selected objects, and bookmarks."""
        seen: list[WatchedChange] = []
        matches = self._selection.matches
        for change in changes:
            previous = change.previous
            was_chosen = previous is not None and matches(previous)
            is_chosen = change.type != "DELETED" and matches(change.record)
            if was_chosen or is_chosen:
                self._hidden = 0
                # A modification by which an object begins or ceases to match has another type.
                is_unaltered = was_chosen == is_chosen or change.type != "MODIFIED"
                seen.append(change if is_unaltered else _moved(change, is_chosen))
            else:
                self._hidden += 1
                if self._hidden >= BOOKMARK_EVERY:
                    seen.append(DerivedChange("BOOKMARK", None, change.revision))
                    self._hidden = 0
        return seen


def _moved(change: StoredChange, is_chosen: bool) -> DerivedChange:
    """Return the ADDED or DELETED event for an object that began or ceased to match."""
    if is_chosen:
        return DerivedChange("ADDED", change.record, change.revision)
    assert change.previous is not None
    return DerivedChange("DELETED", change.previous.with_revision(change.revision), change.revision)


def _converted(served_as: Resource, change: WatchedChange) -> WatchedChange:
    record = change.record
    if record is None:
        return change
    assert served_as.from_stored is not None
    data = served_as.from_stored(record.data)
    converted = Record(served_as, record.key, data, record.revision)
    return DerivedChange(change.type, converted, change.revision)
