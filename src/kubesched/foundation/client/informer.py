"""A local copy of one kind of objects that a watch updates (docs/reference/02 §10.2–10.5).

An informer lists, then watches from the version of the list. With `stream_lists` the server sends
the list as the beginning of the watch, if it can. The informer resumes a watch that ends from the
last version. If that version is too old, it lists again and reports the difference. It calls the
handlers in the order of the changes, after it has updated the copy. Handlers run to completion and
must not block. An exception of a handler is logged and affects neither other handlers nor later
changes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from kubesched.api.access import ApiAccess, ApiError, Delivering, ObjectList, WatchEvent
from kubesched.api.meta import Status
from kubesched.foundation.client.informer_backoff import InformerBackoff
from kubesched.foundation.client.informer_store import ObjectStore, StoreChange, is_older
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.foundation.util.logging import get_logger

__all__ = ["SharedInformer"]

T = TypeVar("T", bound=msgspec.Struct)

log = get_logger(__name__)

_PAGE_SIZE = 500
_EMPTY_PAGES = 1000
_SHORTEST_WATCH_NS = SECOND
# Yield to other tasks after this many changes, because thousands of handler calls take long, or
# after this time, because the handlers of a few very large objects take as long.
_CHANGES_PER_TURN = 1_000
_TIME_PER_TURN_NS = 20 * MILLISECOND

_SILENCE_NS = 10 * SECOND

_GONE = 410
_NOT_FOUND = 404
_TOO_MANY_REQUESTS = 429
_UNREACHABLE = 0
# A proxy in front of an unreachable server responds with one of these.
_AWAY = frozenset({_UNREACHABLE, 502, 503, 504})

OnAdd = Callable[[T], None]
OnUpdate = Callable[[T, T], None]
OnDelete = Callable[[T, bool], None]
Transform = Callable[[T, T | None], T]


class _Handler(NamedTuple):
    on_add: Callable[[Any], None] | None
    on_update: Callable[[Any, Any], None] | None
    on_delete: Callable[[Any, bool], None] | None


class SharedInformer(Generic[T]):
    """A component that watches one kind of objects. `store` is the copy and the lister."""

    def __init__(
        self,
        api: ApiAccess,
        kind: type[T],
        clock: Clock,
        random: random.Random,
        *,
        field_selector: str = "",
        label_selector: str = "",
        namespace: str | None = None,
        transform: Transform[T] | None = None,
        stream_lists: bool = False,
    ) -> None:
        """Make an informer. `transform` maps an object and the one before it to the stored one."""
        self.kind = kind
        self.store: ObjectStore[T] = ObjectStore()
        self._api, self._clock = api, clock
        self._namespace = namespace
        self._label_selector, self._field_selector = label_selector, field_selector
        self._transform = transform
        self._stream_lists = stream_lists
        # Logged once if the server does not serve the kind: what the user can do about it.
        self.hint_if_not_served = ""
        self._backoff = InformerBackoff(random, clock.monotonic_ns())
        self._handlers: tuple[_Handler, ...] = ()
        self._version = ""
        self._changes_this_turn = 0
        self._busy_ns = 0  # time spent in handlers and listeners in this turn
        self._synced = asyncio.Event()
        self._stop = StopSwitch()

    @property
    def has_synced(self) -> bool:
        """Whether all handlers have received the first list. It stays true."""
        return self._synced.is_set()

    @property
    def resource_version(self) -> str:
        """The version up to which the copy is complete."""
        return self._version

    async def wait_for_sync(self) -> None:
        """Wait until `has_synced`, without a limit: a kind that is not served never syncs."""
        await self._synced.wait()

    def add_handler(
        self,
        on_add: OnAdd[T] | None = None,
        on_update: OnUpdate[T] | None = None,
        on_delete: OnDelete[T] | None = None,
    ) -> Callable[[], None]:
        """Add a handler, and call it at once for the objects that are in the copy.

        The second argument of `on_delete` says that the watch missed the deletion, so that the
        final state is unknown. Returns a function that removes the handler.
        """
        handler = _Handler(on_add, on_update, on_delete)
        # A list in progress uses the handlers from its start, so none receives an object twice.
        self._handlers = (*self._handlers, handler)
        for present in list(self.store.list()):
            self._notify((handler,), StoreChange(None, present))

        def remove() -> None:
            self._handlers = tuple(each for each in self._handlers if each is not handler)

        return remove

    @property
    def handler_count(self) -> int:
        """The number of handlers."""
        return len(self._handlers)

    async def run(self) -> None:
        await self._stop.guard(self._list_and_watch_for_ever())

    def stop(self) -> None:
        self._stop.set()

    async def _list_and_watch_for_ever(self) -> None:
        log.detail(3, "Starting reflector", type=self.kind.__name__)
        while True:
            is_away = False
            try:
                if not (self._stream_lists and await self._stream_until_lost()):
                    await self._list()
                    await self._watch_until_lost()
            except ApiError as error:
                is_away = error.code in _AWAY
                if error.code == _GONE:
                    log.detail(4, "Watch closed", type=self.kind.__name__, err=error)
                else:
                    log.error("Failed to watch", exc=error, type=self.kind.__name__)
                    if error.code == _NOT_FOUND and self.hint_if_not_served:
                        log.error(self.hint_if_not_served)
                        self.hint_if_not_served = ""
            await self._back_off(is_away=is_away)

    async def _list(self) -> None:
        """Replace the copy by a new list, and report the difference to the handlers."""
        log.detail(3, "Listing and watching", type=self.kind.__name__)
        await self._replace(*await self._fetch_pages())

    async def _replace(self, listed: Iterable[T], version: str) -> None:
        changes = self.store.replace(listed)
        self._version = version
        await self._announce(changes)
        if not self._synced.is_set():
            log.detail(2, "Caches populated", type=self.kind.__name__)
            self._synced.set()

    async def _fetch_pages(self) -> tuple[list[T], str]:
        listed: list[T] = []
        limit, token = _PAGE_SIZE, ""
        circle = _Circle()
        while True:
            try:
                page = await self._api.list(
                    self.kind,
                    self._namespace,
                    label_selector=self._label_selector,
                    field_selector=self._field_selector,
                    limit=limit,
                    continue_token=token,
                )
            except ApiError as error:
                if not token or error.code != _GONE:
                    raise
                # The server has evicted the version of the pages, so request the list in one piece.
                listed, limit, token, circle = [], 0, "", _Circle()
                continue
            # Transform page by page, because the transformed objects may be smaller.
            listed.extend(map(self._transformed, page.items) if self._transform else page.items)
            token = page.continue_token
            if not token:
                return listed, page.resource_version
            if circle.closes(page):
                if not limit:
                    raise ApiError(_ENDLESS)
                log.warning("Pages of a list lead in a circle", type=self.kind.__name__)
                listed, limit, token, circle = [], 0, "", _Circle()

    async def _stream_until_lost(self) -> bool:
        """Watch with the list as the beginning of the watch.

        Returns False if the server does not support that; the caller then sends a list request. The
        initial objects are collected separately, so that the copy changes in one step.

        Raises:
            ApiError: a new list is needed because of this.
        """
        initial: ObjectStore[T] = ObjectStore()
        is_whole = False
        silence = _Silence(self._clock, self.kind.__name__)
        try:
            async with silence, _closing(self._open_watch(send_initial_events=True)) as events:
                async for event in events:
                    if is_whole:
                        self._take_in(event)
                        del event  # it would stay in memory until the next one arrives
                        if self._is_turn_over:
                            await self._give_others_a_turn()
                        continue
                    silence.restart()
                    if event.is_initial_end:
                        is_whole = True
                        silence.stop_logging()
                        await self._replace(list(initial.list()), event.resource_version)
                        # Otherwise the initial objects would stay in memory until the watch ends.
                        initial = ObjectStore()
                    elif event.type == "ERROR":
                        self._take_in(event)
                    else:
                        initial.apply(self._transformed_in(event))
                    del event
        except ApiError as error:
            is_passing = error.code in (_UNREACHABLE, _TOO_MANY_REQUESTS)
            if is_whole and not is_passing:
                raise
            if not is_whole:
                if error.code == _GONE and self._version:
                    self._version = ""  # any version will do, and at once
                    return await self._stream_until_lost()
                if is_passing or error.code == _GONE:
                    raise  # and stream again after a while
                log.detail(4, _NO_STREAM, err=error)
        if not is_whole:
            return False
        await self._watch_until_lost()
        return True

    async def _watch_until_lost(self) -> None:
        """Watch, and resume watches that end. Returns if a new list is needed.

        Raises:
            ApiError: a new list is needed because of this.
        """
        while True:
            opened_ns, received = self._clock.monotonic_ns(), False
            try:
                async with _closing(self._open_watch()) as events:
                    if isinstance(events, Delivering):
                        await events.deliver(self._take_in)
                    async for event in events:
                        received = True
                        self._take_in(event)
                        del event  # it would stay in memory until the next one arrives
                        if self._is_turn_over:
                            await self._give_others_a_turn()
            except ApiError as error:
                if error.code not in (_UNREACHABLE, _TOO_MANY_REQUESTS):
                    raise
                log.detail(4, "Watch closed", type=self.kind.__name__, err=error)
                # A connection that broke after it had worked counts as a regular end.
                if not received or error.code == _TOO_MANY_REQUESTS:
                    await self._back_off(is_away=error.code == _UNREACHABLE)
                continue
            if not received and self._clock.monotonic_ns() - opened_ns < _SHORTEST_WATCH_NS:
                log.info("Warning: watch ended with error", type=self.kind.__name__, err=_TOO_SHORT)
                return

    def _open_watch(self, *, send_initial_events: bool = False) -> AsyncIterator[WatchEvent[T]]:
        return self._api.watch(
            self.kind,
            self._namespace,
            resource_version=self._version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            send_initial_events=send_initial_events,
        )

    def _take_in(self, event: WatchEvent[T]) -> None:
        if event.type == "ERROR":
            raise ApiError(event.object if isinstance(event.object, Status) else _NAMELESS)
        if is_older(event.resource_version, self._version):
            # A server or a proxy began the watch too early. Applying the event would restore
            # deleted objects, and remove pods from their nodes.
            log.detail(4, "Passed over an old event", type=self.kind.__name__)
            return
        if event.type != "BOOKMARK":
            began_ns = self._clock.monotonic_ns()
            taken = event if self._transform is None else self._transformed_in(event)
            change = self.store.apply(taken)
            if change is not None:
                self._notify(self._handlers, change)
            self._busy_ns += self._clock.monotonic_ns() - began_ns
        # Without a version, a watch could begin at any version and miss deletions.
        self._version = event.resource_version or self._version

    def _transformed_in(self, event: WatchEvent[T]) -> WatchEvent[T]:
        if self._transform is None or event.object is None:
            return event
        return msgspec.structs.replace(event, object=self._transformed(event.object))

    def _transformed(self, new: T) -> T:
        assert self._transform is not None
        metadata: Any = new.metadata  # type: ignore[attr-defined]  # every kind has it
        return self._transform(new, self.store.get(metadata.name, metadata.namespace))

    async def _announce(self, changes: Iterable[StoreChange[T]]) -> None:
        handlers = self._handlers
        for change in changes:
            began_ns = self._clock.monotonic_ns()
            self._notify(handlers, change)
            self._busy_ns += self._clock.monotonic_ns() - began_ns
            if self._is_turn_over:
                await self._give_others_a_turn()

    @property
    def _is_turn_over(self) -> bool:
        return self._changes_this_turn >= _CHANGES_PER_TURN or self._busy_ns >= _TIME_PER_TURN_NS

    async def _give_others_a_turn(self) -> None:
        self._changes_this_turn = self._busy_ns = 0
        await asyncio.sleep(0)

    def _notify(self, handlers: tuple[_Handler, ...], change: StoreChange[T]) -> None:
        self._changes_this_turn += 1
        old, new = change.old, change.new
        for on_add, on_update, on_delete in handlers:
            try:
                if new is None:
                    if on_delete is not None:
                        on_delete(old, change.final_state_unknown)
                elif old is None:
                    if on_add is not None:
                        on_add(new)
                elif on_update is not None:
                    on_update(old, new)
            except BaseException as error:
                pass_on_interrupt(error)
                # None of these is about this task: a handler is plain code.
                kind = self.kind.__name__
                log.exception("Event handler failed", error, kind=kind, object=new or old)

    async def _back_off(self, *, is_away: bool = False) -> None:
        now_ns = self._clock.monotonic_ns()
        await self._clock.sleep(self._backoff.next_delay_ns(now_ns, is_away=is_away))


_NO_STREAM = (
    "Data couldn't be fetched in watchlist mode. Falling back to regular list. This is expected if "
    "watchlist is not supported or disabled in kube-apiserver."
)
_TOO_SHORT = "very short watch: it ended within a second and brought nothing"
_ENDLESS = Status(
    status="Failure", code=500, message="the pages of the list lead nowhere, or in a circle"
)
_NAMELESS = Status(
    status="Failure", code=500, message="the watch brought an error without a status"
)


class _Circle:
    """Detects continue tokens that repeat, which would fill the memory with an endless list."""

    def __init__(self) -> None:
        self._tokens: set[str] = set()
        self._first: Any = None
        self._empty = 0

    def closes(self, page: ObjectList[Any]) -> bool:
        """Whether the token of a page repeats, or too many pages are empty."""
        is_known = page.continue_token in self._tokens
        self._tokens.add(page.continue_token)
        # Empty pages are allowed, because a selector may exclude every object of a page.
        self._empty = 0 if page.items else self._empty + 1
        if page.items:
            metadata = page.items[0].metadata
            first = (metadata.namespace, metadata.name, metadata.uid)
            is_known |= first == self._first
            self._first = self._first or first
        return is_known or self._empty > _EMPTY_PAGES


class _Silence:
    """Logs an initial list that makes no progress, for example because a proxy buffers it."""

    def __init__(self, clock: Clock, kind: str) -> None:
        self._clock, self._kind = clock, kind
        self._since_ns = clock.monotonic_ns()
        self._logging: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        self._logging = asyncio.create_task(self._log_silence())

    async def __aexit__(self, *_: object) -> None:
        self.stop_logging()

    def restart(self) -> None:
        self._since_ns = self._clock.monotonic_ns()

    def stop_logging(self) -> None:
        if self._logging is not None:
            self._logging.cancel()
            self._logging = None

    async def _log_silence(self) -> None:
        while True:
            await self._clock.sleep(_SILENCE_NS)
            silent_ns = self._clock.monotonic_ns() - self._since_ns
            if silent_ns >= _SILENCE_NS:
                log.warning(
                    "The initial list does not go on",
                    type=self._kind,
                    silence=f"{silent_ns // SECOND}s",
                )


@contextlib.asynccontextmanager
async def _closing(
    events: AsyncIterator[WatchEvent[T]],
) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
    """Close the stream at the end of the block, if it has a method for that."""
    try:
        yield events
    finally:
        close = getattr(events, "aclose", None)
        if close is not None:
            await close()
