"""Discovery of the API for events, while events are recorded.

The reference sends one request, and falls back to core/v1 events if it gets no response, for
example while the server is unavailable. The recorder of core/v1 events has a short queue, so events
are lost. This module waits for a response, and recorded events stay queued until then.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable

from kubesched.api.access import ApiError
from kubesched.api.base import ApiObject
from kubesched.foundation.client.event_recorder import QUEUE_CAPACITY, Broadcaster, Recorder
from kubesched.foundation.client.informer_backoff import InformerBackoff
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import get_logger

__all__ = ["DiscoveringBroadcaster"]

log = get_logger(__name__)


class DiscoveringBroadcaster:
    """A broadcaster that sends through one of two others once discovery has chosen one."""

    def __init__(
        self,
        serves_events: Callable[[], Awaitable[bool]],
        events_v1: Broadcaster,
        core: Broadcaster,
        clock: Clock,
        random: random.Random,
        *,
        on_drop: Callable[[], None] = lambda: None,
        capacity: int = QUEUE_CAPACITY,
    ) -> None:
        """Create a broadcaster; `serves_events` raises ApiError if the server does not respond."""
        self._serves_events, self._events_v1, self._core = serves_events, events_v1, core
        self._clock, self._random = clock, random
        self._on_drop, self._capacity = on_drop, capacity
        self._waiting: deque[Callable[[], None]] = deque()
        self._stopping = asyncio.Event()
        # The broadcaster that sends; None until the server has answered.
        self.chosen: Broadcaster | None = None

    def recorder(self, controller: str, hostname: str) -> Recorder:
        return _WaitingRecorder(self, controller, hostname)

    def recorder_of_chosen(self, controller: str, hostname: str) -> Recorder | None:
        """Return a recorder of the chosen broadcaster, if there is one."""
        return None if self.chosen is None else self.chosen.recorder(controller, hostname)

    def wait(self, record: Callable[[], None]) -> None:
        """Call `record` once the server has answered."""
        if len(self._waiting) >= self._capacity:
            self._on_drop()
            return
        self._waiting.append(record)

    async def run(self) -> None:
        # A server without the API for events is older than any that is supported.
        has_events = await self._discover()
        chosen = self.chosen = self._core if has_events is False else self._events_v1
        async with running(chosen):
            while self._waiting:
                self._waiting.popleft()()
            await self._stopping.wait()

    def stop(self) -> None:
        """Send the recorded events for at most a few seconds, then end."""
        self._stopping.set()

    async def _discover(self) -> bool | None:
        """Repeat the request until the server responds; None if `stop` is called before."""
        backoff = InformerBackoff(self._random, self._clock.now_ns())
        while not self._stopping.is_set():
            try:
                return await self._until_stopped(self._serves_events())
            except ApiError as error:
                log.detail(2, "The API for events is not known yet", err=error)
                delay_ns = backoff.next_delay_ns(self._clock.now_ns(), is_away=True)
                await self._clock.wait(self._stopping, timeout_ns=delay_ns)
        return None

    async def _until_stopped(self, work: Awaitable[bool]) -> bool | None:
        task = asyncio.ensure_future(work)
        stopping = asyncio.create_task(self._stopping.wait(), name="wait for stop")
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, stopping):
                each.cancel()
            await asyncio.wait((task, stopping))


class _WaitingRecorder:
    """Records events, and delays them until the server has responded."""

    def __init__(self, broadcaster: DiscoveringBroadcaster, controller: str, host: str) -> None:
        self._broadcaster = broadcaster
        self._controller, self._host = controller, host
        self._recorder: Recorder | None = None

    def event(
        self,
        regarding: ApiObject,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        recorder = self._recorder
        if recorder is None:
            recorder = self._broadcaster.recorder_of_chosen(self._controller, self._host)
            self._recorder = recorder
        if recorder is not None:
            recorder.event(regarding, kind, reason, action, note, related)
            return
        self._broadcaster.wait(lambda: self.event(regarding, kind, reason, action, note, related))
