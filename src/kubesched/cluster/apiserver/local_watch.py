"""A watch on a store in the same process.

A caller can iterate over it, as over a watch on any server, or pass a callback to `deliver`. With
a callback no task is woken for each change, which saves much of the cost of a change in a cluster
where many components watch everything. Events arrive in the same iteration of the event loop
either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from kubesched.api.access import WatchEvent
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher

__all__ = ["DeliveryGroups", "LocalWatch"]

T = TypeVar("T", bound=msgspec.Struct)


class LocalWatch(AsyncIterator[WatchEvent[T]], Generic[T]):
    """A watch on the store. It has no task of its own: the caller waits for its events."""

    def __init__(
        self,
        open_watch: Callable[[], tuple[Watcher, Iterable[WatchEvent[T]]]],
        before: Callable[[], Awaitable[None]] | None,
        to_event: Callable[[WatchedChange], WatchEvent[Any]],
        groups: DeliveryGroups,
    ) -> None:
        """`before` is awaited when the watch opens and before it reads changes."""
        self._groups = groups
        self._open = open_watch
        self._before = before
        self._to_event = to_event
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
                # Wake up at the next change in the collection, even if the watch hides it.
                self._changed = changed = asyncio.get_running_loop().create_future()
                watcher.collection.call_on_change(self._wake)
                try:
                    await changed
                except BaseException:
                    watcher.collection.cancel_call(self._wake)
                    raise
            if self._before is not None:
                await self._before()
            if watcher is None:
                self._watcher, first = self._open()
                self._events = iter(first)
            else:
                self._events = map(self._to_event, watcher.read())
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

    async def deliver(self, callback: Callable[[WatchEvent[T]], None]) -> None:
        """Call `callback` with every event, and return when the watch is closed.

        An exception of `callback` or of the store ends the watch and is raised here.
        """
        if self._before is not None or self._watcher is not None:
            async for event in self:
                callback(event)
            return
        watcher, first = self._open()
        for event in first:
            callback(event)
        group = self._groups.of(watcher.collection)
        delivery = _Delivery(watcher, self._to_event, callback, group)
        try:
            delivery.read()
            await delivery.ended
        finally:
            delivery.stop()


class _Delivery(Generic[T]):
    """Reads a watcher in the iteration of the event loop after each change."""

    def __init__(
        self,
        watcher: Watcher,
        to_event: Callable[[WatchedChange], WatchEvent[Any]],
        callback: Callable[[WatchEvent[T]], None],
        group: _DeliveryGroup,
    ) -> None:
        self._watcher, self._group = watcher, group
        self._to_event, self._callback = to_event, callback
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self.loop.create_future()

    def read(self) -> None:
        """Deliver the unread changes, and wait for the next one."""
        if self.ended.done():
            return
        watcher, to_event, callback = self._watcher, self._to_event, self._callback
        try:
            for change in watcher.read():
                callback(to_event(change))
        except Exception as error:
            self.ended.set_exception(error)
            return
        if watcher.idle:
            self._group.add(self)
        else:
            self.loop.call_soon(self.read)

    def stop(self) -> None:
        self.ended.cancel()
        self._group.remove(self)


class _DeliveryGroup:
    """The idle deliveries of one collection. After its next change they read in order."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._waiting: list[_Delivery[Any]] = []

    def add(self, delivery: _Delivery[Any]) -> None:
        if not self._waiting:
            self._collection.call_on_change(self._begin)
        self._waiting.append(delivery)

    def remove(self, delivery: _Delivery[Any]) -> None:
        if delivery in self._waiting:
            self._waiting.remove(delivery)
            if not self._waiting:
                self._collection.cancel_call(self._begin)

    def _begin(self) -> None:
        waiting, self._waiting = self._waiting, []
        waiting[0].loop.call_soon(_read_all, waiting)


def _read_all(deliveries: list[_Delivery[Any]]) -> None:
    for each in deliveries:
        each.read()


class DeliveryGroups:
    """The delivery groups of all watched collections."""

    def __init__(self) -> None:
        self._groups: dict[Collection, _DeliveryGroup] = {}

    def of(self, collection: Collection) -> _DeliveryGroup:
        found = self._groups.get(collection)
        if found is None:
            found = self._groups[collection] = _DeliveryGroup(collection)
        return found
