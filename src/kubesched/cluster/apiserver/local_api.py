"""`ApiAccess` on a store in the same process, without a network.

Requests complete without yielding to the event loop. A watch returns all available events before
it waits. Callers share objects with the store, which is safe because they are immutable.

For simulations and tests, a fault hook can delay or refuse a request, or lose its response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, TypeVar, cast

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiError, ObjectList, PatchType, WatchEvent
from kubesched.api.custom_kinds import CustomObject
from kubesched.api.events import Event
from kubesched.api.meta import ObjectMeta
from kubesched.api.pod import PodStatus
from kubesched.api.raw_objects import RawObject
from kubesched.cluster.apiserver.local_watch import DeliveryGroups, LocalWatch
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.strategies.shared_specs import share_spec
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.cluster.apiserver.store.typed_views import overlay
from kubesched.cluster.apiserver.webhook_calls import WebhookCalls
from kubesched.foundation.util.clock import Clock

__all__ = ["Fault", "Faults", "LocalApi"]

T = TypeVar("T", bound=msgspec.Struct)
W = TypeVar("W")

_UNSERVED = 404
_METRICS = "metrics.k8s.io/v1beta1"
_NO_STATUS = PodStatus()


class Fault(msgspec.Struct, frozen=True):
    """A fault that the hook injects into one request."""

    delay_ns: int = 0
    error: ApiError | None = None
    # Whether the request takes effect although the caller gets the error.
    answer_lost: bool = False


# The fault hook. It is called with the verb, kind, namespace and name of a request; the last two
# are empty if the request has none.
#
# Verbs are get, list, watch, create, update, patch, delete and bind. A watch calls the hook when it
# opens and whenever it wakes up. The hook may also raise ApiError to refuse the request.
Faults = Callable[[str, str, str | None, str], Fault | None]


class LocalApi:
    """`ApiAccess` on a store in this process."""

    def __init__(self, store: Store, clock: Clock, *, faults: Faults | None = None) -> None:
        self.store = store
        self._clock = clock
        self._faults = faults
        self._delivery_groups = DeliveryGroups()
        # Repeats writes that need webhooks; None if none can be called.
        self.webhook_calls: WebhookCalls | None = None
        # Returns the metrics of nodes, which are not stored; None if they are not measured.
        self.node_metrics: Callable[[], list[dict[str, Any]]] | None = None

    @property
    def completes_at_once(self) -> bool:
        """Whether every request completes without waiting, except writes that need webhooks."""
        return self._faults is None

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        fault = await self._before("get", kind, namespace, name) if self._faults else None
        record = self.store.get(self._resource(kind), namespace, name)
        return cast("T", _answer(fault, record.typed))

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList[T]:
        if self.node_metrics is not None and kind.__dict__.get("api_version") == _METRICS:
            found = [msgspec.convert(each, kind) for each in self.node_metrics()]
            return ObjectList(found, "", "")
        fault = await self._before("list", kind, namespace, "") if self._faults else None
        page = self.store.list(
            self._resource(kind),
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            continue_token=continue_token,
        )
        items: list[Any]
        if issubclass(kind, RawObject):
            items = [_document_of(kind, record) for record in page.records]
        else:
            items = [record.typed for record in page.records]
        return _answer(fault, ObjectList(items, str(page.revision), page.continue_token))

    def present(self, kind: type[T]) -> Iterator[T]:
        """Iterate over the current objects of a kind, without calling the fault hook.

        For observers in this process. There are no objects of a kind that is not served.
        """
        try:
            records = self.store.list(self._resource(kind)).records
        except ApiError as error:
            if error.code != _UNSERVED:
                raise
            return
        for record in records:
            yield cast("T", record.typed)

    def watch(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        send_initial_events: bool = False,
    ) -> LocalWatch[T]:
        """Watch the changes after a version.

        The watch opens when its first event is requested. Errors are raised there: 410 for a
        version that the log no longer holds, 400 for an invalid selector. A watch that falls too
        far behind raises 410 later.
        """
        to_event = _event_of(kind) if issubclass(kind, RawObject) else _typed_event

        def open_watch() -> tuple[Watcher, Iterable[WatchEvent[T]]]:
            watcher = self.store.watch(
                self._resource(kind),
                namespace,
                # The current state is not older than any version that a client has.
                resource_version="" if send_initial_events else resource_version,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            if not send_initial_events:
                return watcher, ()
            end = WatchEvent[T]("BOOKMARK", None, str(self.store.revision), is_initial_end=True)
            return watcher, [*map(to_event, watcher.read()), end]

        async def before() -> None:
            _answer(await self._before("watch", kind, namespace, ""), None)

        return LocalWatch(
            open_watch, before if self._faults else None, to_event, self._delivery_groups
        )

    async def create(self, new: T) -> T:
        metadata = _metadata(new)
        namespace = metadata.namespace or None
        name = metadata.name or metadata.generate_name
        fault = await self._before("create", type(new), namespace, name) if self._faults else None
        record = await self._write(
            lambda: self.store.create(
                self._resource(type(new)),
                namespace,
                _document(new),
                self._clock.now_ns(),
                trusted=True,
            )
        )
        return cast("T", _answer(fault, record.typed))

    async def create_document(
        self, kind: type[T], namespace: str | None, document: Mapping[str, Any]
    ) -> T:
        """Create an object from JSON, with fields that its type does not declare."""
        metadata = document.get("metadata", {})
        name = metadata.get("name") or metadata.get("generateName", "")
        fault = await self._before("create", kind, namespace, name) if self._faults else None
        record = await self._write(
            lambda: self.store.create(
                self._resource(kind), namespace, dict(document), self._clock.now_ns()
            )
        )
        return cast("T", _answer(fault, record.typed))

    def load(
        self,
        kind: type[msgspec.Struct],
        document: Mapping[str, Any],
        *,
        keep_deletion: bool = False,
    ) -> bool:
        """Import an object from another server. Returns False if one of its name exists.

        With `keep_deletion` an object that is being deleted stays in that state.

        Raises:
            ApiError: 400.
        """
        now_ns = self._clock.now_ns()
        loaded = self.store.load(
            self._resource(kind), dict(document), now_ns, keep_deletion=keep_deletion
        )
        return loaded is not None

    def document(
        self, kind: type[msgspec.Struct], name: str, namespace: str | None = None
    ) -> Mapping[str, Any]:
        """Return an object as JSON, with undeclared fields. Callers must not change it.

        Raises:
            ApiError: 404.
        """
        return self.store.get(self._resource(kind), namespace, name).data

    async def update(self, changed: T, *, subresource: str = "") -> T:
        """Replace an object. Fields that its type does not declare keep their stored values."""
        metadata = _metadata(changed)
        namespace, name = metadata.namespace or None, metadata.name
        fault = (
            await self._before("update", type(changed), namespace, name) if self._faults else None
        )
        resource = self._resource(type(changed))

        def attempt() -> Record:
            old = self.store.get(resource, namespace, name)
            return self.store.update(
                resource,
                namespace,
                name,
                overlay(old.data, old.typed, changed),
                self._clock.now_ns(),
                subresource=subresource,
                trusted=True,
            )

        record = await self._write(attempt)
        return cast("T", _answer(fault, record.typed))

    def check_create(self, new: msgspec.Struct) -> None:
        """Raise the error that `create` would raise, without creating the object."""
        self.store.create(
            self._resource(type(new)),
            _metadata(new).namespace or None,
            _document(new),
            self._clock.now_ns(),
            dry_run=True,
            trusted=True,
        )

    def check_update(self, changed: msgspec.Struct) -> None:
        """Raise the error that `update` would raise, without changing the object."""
        metadata = _metadata(changed)
        namespace, name = metadata.namespace or None, metadata.name
        resource = self._resource(type(changed))
        old = self.store.get(resource, namespace, name)
        self.store.update(
            resource,
            namespace,
            name,
            overlay(old.data, old.typed, changed),
            self._clock.now_ns(),
            dry_run=True,
            trusted=True,
        )

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
        if patch_type == "strategic" and issubclass(kind, CustomObject):
            patch_type = "merge"  # custom resources do not support strategic merge patches
        fault = await self._before("patch", kind, namespace, name) if self._faults else None
        record = await self._write(
            lambda: self.store.patch(
                self._resource(kind),
                namespace,
                name,
                patch,
                self._clock.now_ns(),
                patch_type=patch_type,
                subresource=subresource,
                trusted=True,
            )
        )
        return cast("T", _answer(fault, record.typed))

    async def report(self, namespace: str, name: str, uid: str, status: dict[str, Any]) -> Pod:
        """Write a kubelet's report: equivalent to a patch of the status, but faster."""
        fault = await self._before("patch", Pod, namespace, name) if self._faults else None
        record = await self._write(
            lambda: self.store.report(namespace, name, uid, status, self._clock.now_ns())
        )
        return cast("Pod", _answer(fault, record.typed))

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        await self.remove(
            kind,
            name,
            namespace,
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            propagation="",
        )

    async def remove(
        self,
        kind: type[msgspec.Struct],
        name: str,
        namespace: str | None,
        *,
        uid: str,
        grace_period_seconds: int | None,
        propagation: str,
    ) -> None:
        """Delete an object with a propagation policy for its dependents; empty: the default."""
        fault = await self._before("delete", kind, namespace, name) if self._faults else None
        await self._write(
            lambda: self.store.delete(
                self._resource(kind),
                namespace,
                name,
                self._clock.now_ns(),
                uid=uid,
                grace_period_seconds=grace_period_seconds,
                propagation=propagation,
            )
        )
        _answer(fault, None)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        fault = await self._before("bind", "Pod", namespace, name) if self._faults else None
        self.store.bind(namespace, name, uid, node, self._clock.now_ns())
        _answer(fault, None)

    async def _write(self, attempt: Callable[[], W]) -> W:
        """Execute a write, with calls of webhooks if it needs them."""
        calls = self.webhook_calls
        return attempt() if calls is None else await calls.run(attempt)

    def _resource(self, kind: type[msgspec.Struct]) -> Resource:
        return self.store.catalog.by_type(kind)

    async def _before(
        self, verb: str, kind: type[msgspec.Struct] | str, namespace: str | None, name: str
    ) -> Fault | None:
        assert self._faults is not None
        shown = kind if isinstance(kind, str) else self._resource(kind).kind
        fault = self._faults(verb, shown, namespace, name)
        if fault is None:
            return None
        if fault.delay_ns:
            await self._clock.sleep(fault.delay_ns)
        if fault.error is not None and not fault.answer_lost:
            raise fault.error
        return fault


