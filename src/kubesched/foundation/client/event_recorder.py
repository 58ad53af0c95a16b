"""Records events.k8s.io/v1 events, and sends them in the background (docs/reference/02 §8).

Recording never waits: it counts, or adds the event to a queue. The broadcaster is a component that
sends the queue, several events at a time and with lower priority than other requests. It retries
when the server is unreachable, and drops an event that the server rejects. Events are best effort:
if the server stays unreachable they are dropped and counted. After `stop()` the queue is sent for a
few seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.base import ApiObject
from kubesched.api.events import Event
from kubesched.foundation.client.event_naming import EventNames, reference_to
from kubesched.foundation.client.event_queue import EventQueue
from kubesched.foundation.client.event_series import EventKey, EventSeriesCache, Sending
from kubesched.foundation.client.informer_backoff import jitter
from kubesched.foundation.util.clock import MILLISECOND, MINUTE, SECOND, Clock
from kubesched.foundation.util.components import Component
from kubesched.foundation.util.go_format import sprintf_without_arguments
from kubesched.foundation.util.logging import get_logger

__all__ = [
    "QUEUE_CAPACITY",
    "Broadcaster",
    "EventBroadcaster",
    "EventsV1Recorder",
    "Recorder",
    "truncate_note",
]

log = get_logger(__name__)

# The reference starts a sender for each event, so it rarely drops one. The bound protects against a
# server that stays unreachable.
QUEUE_CAPACITY = 100_000
_FLUSH_NS = 5 * SECOND
_SENDERS = 8
# The longest time that an event waits for other requests to complete.
_PATIENCE_NS = 10 * SECOND
_LOOK_AGAIN_NS = 20 * MILLISECOND
_TRIES = 12
_RETRY_AFTER_NS = 10 * SECOND
_REFRESH_PERIOD_NS = 30 * MINUTE
_FINISH_PERIOD_NS = 6 * MINUTE
_NOT_FOUND = 404
_NOTE_LIMIT = 1024
_NOTE_CUT_MARK = " ..."

_KINDS = frozenset(["Normal", "Warning"])


def truncate_note(note: str) -> str:
    """Truncate a note to the number of bytes that an API server accepts."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_LIMIT:
        return note
    kept = encoded[: _NOTE_LIMIT - len(_NOTE_CUT_MARK)].decode(errors="replace")
    return kept + _NOTE_CUT_MARK


