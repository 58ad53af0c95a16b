"""Records events.k8s.io/v1 events, and sends them in the background (docs/reference/02 §8).

Recording never waits: it counts, or puts the event in a queue. The broadcaster, a component,
sends what is queued, several at a time and behind more important requests; it tries again when
the server cannot be reached and gives up when the server says no. Events are best effort: when
the server stays away for long they are dropped and counted, and after `stop()` those still queued
have a few seconds.
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

__all__ = ["Broadcaster", "EventBroadcaster", "EventsV1Recorder", "Recorder", "truncate_note"]

log = get_logger(__name__)

# The reference hands each event to a sender of its own, so it hardly ever drops one; this bound
# is there for a server that stays away.
_QUEUE_CAPACITY = 100_000
_FLUSH_NS = 5 * SECOND
_SENDERS = 8
# So long an event waits for more important requests to be done.
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
    """Cut a note to the length an API server accepts; the cut is by bytes, as the limit is."""
    encoded = note.encode()
    if len(encoded) <= _NOTE_LIMIT:
        return note
    kept = encoded[: _NOTE_LIMIT - len(_NOTE_CUT_MARK)].decode(errors="replace")
    return kept + _NOTE_CUT_MARK


class Recorder(Protocol):
    """Records events in the name of one controller."""

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
    """Sends events, whichever form they have on the server."""

    def recorder(self, controller: str, hostname: str) -> Recorder: ...


class EventsV1Recorder:
    """Records events in the name of one controller, such as a scheduler profile."""

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

        Never waits and never raises for what a server might say.
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
        capacity: int = _QUEUE_CAPACITY,
        is_busy: Callable[[], bool] | None = None,
        on_drop: Callable[[], None] = lambda: None,
    ) -> None:
        """While `is_busy` says so, events wait, though not for ever.

        `on_drop` is called for every event that is not taken in.
        """
        self._api, self._clock, self._random = api, clock, random
        self._is_busy, self._on_drop = is_busy, on_drop
        self._turn = asyncio.Lock()
        self._cache = EventSeriesCache()
        self._queue = EventQueue(capacity)
        self._names = EventNames(random)
        self._stopping = asyncio.Event()
        # How many events were never sent because too many were waiting.
        self.dropped = 0

    def recorder(self, controller: str, hostname: str) -> EventsV1Recorder:
        return EventsV1Recorder(self, controller, hostname)

    def record(self, key: EventKey, note: str) -> None:
        """Take in one event; recorders call this."""
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
        """Wait until everything recorded so far was sent or given up; `run` must be running."""
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
        """Send what is queued, for a few seconds, and end."""
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
                # A single event is not worth the senders.
                log.exception("Unable to write event", error, event=sending.recorded.name)
            finally:
                self._queue.done()

    async def _wait_for_turn(self, is_busy: Callable[[], bool], queued_ns: int) -> None:
        async with self._turn:  # only the first in line keeps looking
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
        """Send once; False if it should be tried again."""
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
        """Tell how far a series is; False if the server has no such event."""
        patch: dict[str, Any] = {"series": msgspec.to_builtins(sending.series())}
        recorded = sending.recorded
        try:
            await self._api.patch(Event, recorded.name, recorded.namespace, patch)
        except ApiError as error:
            # The server keeps events for an hour or so; a series may outlive its event.
            if error.code != _NOT_FOUND:
                raise
            return False
        return True

    def _is_final(self, error: ApiError, sending: Sending) -> bool:
        """Whether there is no point in sending again."""
        name = sending.recorded.name
        if error.code == 0:
            log.error("Unable to write event (may retry after sleeping)", exc=error, event=name)
            return False
        if error.reason == "AlreadyExists":
            # A series whose event was created by someone else in between can be patched now.
            log.detail(5, "Server rejected event (will not retry!)", event=name, err=error)
            return not sending.is_series
        log.error("Server rejected event (will not retry!)", exc=error, event=name)
        return True
