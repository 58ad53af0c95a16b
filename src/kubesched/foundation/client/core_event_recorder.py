"""Records core/v1 events, for leader election and old servers (docs/reference/02 §8.5).

Recording never waits. The broadcaster is a component that sends one event after the other.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.base import ApiObject
from kubesched.api.core import Event, EventSource
from kubesched.api.meta import ObjectMeta
from kubesched.api.time import format_time
from kubesched.foundation.client.event_correlation import CoreEvent, EventCorrelator, Seen
from kubesched.foundation.client.event_naming import EventNames, reference_to
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.logging import get_logger

__all__ = ["CoreEventBroadcaster", "CoreEventRecorder"]

log = get_logger(__name__)

_QUEUE_CAPACITY = 1000
_TRIES = 12
_RETRY_AFTER_NS = 10 * SECOND
_FLUSH_NS = 5 * SECOND


class _Sending(NamedTuple):
    event: CoreEvent
    seen: Seen
    times: int
    message: str
    time_ns: int


class CoreEventRecorder:
    """Records events of one component. This kind of event has no action and no related object."""

    def __init__(self, broadcaster: CoreEventBroadcaster, component: str) -> None:
        self._broadcaster, self._component = broadcaster, component

    def event(
        self,
        regarding: ApiObject,
        kind: str,
        reason: str,
        action: str,  # noqa: ARG002  an older event has no room for it
        note: str,
        related: ApiObject | None = None,  # noqa: ARG002
    ) -> None:
        event = CoreEvent(self._component, reference_to(regarding), kind, reason, note)
        self._broadcaster.record(event)


class CoreEventBroadcaster:
    """Sends the core events of a process."""

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        random: random.Random,
        *,
        on_drop: Callable[[], None] = lambda: None,
        capacity: int = _QUEUE_CAPACITY,
    ) -> None:
        self._api, self._clock, self._random = api, clock, random
        self._on_drop = on_drop
        self._correlator = EventCorrelator()
        self._names = EventNames(random)
        self._queue: asyncio.Queue[_Sending] = asyncio.Queue(capacity)
        self._stopping = asyncio.Event()
        self.dropped = 0

    def recorder(self, controller: str, hostname: str) -> CoreEventRecorder:  # noqa: ARG002
        return CoreEventRecorder(self, controller)

    def record(self, event: CoreEvent) -> None:
        """Queue one event. Called by recorders."""
        if self._queue.full():
            self.dropped += 1
            self._on_drop()
            log.error("unable to record event: too many queued events, dropped event", event=event)
            return
        now_ns = self._clock.now_ns()
        seen = self._correlator.correlate(event, self._names.name(event.about.name, now_ns), now_ns)
        if seen is not None:
            self._queue.put_nowait(_Sending(event, seen, seen.count, seen.message, now_ns))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self._send_queued(), name="core event sender")
            await self._stopping.wait()
            try:
                async with asyncio.timeout(_FLUSH_NS / SECOND):
                    await self._queue.join()
            except TimeoutError:
                log.error("Events were not sent before the end", count=self._queue.qsize())
            sending.cancel()

    def stop(self) -> None:
        """Send the queued events for at most a few seconds, then end."""
        self._stopping.set()

    async def _send_queued(self) -> None:
        while True:
            sending = await self._queue.get()
            try:
                await self._send_with_retries(sending)
            finally:
                self._queue.task_done()

    async def _send_with_retries(self, sending: _Sending) -> None:
        for attempt in range(_TRIES):
            if attempt:
                # Spread the retries, because many replicas may have lost the same server.
                share = self._random.random() if attempt == 1 else 1.0
                wait_ns = int(_RETRY_AFTER_NS * share)
                if await self._clock.wait(self._stopping, timeout_ns=wait_ns):
                    break
            try:
                await self._patch_or_create(sending)
                return
            except ApiError as error:
                if error.code:
                    if error.reason != "AlreadyExists" and not _has_ended(error):
                        log.error("Server rejected event (will not retry!)", exc=error)
                    return
                log.error("Unable to write event (may retry after sleeping)", exc=error)
        log.error("Unable to write event (retry limit exceeded!)", event=sending.seen.name)

    async def _patch_or_create(self, sending: _Sending) -> None:
        namespace = sending.event.about.namespace or "default"
        last = format_time(sending.time_ns)
        if sending.times > 1:
            patch: dict[str, Any] = {
                "count": sending.times,
                "lastTimestamp": last,
                "message": sending.message,
            }
            try:
                await self._api.patch(Event, sending.seen.name, namespace, patch)
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        await self._api.create(_event(sending, namespace, last))


def _has_ended(error: ApiError) -> bool:
    """Whether the namespace refuses new objects because it is being deleted."""
    details = error.status.details
    return details is not None and any(
        cause.reason == "NamespaceTerminating" for cause in details.causes
    )


def _event(sending: _Sending, namespace: str, last: str) -> Event:
    event = sending.event
    return Event(
        metadata=ObjectMeta(name=sending.seen.name, namespace=namespace),
        involved_object=event.about,
        reason=event.reason,
        message=sending.message,
        source=EventSource(component=event.component),
        first_timestamp=format_time(sending.seen.first_ns),
        last_timestamp=last,
        count=sending.times,
        type=event.kind,
        reporting_component=event.component,
    )