class Recorder(Protocol):
    """Records the events of one controller."""

    def event(
        self,
        regarding: ApiObject,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None: ...


class Broadcaster(Component, Protocol):
    """Sends events of either API, events.k8s.io/v1 or core/v1."""

    def recorder(self, controller: str, hostname: str) -> Recorder: ...


class EventsV1Recorder:
    """Records the events of one controller, such as a scheduler profile."""

    def __init__(self, broadcaster: EventBroadcaster, controller: str, hostname: str) -> None:
        self._broadcaster = broadcaster
        self._controller = controller
        self._instance = f"{controller}-{hostname}"

    def event(
        self,
        regarding: ApiObject,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        """Record that something happened to an object. `kind` is Normal or Warning.

        Never waits, and never raises because of a server.
        """
        if kind not in _KINDS:
            log.error("Unsupported event type", eventType=kind)
            return
        key = EventKey(
            kind,
            action,
            reason,
            self._controller,
            self._instance,
            reference_to(regarding),
            None if related is None else reference_to(related),
        )
        self._broadcaster.record(key, note)


class EventBroadcaster:
    """Sends the events of all recorders of a process."""

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        random: random.Random,
        *,
        capacity: int = QUEUE_CAPACITY,
        is_busy: Callable[[], bool] | None = None,
        on_drop: Callable[[], None] = lambda: None,
    ) -> None:
        """Make a broadcaster that delays events while `is_busy` returns true, for a limited time.

        `on_drop` is called for every event that is dropped.
        """
        self._api, self._clock, self._random = api, clock, random
        self._is_busy, self._on_drop = is_busy, on_drop
        self._turn = asyncio.Lock()
        self._cache = EventSeriesCache()
        self._queue = EventQueue(capacity)
        self._names = EventNames(random)
        self._stopping = asyncio.Event()
        # The number of events that were dropped because the queue was full.
        self.dropped = 0

    def recorder(self, controller: str, hostname: str) -> EventsV1Recorder:
        return EventsV1Recorder(self, controller, hostname)

    def record(self, key: EventKey, note: str) -> None:
        """Count or queue one event. Called by recorders."""
        now_ns = self._clock.now_ns()
        known, sending = self._cache.repeat(key, now_ns)
        if known and sending is None:
            return
        if self._queue.is_full:
            self._drop()
            return
        if sending is None:
            name = self._names.name(key.regarding.name, now_ns)
            sending = self._cache.add(key, name, sprintf_without_arguments(note), now_ns)
        self._queue.put(sending, now_ns)

    def _drop(self) -> None:
        self.dropped += 1
        self._on_drop()
        if self.dropped.bit_count() == 1:  # the first, the second, the fourth …
            log.error("Events are dropped: too many wait to be sent", dropped=self.dropped)

    async def drain(self) -> None:
        """Wait until every recorded event was sent or dropped. `run` must be running."""
        await self._queue.join()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            working = [
                tasks.create_task(work, name=name)
                for name, work in (
                    *((f"event sender {n}", self._send_queued()) for n in range(_SENDERS)),
                    ("event refresh", self._every(_REFRESH_PERIOD_NS, self._refresh)),
                    ("event finish", self._every(_FINISH_PERIOD_NS, self._finish)),
                )
            ]
            await self._stopping.wait()
            try:
                async with asyncio.timeout(_FLUSH_NS / SECOND):
                    await self.drain()
            except TimeoutError:
                log.error("Events were not sent before the end", count=len(self._queue))
            for task in working:
                task.cancel()

    def stop(self) -> None:
        """Send the queued events for at most a few seconds, then end."""
        self._stopping.set()

    async def _every(self, period_ns: int, action: Callable[[], Awaitable[None]]) -> None:
        while True:
            await action()
            await self._clock.sleep(period_ns)

    async def _send_queued(self) -> None:
        while True:
            sending, queued_ns = self._queue.take() or await self._queue.get()
            try:
                if self._is_busy is not None:
                    await self._wait_for_turn(self._is_busy, queued_ns)
                if not await self._send(sending):
                    await self._send_again(sending)
            except Exception as error:
                # A single event needs no further senders.
                log.exception("Unable to write event", error, event=sending.recorded.name)
            finally:
                self._queue.done()

    async def _wait_for_turn(self, is_busy: Callable[[], bool], queued_ns: int) -> None:
        async with self._turn:  # only the first sender polls
            while (
                is_busy()
                and not self._stopping.is_set()
                and self._clock.now_ns() - queued_ns < _PATIENCE_NS
            ):
                await self._clock.sleep(_LOOK_AGAIN_NS)

    async def _refresh(self) -> None:
        for sending in self._cache.all_series():
            await self._send(sending)

    async def _finish(self) -> None:
        for sending in self._cache.take_finished(self._clock.now_ns()):
            if await self._send(sending):
                self._cache.forget(sending)

    async def _send_again(self, sending: Sending) -> None:
        for _ in range(_TRIES - 1):
            wait_ns = jitter(_RETRY_AFTER_NS, 0.25, self._random)
            if await self._clock.wait(self._stopping, timeout_ns=wait_ns):
                break
            if await self._send(sending):
                return
        log.error("Unable to write event (retry limit exceeded!)", event=sending.recorded.name)

    async def _send(self, sending: Sending) -> bool:
        """Send once. Returns False if the request should be retried."""
        recorded = sending.recorded
        while recorded.is_sending:
            await recorded.until_sent()
        recorded.is_sending = True
        try:
            if not sending.series_count or not await self._patch(sending):
                await self._api.create(sending.event())
        except ApiError as error:
            return self._is_final(error, sending)
        finally:
            recorded.stop_sending()
        return True

    async def _patch(self, sending: Sending) -> bool:
        """Patch the count of a series. Returns False if the server does not have the event."""
        patch: dict[str, Any] = {"series": msgspec.to_builtins(sending.series())}
        recorded = sending.recorded
        try:
            await self._api.patch(Event, recorded.name, recorded.namespace, patch)
        except ApiError as error:
            # The server deletes events after about an hour, which may be before their series ends.
            if error.code != _NOT_FOUND:
                raise
            return False
        return True

    def _is_final(self, error: ApiError, sending: Sending) -> bool:
        """Whether a retry would fail again."""
        name = sending.recorded.name
        if error.code == 0:
            log.error("Unable to write event (may retry after sleeping)", exc=error, event=name)
            return False
        if error.reason == "AlreadyExists":
            # Another client created the event of the series in between: it can be patched now.
            log.detail(5, "Server rejected event (will not retry!)", event=name, err=error)
            return not sending.is_series
        log.error("Server rejected event (will not retry!)", exc=error, event=name)
        return True
