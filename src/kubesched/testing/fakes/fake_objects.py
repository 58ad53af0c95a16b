"""The objects of a fake cluster, their listers, and an API that modifies them.

There is no server: nothing is validated, defaulted or watched. Written objects are in the listers
at once. For behaviour closer to a real server use the embedded API server.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kubesched.api import ApiError, ObjectList, ObjectMeta, PatchType, Pod, WatchEvent
from kubesched.api.kinds import kind_of
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import (
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from kubesched.foundation.client.object_table import ObjectLister, ObjectTable

__all__ = ["ApiCall", "FakeApi", "FakeInformer", "FakeLister", "FakeObjects"]

T = TypeVar("T", bound=msgspec.Struct)


class FakeObjects(ObjectTable):
    """Objects by type, namespace and name."""

    def remove(self, kind: type[Any], name: str, namespace: str | None = None) -> Any:
        """Remove an object and return it. Raises KeyError if there is none."""
        if self.get(kind, name, namespace) is None:
            raise KeyError((namespace or "", name))
        return super().remove(kind, name, namespace)

    def list(self, kind: type[T], namespace: str | None = None) -> builtins.list[T]:
        return [*super().list(kind, namespace)]

    def lister(self, kind: type[T]) -> FakeLister[T]:
        return FakeLister(self, kind)


class FakeLister(ObjectLister[T]):
    """The lister of one kind of `FakeObjects`."""


class FakeInformer(Generic[T]):
    """Calls handlers with the changes of one kind."""

    has_synced = True

    def __init__(self, objects: FakeObjects, kind: type[T]) -> None:
        self._objects = objects
        self._kind = kind

    def add_handler(
        self,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T, bool], None] | None = None,
    ) -> Callable[[], None]:
        def announce(old: Any, new: Any) -> None:
            if not isinstance(new if old is None else old, self._kind):
                return
            if new is None:
                if on_delete is not None:
                    on_delete(old, False)
            elif old is None:
                if on_add is not None:
                    on_add(new)
            elif on_update is not None:
                on_update(old, new)

        self._objects.listeners.append(announce)
        for present in self._objects.list(self._kind):
            announce(None, present)
        return lambda: self._objects.listeners.remove(announce)


class ApiCall(NamedTuple):
    """A recorded write: `what` is the new object, the patch, or the node's name."""

    verb: str
    kind: str
    namespace: str
    name: str
    what: Any = None


class FakeApi:
    """`ApiAccess` over `FakeObjects`; records every write in `calls`.

    `failures` maps a verb to an error that every such call raises.
    """

    def __init__(self, objects: FakeObjects) -> None:
        self.objects = objects
        self.calls: list[ApiCall] = []
        self.failures: dict[str, ApiError] = {}
        self._version = 1000
        self._generated = 0  # names are the prefix and a number that counts up

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        self._maybe_fail("get")
        return self._existing(kind, name, namespace)

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,  # noqa: ARG002  all objects are one page
        continue_token: str = "",  # noqa: ARG002
    ) -> ObjectList[T]:
        self._maybe_fail("list")
        assert not label_selector, "a FakeApi does not select"
        assert not field_selector, "a FakeApi does not select"
        return ObjectList(self.objects.list(kind, namespace), str(self._version))

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
        raise NotImplementedError("a FakeApi cannot be watched; use the embedded API server")

    async def create(self, new: T) -> T:
        metadata = _metadata(new)
        if not metadata.name and metadata.generate_name:
            self._generated += 1
            metadata = replace(metadata, name=f"{metadata.generate_name}{self._generated}")
            new = replace(new, metadata=metadata)
        self._note("create", type(new), metadata.namespace, metadata.name, new)
        if self.objects.get(type(new), metadata.name, metadata.namespace) is not None:
            raise _error(409, "AlreadyExists", type(new), metadata.name, "already exists")
        return self._store(new)

    async def update(self, changed: T, *, subresource: str = "") -> T:  # noqa: ARG002
        metadata = _metadata(changed)
        self._note("update", type(changed), metadata.namespace, metadata.name, changed)
        current = _metadata(self._existing(type(changed), metadata.name, metadata.namespace))
        if metadata.resource_version not in ("", current.resource_version):
            raise _error(
                409,
                "Conflict",
                type(changed),
                metadata.name,
                "could not be updated: the object has been modified",
            )
        return self._store(changed)

    async def patch(
        self,
        kind: type[T],
        name: str,
        namespace: str | None,
        patch: Mapping[str, Any],
        *,
        patch_type: PatchType = "strategic",
        subresource: str = "",  # noqa: ARG002
    ) -> T:
        self._note("patch", kind, namespace or "", name, patch)
        before = msgspec.to_builtins(self._existing(kind, name, namespace))
        if patch_type == "strategic":
            served = kind_of(kind)
            rules = kind_merge_rules(served.group, served.version, served.kind)
            after = strategic_merge_patch(before, patch, rules)
        elif patch_type == "json":
            after = json_patch(before, cast("list[Mapping[str, Any]]", patch))
        else:
            after = merge_patch(before, patch)
        return self._store(msgspec.convert(after, kind))

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        self._note("delete", kind, namespace or "", name, grace_period_seconds)
        current = self._existing(kind, name, namespace)
        if uid and _metadata(current).uid != uid:
            raise _error(409, "Conflict", kind, name, "has another UID")
        self.objects.remove(kind, name, namespace)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        self._note("bind", Pod, namespace, name, node)
        pod = self._existing(Pod, name, namespace)
        if uid and pod.metadata.uid != uid:
            raise _error(409, "Conflict", Pod, name, "has another UID")
        if pod.spec.node_name:
            raise _error(409, "Conflict", Pod, name, f"is on node {pod.spec.node_name}")
        self._store(replace(pod, spec=replace(pod.spec, node_name=node)))

    def _note(self, verb: str, kind: type[Any], namespace: str, name: str, what: Any) -> None:
        self.calls.append(ApiCall(verb, kind.__name__, namespace, name, what))
        self._maybe_fail(verb)

    def _maybe_fail(self, verb: str) -> None:
        if verb in self.failures:
            raise self.failures[verb]

    def _existing(self, kind: type[T], name: str, namespace: str | None) -> T:
        found = self.objects.get(kind, name, namespace)
        if found is None:
            raise _error(404, "NotFound", kind, name, "not found")
        return found

    def _store(self, new: T) -> T:
        self._version += 1
        metadata = replace(_metadata(new), resource_version=str(self._version))
        stored: T = replace(new, metadata=metadata)
        self.objects.put(stored)
        return stored


def _metadata(stored: msgspec.Struct) -> ObjectMeta:
    metadata = cast("Any", stored).metadata
    assert isinstance(metadata, ObjectMeta)
    return metadata


def _error(code: int, reason: str, kind: type[Any], name: str, problem: str) -> ApiError:
    message = f'{kind.__name__} "{name}" {problem}'
    return ApiError(Status(status="Failure", code=code, reason=reason, message=message))
