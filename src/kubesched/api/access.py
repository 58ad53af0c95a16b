"""The protocol through which all parts of kubesched use an API server.

There are two implementations: over HTTP (`foundation/client/`, for any Kubernetes API server) and
in process (`cluster/apiserver/`, on the embedded store). Callers hold typed, immutable objects; a
change is a new object. An error response is raised as `ApiError` with the server's `Status`; so
is a network failure, with code 0.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import msgspec

from kubesched.api.meta import Status
from kubesched.errors import KubeschedError

__all__ = [
    "ApiAccess",
    "ApiError",
    "Delivering",
    "EventType",
    "ObjectList",
    "PatchType",
    "WatchEvent",
    "deliver",
]

T = TypeVar("T", bound=msgspec.Struct)

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
PatchType = Literal["json", "merge", "strategic", "apply"]


class ApiError(KubeschedError):
    """An API server refused a request, or could not be reached (code 0)."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, such as `NotFound`, `AlreadyExists`, `Conflict`."""
        return self.status.reason


class ObjectList(msgspec.Struct, Generic[T], frozen=True):
    """One page of objects, with the resource version of the collection."""

    items: Sequence[T]
    resource_version: str
    continue_token: str = ""


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One change. A BOOKMARK has only a `resource_version`; its `object` is None.

    `is_initial_end` marks the bookmark that follows the initial objects.
    """

    type: EventType
    object: T | None
    resource_version: str
    is_initial_end: bool = False


@runtime_checkable
class Delivering(Protocol[T]):
    """A watch that calls a function with its events."""

    async def deliver(self, take: Callable[[WatchEvent[T]], None]) -> None: ...


async def deliver(
    events: AsyncIterator[WatchEvent[T]], take: Callable[[WatchEvent[T]], None]
) -> None:
    """Call `take` with each event of a watch until the watch ends."""
    if isinstance(events, Delivering):
        await events.deliver(take)
        return
    async for event in events:
        take(event)


class ApiAccess(Protocol):
    """The operations of an API server for the scheduler, kubelets and controllers.

    `kind` is the msgspec type of the object (`api.Pod`, …); namespaced kinds need a
    namespace except in `list` and `watch`, where None means all namespaces.
    """

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T: ...

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[T]: ...

    def watch(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        send_initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent[T]]:
        """Yield changes after `resource_version`, and bookmarks, until closed.

        With `send_initial_events` the watch begins with all existing objects as additions, in a
        state not older than `resource_version`, followed by a bookmark that marks their end. A
        server may refuse that.

        Raises ApiError with code 410 when the version is no longer available.
        """
        ...

    async def create(self, new: T) -> T: ...

    async def update(self, changed: T, *, subresource: str = "") -> T: ...

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],
        *,
        patch_type: PatchType = "strategic",
        subresource: str = "",
    ) -> T: ...

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None: ...

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Assign a pod to a node; raise ApiError if it is bound, being deleted or gated."""
        ...
