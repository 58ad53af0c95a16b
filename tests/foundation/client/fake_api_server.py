"""A small API server for one kind: versions, pages, watches with history, and faults on demand."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

import msgspec

from kubesched.api.access import ApiAccess, ApiError, EventType, ObjectList, WatchEvent
from kubesched.api.meta import ObjectMeta, Status
from kubesched.api.pod import Pod

REASONS = {404: "NotFound", 409: "AlreadyExists", 410: "Expired", 429: "TooManyRequests"}


def failure(code: int, message: str = "") -> ApiError:
    reason = REASONS.get(code, "")
    return ApiError(Status(status="Failure", code=code, reason=reason, message=message or reason))


def pod(name: str, namespace: str = "default", version: int = 0, uid: str = "") -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, namespace=namespace, uid=uid or name, resource_version=str(version)
        )
    )


class _Stream:
    """An open watch: the events that it has yet to deliver, and how it ends."""

    def __init__(self, backlog: Iterable[WatchEvent[Pod]]) -> None:
        self.pending = deque(backlog)
        self.wake = asyncio.Event()
        self.ended = False
        self.error: ApiError | None = None


class FakeApiServer:
    """Stores pods. Calls are noted in `calls`; `fail` makes the next calls of a verb fail."""

    def __init__(self, page_size: int = 500) -> None:
        self.page_size = page_size
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.pods: dict[tuple[str, str], Pod] = {}
        self.version = 10
        self._oldest = 10  # watches may begin here or later
        self._history: list[WatchEvent[Pod]] = []
        self._pages: dict[str, list[Pod]] = {}
        self._failures: dict[str, list[Callable[[], None]]] = {"list": [], "watch": [], "page": []}
        self._streams: list[_Stream] = []

    @property
    def access(self) -> ApiAccess:
        return cast("ApiAccess", self)

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.calls]

    def watched_from(self) -> list[str]:
        return [options["resource_version"] for verb, options in self.calls if verb == "watch"]

    # What happens in the cluster.

    def put(self, name: str, namespace: str = "default", uid: str = "") -> Pod:
        key = (namespace, name)
        kind: EventType = "MODIFIED" if key in self.pods else "ADDED"
        self.version += 1
        stored = self.pods[key] = pod(name, namespace, self.version, uid)
        self._happen(WatchEvent(kind, stored, str(self.version)))
        return stored

    def remove(self, name: str, namespace: str = "default") -> None:
        gone = self.pods.pop((namespace, name))
        self.version += 1
        metadata = msgspec.structs.replace(gone.metadata, resource_version=str(self.version))
        last = msgspec.structs.replace(gone, metadata=metadata)
        self._happen(WatchEvent("DELETED", last, str(self.version)))

    def bookmark(self) -> None:
        self.version += 1
        self._happen(WatchEvent("BOOKMARK", None, str(self.version)))

    def say(self, event: WatchEvent[Pod]) -> None:
        """Put an event on the wire as it is."""
        self._happen(event)

    def _happen(self, event: WatchEvent[Pod]) -> None:
        self._history.append(event)
        for stream in self._streams:
            if not stream.ended:
                stream.pending.append(event)
                stream.wake.set()

    # Faults.

    def fail(self, verb: str, error: ApiError, times: int = 1) -> None:
        """Make calls fail: `list` a first page, `page` a later one, `watch` the opening."""

        def raise_it() -> None:
            raise error

        self._failures[verb].extend([raise_it] * times)

    def forget_history(self) -> None:
        """Compact: no watch may begin before now, and no list be continued."""
        self._oldest = self.version
        self._history.clear()
        self._pages.clear()

    def end_watches(self, error: ApiError | None = None) -> None:
        """End every open watch, in order or with an error."""
        for stream in self._streams:
            stream.ended, stream.error = True, error
            stream.wake.set()

    # The part of ApiAccess that informers use.

    async def list(self, kind: type[Pod], namespace: str | None, **options: Any) -> ObjectList[Pod]:
        assert kind is Pod
        self.calls.append(("list", {"namespace": namespace, **options}))
        await asyncio.sleep(0.01)
        token, limit = options["continue_token"], options["limit"]
        self._stumble("page" if token else "list")
        if token:
            version, _, offset = token.partition("/")
            if version not in self._pages:
                raise failure(410, "The provided continue parameter is too old")
            everything, start = self._pages[version], int(offset)
        else:
            version, start = str(self.version), 0
            everything = self._pages[version] = list(self.pods.values())
        end = start + min(limit, self.page_size) if limit else len(everything)
        more = f"{version}/{end}" if end < len(everything) else ""
        return ObjectList(everything[start:end], version, more)

    async def watch(
        self, kind: type[Pod], namespace: str | None, **options: Any
    ) -> AsyncIterator[WatchEvent[Pod]]:
        assert kind is Pod
        self.calls.append(("watch", {"namespace": namespace, **options}))
        await asyncio.sleep(0.01)
        self._stumble("watch")
        seen = int(options["resource_version"])
        if seen < self._oldest:
            raise failure(410, f"too old resource version: {seen} ({self._oldest})")
        stream = _Stream(
            event for event in self._history if int(event.resource_version or 0) > seen
        )
        self._streams.append(stream)
        try:
            while stream.pending or not stream.ended:
                if stream.pending:
                    yield stream.pending.popleft()
                else:
                    stream.wake.clear()
                    await stream.wake.wait()
            if stream.error is not None:
                raise stream.error
        finally:
            self._streams.remove(stream)

    def _stumble(self, verb: str) -> None:
        if self._failures[verb]:
            self._failures[verb].pop(0)()
