"""An API whose requests for one object are spans inside the span of the attempt."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import msgspec

from kubesched.api.access import ApiAccess, ApiError, PatchType
from kubesched.foundation.util.spans import Tracer, current_span

__all__ = ["TracedApi"]

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R")


class TracedApi:
    """`ApiAccess` with spans. Lists and watches have none: they belong to no pod."""

    def __init__(self, api: ApiAccess, tracer: Tracer) -> None:
        self._api, self._tracer = api, tracer
        self.list = api.list
        self.watch = api.watch

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        return await self._traced("get", kind.__name__, name, self._api.get(kind, name, namespace))

    async def create(self, new: T) -> T:
        return await self._traced("create", type(new).__name__, "", self._api.create(new))

    async def update(self, changed: T, *, subresource: str = "") -> T:
        work = self._api.update(changed, subresource=subresource)
        return await self._traced("update", type(changed).__name__, "", work)

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],
        *,
        patch_type: PatchType = "strategic",
        subresource: str = "",
    ) -> T:
        work = self._api.patch(
            kind, name, namespace, patch, patch_type=patch_type, subresource=subresource
        )
        return await self._traced("patch", kind.__name__, name, work)

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        work = self._api.delete(
            kind, name, namespace, uid=uid, grace_period_seconds=grace_period_seconds
        )
        await self._traced("delete", kind.__name__, name, work)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        await self._traced("bind", "Pod", name, self._api.bind(namespace, name, uid, node))

    async def _traced(self, verb: str, kind: str, name: str, work: Awaitable[R]) -> R:
        parent = current_span.get()
        if parent is None:
            return await work
        started_ns, error = self._tracer.now_ns(), ""
        try:
            return await work
        except ApiError as exc:
            error = str(exc)
            raise
        finally:
            attributes = {"k8s.kind": kind, "k8s.name": name}
            self._tracer.child(parent, f"{verb} {kind}", started_ns, attributes, error)
