"""The cache of recent events, which turns repeated events into series.

docs/reference/02 §8.2, §8.3. Events that differ only in time and note are one series: the first is
created, the second makes it a series of two, and later ones only count until the series is
refreshed or finished. The class performs no I/O: it takes events with their time, and returns what
the broadcaster must send.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from kubesched.api.events import Event, EventSeries
from kubesched.api.meta import ObjectMeta
from kubesched.api.reference import ObjectReference
from kubesched.api.time import format_micro_time
from kubesched.foundation.util.clock import MINUTE

__all__ = ["EventKey", "EventSeriesCache", "Sending", "TrackedEvent"]

_FORGET_AFTER_NS = 6 * MINUTE
# The bounds of the cache by type of event. An entry takes 750 bytes.
_KEPT: Final = {"Normal": 1_000, "Warning": 30_000}
_SERIES_KEPT: Final = 30_000


class EventKey(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The key of a series. The references include the resource version."""

    kind: str
    action: str
    reason: str
    controller: str
    instance: str
    regarding: ObjectReference
    related: ObjectReference | None


class TrackedEvent:
    """The first event of a key, and the number of its repetitions."""

    __slots__ = (
        "_sent",
        "count",
        "is_sending",
        "key",
        "last_observed_ns",
        "name",
        "note",
        "time_ns",
    )

    def __init__(self, key: EventKey, name: str, note: str, time_ns: int) -> None:
        self.key = key
        self.name = name
        self.note = note
        self.time_ns = time_ns
        self.count = 0  # of the series; 0 for a single event
        self.last_observed_ns = 0
        # A request for this event is in flight. A patch must wait for the creation.
        self.is_sending = False
        self._sent: asyncio.Future[None] | None = None  # set while a task waits for that request

    async def until_sent(self) -> None:
        """Wait until the request in flight has completed or failed."""
        if self._sent is None:
            self._sent = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._sent,))

    def stop_sending(self) -> None:
        self.is_sending = False
        if self._sent is not None:
            self._sent.set_result(None)
            self._sent = None

    @property
    def namespace(self) -> str:
        return self.key.regarding.namespace or "default"


class Sending(msgspec.Struct, frozen=True):
    """One state of an event to send: a creation for a single event, otherwise a patch."""

    recorded: TrackedEvent
    series_count: int = 0
    last_observed_ns: int = 0

    @property
    def is_series(self) -> bool:
        return self.series_count > 0

    def series(self) -> EventSeries:
        return EventSeries(
            count=self.series_count, last_observed_time=format_micro_time(self.last_observed_ns)
        )

    def event(self) -> Event:
        recorded, key = self.recorded, self.recorded.key
        return Event(
            metadata=ObjectMeta(name=recorded.name, namespace=recorded.namespace),
            event_time=format_micro_time(recorded.time_ns),
            series=self.series() if self.series_count else None,
            reporting_controller=key.controller,
            reporting_instance=key.instance,
            action=key.action,
            reason=key.reason,
            regarding=key.regarding,
            related=key.related,
            note=recorded.note,
            type=key.kind,
        )


class EventSeriesCache:
    """The recent events by key, single ones and series.

    Normal events (a pod is bound, a victim evicted) rarely repeat, and warnings often do. Therefore
    the bound is low for normal events and high for warnings. An evicted event is created again when
    it repeats.
    """

    def __init__(self) -> None:
        self._single: dict[str, dict[EventKey, TrackedEvent]] = {kind: {} for kind in _KEPT}
        self._series: dict[EventKey, TrackedEvent] = {}

    def __len__(self) -> int:
        return len(self._series) + sum(map(len, self._single.values()))

    def repeat(self, key: EventKey, now_ns: int) -> tuple[bool, Sending | None]:
        """Count one more event of a key. Returns False if the key is not cached."""
        recorded = self._series.get(key)
        if recorded is not None:
            recorded.last_observed_ns = now_ns
            recorded.count += 1
            return True, None
        recorded = self._single[key.kind].pop(key, None)
        if recorded is None:
            return False, None
        recorded.last_observed_ns = now_ns
        recorded.count = 2
        _put(self._series, recorded, _SERIES_KEPT)
        return True, _sending_of(recorded)

    def add(self, key: EventKey, name: str, note: str, now_ns: int) -> Sending:
        """Cache the first event of its key. Returns its creation."""
        recorded = TrackedEvent(key, name, note, now_ns)
        _put(self._single[key.kind], recorded, _KEPT[key.kind])
        return Sending(recorded)

    def forget(self, sending: Sending) -> None:
        """Evict a series that was sent for the last time, unless it grew in the meantime."""
        recorded = sending.recorded
        if recorded.count == sending.series_count:
            self._series.pop(recorded.key, None)

    def all_series(self) -> list[Sending]:
        """Return every series in its current state, to refresh it on the server."""
        return list(map(_sending_of, self._series.values()))

    def take_finished(self, now_ns: int) -> list[Sending]:
        """Evict old single events. Returns the finished series, to be sent a last time."""
        long_ago_ns = now_ns - _FORGET_AFTER_NS
        for kind, events in self._single.items():
            self._single[kind] = {
                key: recorded for key, recorded in events.items() if recorded.time_ns >= long_ago_ns
            }
        return [
            _sending_of(recorded)
            for recorded in self._series.values()
            if recorded.last_observed_ns < long_ago_ns
        ]


def _put(events: dict[EventKey, TrackedEvent], recorded: TrackedEvent, most: int) -> None:
    """Add an event, and evict the oldest one if the cache is full."""
    events[recorded.key] = recorded
    if len(events) > most:
        del events[next(iter(events))]


def _sending_of(recorded: TrackedEvent) -> Sending:
    return Sending(recorded, recorded.count, recorded.last_observed_ns)
