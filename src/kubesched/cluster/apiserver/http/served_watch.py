"""A watch that the server has accepted, and the chunks that its client receives.

Only one chunk is encoded per watcher. The next one is read from the store's log after the client
has taken the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.store.needed_calls import CallsNeededError
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher

__all__ = ["ServedWatch", "WatchStream"]

# Seconds between two chunks of one watch. Changes in between are sent together.
_SHORTEST_PAUSE = 0.005
# The events of a chunk are encoded in groups, until the chunk has this size.
_GROUP = 16
_CHUNK_BYTES = 256 * 1024


class ServedWatch(msgspec.Struct, frozen=True):
    """The response to a watch request, as values and functions that need no socket."""

    watcher: Watcher
    # Encodes events as lines.
    encode: Callable[[Sequence[WatchedChange]], bytes]
    # Encodes a bookmark of a revision. True marks the end of the initial events.
    bookmark: Callable[[int, bool], bytes]
    # Returns the newest revision, to which an idle watcher is up to date.
    revision: Callable[[], int]
    timeout_seconds: float | None
    bookmarks: bool
    # Encodes the event that ends a watch with an error.
    error: Callable[[Status], bytes]
    content_type: str
    # Whether the client expects a bookmark at the end of the initial events.
    initial_events: bool
    # Fetches the conversions that the next events need.
    fetch: Callable[[CallsNeededError], Awaitable[None]] | None = None


class WatchStream:
    """Produces the chunks of a watch until it ends."""

    def __init__(self, watch: ServedWatch, limits: ApiLimits) -> None:
        self._watch = watch
        self._limits = limits
        self._changed = asyncio.Event()
        self._is_over = False
        self._bookmark_due = False
        # Events that have been read from the log but not encoded, in reverse.
        self._unsent: list[WatchedChange] = []
        self._next_bookmark: asyncio.TimerHandle | None = None

    def end(self) -> None:
        """End the watch after the chunk that is being sent."""
        self._is_over = True
        self._changed.set()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        seconds = self._watch.timeout_seconds or self._limits.watch_seconds
        ending = asyncio.get_running_loop().call_later(seconds, self.end)
        if self._watch.bookmarks:
            self._schedule_bookmark()
        try:
            initial_events = self._watch.initial_events
            watcher = self._watch.watcher
            while not self._is_over:
                self._changed.clear()
                try:
                    lines = self._lines()
                except ApiError as error:
                    yield self._watch.error(error.status)
                    return
                except CallsNeededError as needed:
                    assert self._watch.fetch is not None, "conversions need a client"
                    await self._watch.fetch(needed)
                    continue
                is_idle = watcher.idle and not self._unsent
                if initial_events and is_idle:
                    lines += self._watch.bookmark(self._watch.revision(), True)
                    initial_events = False
                if lines:
                    yield lines
                    await asyncio.sleep(_SHORTEST_PAUSE)
                elif is_idle:
                    await self._wait_for_change()
        finally:
            ending.cancel()
            if self._next_bookmark is not None:
                self._next_bookmark.cancel()

    async def _wait_for_change(self) -> None:
        collection = self._watch.watcher.collection
        collection.call_on_change(self._changed.set)
        try:
            await self._changed.wait()
        finally:
            collection.cancel_call(self._changed.set)

    def _schedule_bookmark(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_bookmark = loop.call_later(self._limits.bookmark_seconds, self._request_bookmark)

    def _request_bookmark(self) -> None:
        self._bookmark_due = True
        self._changed.set()
        self._schedule_bookmark()

    def _lines(self) -> bytes:
        watch, unsent = self._watch, self._unsent
        if not unsent:
            unsent.extend(reversed(watch.watcher.read()))
        pieces: list[bytes] = []
        size, last = 0, None
        while unsent and size < _CHUNK_BYTES:
            group = unsent[-_GROUP:]
            del unsent[-_GROUP:]
            last = group[0]
            pieces.append(
                watch.encode([each for each in reversed(group) if each.record is not None])
            )
            size += len(pieces[-1])
        if watch.bookmarks:
            if last is not None and last.record is None:
                pieces.append(watch.bookmark(last.revision, False))
            elif self._bookmark_due and watch.watcher.idle and not unsent:
                pieces.append(watch.bookmark(watch.revision(), False))
                self._bookmark_due = False
        return b"".join(pieces)
