"""The API server of a model: plugins can read its objects, but not write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NoReturn, TypeVar

import msgspec

from kubesched.api import ApiError, ObjectList, PatchType, Pod, WatchEvent
from kubesched.api.base import ApiObject
from kubesched.api.meta import Status
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["ReadOnlyApi", "SilentRecorder"]

T = TypeVar("T", bound=msgspec.Struct)


class ReadOnlyApi:
    """`ApiAccess` over objects in memory; every write is refused."""

    def __init__(self, objects: ObjectTable) -> None:
        self._objects = objects

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        found = self._objects.get(kind, name, namespace or "")
        if found is None:
            message = f'{kind.__name__} "{name}" not found'
            raise ApiError(Status(status="Failure", message=message, reason="NotFound", code=404))
        return found

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",  # noqa: ARG002  no plugin selects
        field_selector: str = "",  # noqa: ARG002
        limit: int = 0,  # noqa: ARG002  all objects are one page
        continue_token: str = "",  # noqa: ARG002
    ) -> ObjectList[T]:
        return ObjectList(list(self._objects.list(kind, namespace)), "0")

    def watch(
        self,
        kind: type[T],
        namespace: str | None = None,  # noqa: ARG002  the answer is the same for all
        *,
        resource_version: str,  # noqa: ARG002
        label_selector: str = "",  # noqa: ARG002
        field_selector: str = "",  # noqa: ARG002
        send_initial_events: bool = False,  # noqa: ARG002
    ) -> AsyncIterator[WatchEvent[T]]:
        _refuse(f"watch {kind.__name__}")

    async def create(self, new: T) -> T:
        _refuse(f"create {type(new).__name__}")

    async def update(self, changed: T, *, subresource: str = "") -> T:  # noqa: ARG002
        _refuse(f"update {type(changed).__name__}")

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None,  # noqa: ARG002
        patch: Mapping[str, Any],  # noqa: ARG002
        *,
        patch_type: PatchType = "strategic",  # noqa: ARG002
        subresource: str = "",  # noqa: ARG002
    ) -> T:
        _refuse(f"patch {kind.__name__} {name}")

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,  # noqa: ARG002
        *,
        uid: str = "",  # noqa: ARG002
        grace_period_seconds: int | None = None,  # noqa: ARG002
    ) -> None:
        _refuse(f"delete {kind.__name__} {name}")

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:  # noqa: ARG002
        _refuse(f"bind {namespace}/{name}")


class SilentRecorder:
    """Discards events."""

    def event(
        self,
        regarding: Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        pass


def _refuse(what: str) -> NoReturn:
    message = f"cannot {what}: an explanation changes nothing"
    raise ApiError(Status(status="Failure", message=message, reason="Forbidden", code=403))
