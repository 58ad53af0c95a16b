"""All objects of one resource, the changes that led there, and who follows them.

The log is bounded. A reader holds a position in it and takes what is new since; nothing is
buffered per reader, and one that falls behind the end of the log is told so. No I/O, no
clock, no tasks: a reader that has nothing to read leaves a callback.
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

__all__ = ["Collection", "Restored"]


class Restored(NamedTuple):
    """An object from an earlier life of the store."""

    # The plural with its group.
    resource: str
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
        # The number that the next change will have.
        self.end = 0
        # The number of the first change that the log still holds.
        self._first = 0
        # The revision of the last change that it no longer holds.
        self._forgotten = 0
        self._samples = budget.samples(self._halve)
        self._ordered: list[str] | None = []
        self._sleepers: list[Callable[[], None]] = []

    @property
    def oldest_revision(self) -> int:
        """The oldest revision from which a reader can still catch up."""
        return self._forgotten

    def keys(self) -> list[str]:
        """All keys in order. Do not change the list."""
        if self._ordered is None:
            self._ordered = sorted(self.objects)
        return self._ordered

    def commit(self, change: StoredChange) -> None:
        """Make a change the newest state, and tell those who wait for one."""
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
            # A record that somebody watches is there twice: as it is, and as bytes on the wire.
            self._samples.add(number, 2 * len(msgspec.json.encode(record.data)))
        if self._sleepers:
            sleepers, self._sleepers = self._sleepers, []
            for wake in sleepers:
                wake()

    def _cut(self, surplus: int) -> None:
        """Forget the oldest changes."""
        self._forgotten = self._log[surplus - 1].revision
        self._first += surplus
        del self._log[:surplus]
        self._samples.forget(self._first)

    def forget_before(self, position: int) -> None:
        """Forget the changes before a position, which all who follow have read."""
        if position > self._first:
            self._cut(position - self._first)

    def _halve(self) -> bool:
        if len(self._log) <= 1:
            return False
        self._cut(-(-len(self._log) // 2))
        return True

    def restore(self, restored: Restored) -> None:
        """Take back an object. Only before the first change."""
        record = Record(self.resource, restored.key, restored.data, restored.revision)
        self.objects[restored.key] = record
        self._ordered = None

    def begin_at(self, revision: int) -> None:
        """Know nothing of what happened up to a revision."""
        self._forgotten = revision

    def compact(self, revision: int) -> None:
        """Forget what led to the present state, which is that of a revision."""
        self._first += len(self._log)
        self._log.clear()
        self._samples.forget(self._first)
        self._forgotten = revision

    def call_on_change(self, wake: Callable[[], None]) -> None:
        """Call back once, at the next change."""
        self._sleepers.append(wake)

    def forget(self, wake: Callable[[], None]) -> None:
        """Take back a callback that has not been called."""
        if wake in self._sleepers:
            self._sleepers.remove(wake)

    def position_after(self, revision: int) -> int:
        """The number of the first change after a revision.

        Raises:
            ApiError: 410, the log no longer reaches back that far.
        """
        if revision < self._forgotten:
            raise too_old(revision, self._forgotten)
        low, high = 0, len(self._log)
        while low < high:
            middle = (low + high) // 2
            if self._log[middle].revision <= revision:
                low = middle + 1
            else:
                high = middle
        return self._first + low

    def changes(self, position: int, limit: int) -> list[StoredChange]:
        """The changes from a position on, oldest first.

        Raises:
            ApiError: 410, they have been forgotten.
        """
        start = position - self._first
        if start < 0:
            raise too_old(self._forgotten - 1, self._forgotten)
        return self._log[start : start + limit]

    def objects_at(self, revision: int) -> dict[str, Record]:
        """The objects as they were right after a revision.

        Raises:
            ApiError: 410, the log no longer reaches back that far.
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
        """Every change that the log still holds, oldest first."""
        return iter(self._log)

    def check_invariants(self, revision: int) -> None:
        """Assert that log and objects tell the same story, up to a revision."""
        assert self.end == self._first + len(self._log), (self.end, self._first)
        last = self._forgotten
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
