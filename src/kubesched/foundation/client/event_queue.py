"""The queue of events that wait to be sent, in the order of recording.

Events come in bursts, and one sender can send a whole burst in one iteration of the event loop if
the server answers immediately. So only the first event wakes a sender. A sender that leaves events
in the queue wakes the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque

from kubesched.foundation.client.event_series import Sending

__all__ = ["EventQueue"]


class EventQueue:
    """A bounded queue of events, each with the time at which it was put."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._waiting: deque[tuple[Sending, int]] = deque()
        self._senders: deque[asyncio.Future[None]] = deque()  # idle senders
        self._is_waking = False  # a sender was woken and has not run yet
        self._unfinished = 0
        self._all_done = asyncio.Event()
        self._all_done.set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._capacity

    def put(self, sending: Sending, now_ns: int) -> None:
        self._waiting.append((sending, now_ns))
        if not self._unfinished:
            self._all_done.clear()
        self._unfinished += 1
        self._wake_one()

    def take(self) -> tuple[Sending, int] | None:
        """Remove and return the first event, if any. The caller must call `done` for it."""
        if not self._waiting:
            return None
        taken = self._waiting.popleft()
        if self._waiting:
            self._wake_one()
        return taken

    async def get(self) -> tuple[Sending, int]:
        """Wait for an event, then remove and return it."""
        while (taken := self.take()) is None:
            sender: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._senders.append(sender)
            try:
                await sender
            except BaseException:
                if sender in self._senders:
                    self._senders.remove(sender)
                elif not sender.cancelled():
                    # The woken sender is cancelled, so wake another one for the event.
                    self._is_waking = False
                    self._wake_one()
                raise
            self._is_waking = False
        return taken

    def done(self) -> None:
        """Report that an event from `take` or `get` was sent or dropped."""
        self._unfinished -= 1
        if not self._unfinished:
            self._all_done.set()

    async def join(self) -> None:
        """Wait until every queued event was sent or dropped."""
        await self._all_done.wait()

    def _wake_one(self) -> None:
        while self._senders and not self._is_waking:
            sender = self._senders.popleft()
            if not sender.done():  # as a cancelled task is before its next step
                sender.set_result(None)
                self._is_waking = True
