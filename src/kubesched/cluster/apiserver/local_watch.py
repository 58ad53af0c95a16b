"""A watch on a store in this process.

It is iterated over, as a watch on any server is. Or it calls whoever wants its events
(`deliver`): then no task is woken for each change, which is a good part of what a change costs
in a cluster where everybody follows everything. Events come in the same turn of the loop either
way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api.access import WatchEvent
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher

__all__ = ["LocalWatch", "Rounds"]

T = TypeVar("T", bound=msgspec.Struct)


class LocalWatch(AsyncIterator[WatchEvent[T]], Generic[T]):
    """A watch on the store. It holds no task: whoever iterates, or has it deliver, waits."""

    def __init__(
        self,
        open_watch: Callable[[], tuple[Watcher, Iterable[WatchEvent[T]]]],
        before: Callable[[], Awaitable[None]] | None,
        show: Callable[[WatchedChange], WatchEvent[Any]],
        rounds: Rounds,
    ) -> None:
        """`before` is awaited when the watch opens, and whenever there is something to read."""
        self._rounds = rounds
        self._open = open_watch
        self._before = before
        self._show = show
        self._watcher: Watcher | None = None
        self._events: Iterator[WatchEvent[T]] = iter(())
        self._closed = False
        self._changed: asyncio.Future[None] | None = None

    def __aiter__(self) -> LocalWatch[T]:
        return self

    async def __anext__(self) -> WatchEvent[T]:
        for event in self._events:
            return event
        while not self._closed:
            watcher = self._watcher
            if watcher is not None and watcher.idle:
                # Whatever changes next in the collection, seen by this watcher or not.
                self._changed = changed = asyncio.get_running_loop().create_future()
                watcher.collection.call_on_change(self._wake)
                try:
                    await changed
                except BaseException:
                    watcher.collection.forget(self._wake)
                    raise
            if self._before is not None:
                await self._before()
            if watcher is None:
                self._watcher, first = self._open()
                self._events = iter(first)
            else:
                self._events = map(self._show, watcher.read())
            for event in self._events:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self._closed = True
        self._events = iter(())

    def _wake(self) -> None:
        changed = self._changed
        if changed is not None and not changed.done():
            changed.set_result(None)

    async def deliver(self, take: Callable[[WatchEvent[T]], None]) -> None:
        """Call `take` with every event, and return when the watch is closed.

        What `take` raises is raised here, and ends the watch; so does a refusal of the store.
        """
        if self._before is not None or self._watcher is not None:
            async for event in self:
                take(event)
            return
        watcher, first = self._open()
        for event in first:
            take(event)
        delivery = _Delivery(watcher, self._show, take, self._rounds.of(watcher.collection))
        try:
            delivery.read()
            await delivery.ended
        finally:
            delivery.stop()


class _Delivery(Generic[T]):
    """Reads a watcher in the turn after each change."""

    def __init__(
        self,
        watcher: Watcher,
        show: Callable[[WatchedChange], WatchEvent[Any]],
        take: Callable[[WatchEvent[T]], None],
        round_: _Round,
    ) -> None:
        self._watcher, self._show, self._take, self._round = watcher, show, take, round_
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self.loop.create_future()

    def read(self) -> None:
        """Pass on what is new, and come back when there is more."""
        if self.ended.done():
            return
        watcher, show, take = self._watcher, self._show, self._take
        try:
            for seen in watcher.read():
                take(show(seen))
        except Exception as error:
            self.ended.set_exception(error)
            return
        if watcher.idle:
            self._round.join(self)
        else:
            self.loop.call_soon(self.read)

    def stop(self) -> None:
        self.ended.cancel()
        self._round.leave(self)


class _Round:
    """Those who read a collection in the turn after its next change, one after the other."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._waiting: list[_Delivery[Any]] = []

    def join(self, delivery: _Delivery[Any]) -> None:
        if not self._waiting:
            self._collection.call_on_change(self._begin)
        self._waiting.append(delivery)

    def leave(self, delivery: _Delivery[Any]) -> None:
        if delivery in self._waiting:
            self._waiting.remove(delivery)
            if not self._waiting:
                self._collection.forget(self._begin)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        waiting[0].loop.call_soon(_read_all, waiting)


def _read_all(deliveries: list[_Delivery[Any]]) -> None:
    for each in deliveries:
        each.read()


class Rounds:
    """The rounds of all collections that somebody has followed."""

    def __init__(self) -> None:
        self._rounds: dict[Collection, _Round] = {}

    def of(self, collection: Collection) -> _Round:
        found = self._rounds.get(collection)
        if found is None:
            found = self._rounds[collection] = _Round(collection)
        return found