A = TypeVar("A")


def _answer(fault: Fault | None, answer: A) -> A:
    if fault is not None and fault.error is not None:
        raise fault.error
    return answer


def _metadata(obj: msgspec.Struct) -> Any:
    return obj.metadata  # type: ignore[attr-defined]  # every type that is stored has it


def _document(obj: msgspec.Struct) -> dict[str, Any]:
    if type(obj) is Event and _has_no_lists(obj.metadata):
        plain: dict[str, Any] = msgspec.to_builtins(obj)
        return plain
    # Convert through JSON, because `to_builtins` produces tuples instead of lists.
    if type(obj) is not Pod:
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
        return document
    # Many pods share their spec, so that its checks are cached.
    pod = {"metadata": _plain_metadata(obj.metadata), "spec": share_spec(obj.spec)}
    if obj.status != _NO_STATUS:
        pod["status"] = msgspec.json.decode(msgspec.json.encode(obj.status))
    return pod


def _plain_metadata(metadata: ObjectMeta) -> dict[str, Any]:
    plain: dict[str, Any] = (
        msgspec.to_builtins(metadata)
        if _has_no_lists(metadata)
        else msgspec.json.decode(msgspec.json.encode(metadata))
    )
    return plain


def _has_no_lists(metadata: ObjectMeta) -> bool:
    return not metadata.owner_references and not metadata.finalizers


_typed_event: Callable[[WatchedChange], WatchEvent[Any]] = attrgetter("event")


def _event_of(kind: type[RawObject]) -> Callable[[WatchedChange], WatchEvent[Any]]:
    """Return a function that converts changes to events with undecoded JSON."""

    def event(change: WatchedChange) -> WatchEvent[Any]:
        document = None if change.record is None else _document_of(kind, change.record)
        return WatchEvent(change.type, document, str(change.revision))

    return event


def _document_of(kind: type[RawObject], record: Record) -> RawObject:
    return msgspec.json.decode(record.encoded, type=kind)
