"""The objects of one resource and the bounded log of their changes.

A reader stores its position in the log and reads the changes after it. The collection buffers
nothing per reader. A reader whose position is no longer in the log gets an error. There is no
I/O, no clock and no task here: a reader that has read everything registers a callback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.errors.api_errors import expired
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.log_budget import LogBudget
from kubesched.cluster.apiserver.store.stored_records import Record, StoredChange

__all__ = ["Collection", "RestoredObject"]


class RestoredObject(NamedTuple):
    """An object that the store held before a restart."""

    resource: str  # the plural with its group
    key: str
    revision: int
    data: dict[str, Any]


class Collection:
    """The objects of a resource by key (`namespace/name`, or `name`)."""

    def __init__(self, resource: Resource, history: int, budget: LogBudget) -> None:
        self.resource = resource
        self.objects: dict[str, Record] = {}
        self._history = history
        self._log: list[StoredChange] = []
        # The number that the next change gets. Changes are numbered per collection.
        self.end = 0
        # The number of the first change in the log.
        self._first = 0
        # The revision of the last change that was dropped from the log.
        self._dropped_revision = 0
        self._samples = budget.samples(self._halve)
        # The sorted keys; None if they must be sorted again.
        self._ordered: list[str] | None = []
        self._callbacks: list[Callable[[], None]] = []

    @property
    def oldest_revision(self) -> int:
        """The oldest revision after which the log holds every change."""
        return self._dropped_revision

    def keys(self) -> list[str]:
        """Return all keys in order. Callers must not change the list."""
        if self._ordered is None:
            self._ordered = sorted(self.objects)
        return self._ordered

    def commit(self, change: StoredChange) -> None:
        """Apply a change, append it to the log and call the waiting callbacks."""
        record = change.record
        if change.type != "MODIFIED":
            self._ordered = None
        if change.type == "DELETED":
            del self.objects[record.key]
        else:
            self.objects[record.key] = record
        log, number = self._log, self.end
        log.append(change)
        self.end = number + 1
        # Cut in large pieces, so that the cost per change stays constant.
        if len(log) >= 2 * self._history:
            self._cut(len(log) - self._history)
        if self._samples.is_due(number):
            # A watched record takes memory twice: as JSON values and as encoded bytes.
            self._samples.add(number, 2 * len(msgspec.json.encode(record.data)))
        if self._callbacks:
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def _cut(self, surplus: int) -> None:
        """Drop the oldest changes from the log."""
        self._dropped_revision = self._log[surplus - 1].revision
        self._first += surplus
        del self._log[:surplus]
        self._samples.drop_before(self._first)

    def drop_before(self, position: int) -> None:
        """Drop the changes before a position that all readers have passed."""
        if position > self._first:
            self._cut(position - self._first)

    def _halve(self) -> bool:
        if len(self._log) <= 1:
            return False
        self._cut(-(-len(self._log) // 2))
        return True

    def restore(self, restored: RestoredObject) -> None:
        """Restore an object. Allowed only before the first change."""
        record = Record(self.resource, restored.key, restored.data, restored.revision)
        self.objects[restored.key] = record
        self._ordered = None

    def begin_at(self, revision: int) -> None:
        """Set the revision at which the log begins."""
        self._dropped_revision = revision

    def compact(self, revision: int) -> None:
        """Drop the whole log. `revision` is that of the current state."""
        self._first += len(self._log)
        self._log.clear()
        self._samples.drop_before(self._first)
        self._dropped_revision = revision

    def call_on_change(self, callback: Callable[[], None]) -> None:
        """Register a callback for the next change only."""
        self._callbacks.append(callback)

    def cancel_call(self, callback: Callable[[], None]) -> None:
        """Unregister a callback, if it is registered."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def position_after(self, revision: int) -> int:
        """Return the number of the first change after a revision.

        Raises:
            ApiError: 410, the log no longer holds all changes after the revision.
        """
        if revision < self._dropped_revision:
            raise too_old(revision, self._dropped_revision)
        low, high = 0, len(self._log)
        while low < high:
            middle = (low + high) // 2
            if self._log[middle].revision <= revision:
                low = middle + 1
            else:
                high = middle
        return self._first + low

    def changes(self, position: int, limit: int) -> list[StoredChange]:
        """Return up to `limit` changes from a position on, oldest first.

        Raises:
            ApiError: 410, the log no longer holds them.
        """
        start = position - self._first
        if start < 0:
            raise too_old(self._dropped_revision - 1, self._dropped_revision)
        return self._log[start : start + limit]

    def objects_at(self, revision: int) -> dict[str, Record]:
        """Return the objects at a revision, reconstructed from the log.

        Raises:
            ApiError: 410, the log no longer holds all changes after the revision.
        """
        start = self.position_after(revision) - self._first
        if start == len(self._log):
            return self.objects
        objects = dict(self.objects)
        for change in reversed(self._log[start:]):
            if change.previous is None:
                objects.pop(change.record.key, None)
            else:
                objects[change.record.key] = change.previous
        return objects

    def history(self) -> Iterator[StoredChange]:
        """Iterate over the changes in the log, oldest first."""
        return iter(self._log)

    def check_invariants(self, revision: int) -> None:
        """Assert that the log and the objects are consistent, up to a revision."""
        assert self.end == self._first + len(self._log), (self.end, self._first)
        last = self._dropped_revision
        latest: dict[str, StoredChange] = {}
        for change in self._log:
            assert last < change.revision <= revision, (last, change.revision, revision)
            before = latest.get(change.record.key)
            if before is not None:
                gone = before.type == "DELETED"
                assert (change.previous is None) == gone, change.record.key
                assert gone or change.previous is before.record, change.record.key
            assert (change.previous is None) == (change.type == "ADDED"), change.record.key
            last = change.revision
            latest[change.record.key] = change
        for key, change in latest.items():
            stored = self.objects.get(key)
            assert (stored is None) == (change.type == "DELETED"), key
            assert stored is None or stored is change.record, key
        for key, record in self.objects.items():
            assert record.key == key, (record.key, key)
            version = record.data["metadata"]["resourceVersion"]
            assert version == str(record.revision), (key, version, record.revision)


def too_old(revision: int, oldest: int) -> ApiError:
    return expired(f"too old resource version: {revision} ({oldest})")
