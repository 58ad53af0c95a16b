"""The embedded cluster without a network: `ApiAccess` straight onto the store.

Requests complete without a turn of the event loop, and a watch hands over what is there
before it waits. Objects are shared with the store and with each other, which is safe because
they are immutable.

For simulations a hook may look at every request first, and delay it, refuse it, or lose its
answer.
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
from kubesched.cluster.apiserver.local_watch import LocalWatch, Rounds
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.strategies.shared_specs import shared
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.cluster.apiserver.store.typed_views import overlay
from kubesched.foundation.util.clock import Clock

__all__ = ["Fault", "Faults", "LocalApi"]

T = TypeVar("T", bound=msgspec.Struct)

_UNSERVED = 404
_NO_STATUS = PodStatus()


class Fault(msgspec.Struct, frozen=True):
    """What goes wrong with one request."""

    delay_ns: int = 0
    error: ApiError | None = None
    # The request takes effect, and the caller sees the error all the same.
    answer_lost: bool = False


# Called with verb, kind, namespace and name (empty where there is none) of a request.
#
# Verbs are get, list, watch, create, update, patch, delete and bind. A watch asks when it opens and
# whenever it wakes up. Raising ApiError refuses the request too.
Faults = Callable[[str, str, str | None, str], Fault | None]


class LocalApi:
    """`ApiAccess` onto a store in this process."""

    def __init__(self, store: Store, clock: Clock, *, faults: Faults | None = None) -> None:
        self.store = store
        self._clock = clock
        self._faults = faults
        self._rounds = Rounds()

    @property
    def answers_at_once(self) -> bool:
        """Whether no request ever waits."""
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
        """What there is of a kind now, for those who only look on in this process.

        Nothing of a kind that is not served.
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
        """Changes after a version, as they come.

        The watch opens with its first event: a refusal (410 for a version that is no longer
        known, 400 for a selector) is raised there, as it is when a watcher falls too far
        behind.
        """
        show = _event_of(kind) if issubclass(kind, RawObject) else _typed_event

        def open_watch() -> tuple[Watcher, Iterable[WatchEvent[T]]]:
            watcher = self.store.watch(
                self._resource(kind),
                namespace,
                # What is there now is never older than any version that was seen.
                resource_version="" if send_initial_events else resource_version,
                label_selector=label_selector,
                field_selector=field_selector,
            )
            if not send_initial_events:
                return watcher, ()
            end = WatchEvent[T]("BOOKMARK", None, str(self.store.revision), is_initial_end=True)
            return watcher, [*map(show, watcher.read()), end]

        async def before() -> None:
            _answer(await self._before("watch", kind, namespace, ""), None)

        return LocalWatch(open_watch, before if self._faults else None, show, self._rounds)

    async def create(self, new: T) -> T:
        metadata = _metadata(new)
        namespace = metadata.namespace or None
        name = metadata.name or metadata.generate_name
        fault = await self._before("create", type(new), namespace, name) if self._faults else None
        record = self.store.create(
            self._resource(type(new)),
            namespace,
            _document(new),
            self._clock.now_ns(),
            trusted=True,
        )
        return cast("T", _answer(fault, record.typed))

    async def create_document(
        self, kind: type[T], namespace: str | None, document: Mapping[str, Any]
    ) -> T:
        """Create an object from JSON, with fields that its type does not declare."""
        metadata = document.get("metadata", {})
        name = metadata.get("name") or metadata.get("generateName", "")
        fault = await self._before("create", kind, namespace, name) if self._faults else None
        record = self.store.create(
            self._resource(kind), namespace, dict(document), self._clock.now_ns()
        )
        return cast("T", _answer(fault, record.typed))

    def load(
        self,
        kind: type[msgspec.Struct],
        document: Mapping[str, Any],
        *,
        keep_deletion: bool = False,
    ) -> bool:
        """Take over an object as another server had it; False if one of its name is there.

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
        """An object as JSON, with fields that its type does not declare. Do not change it.

        Raises:
            ApiError: 404.
        """
        return self.store.get(self._resource(kind), namespace, name).data

    async def update(self, changed: T, *, subresource: str = "") -> T:
        """Replace an object; fields that its type does not declare stay as they are stored."""
        metadata = _metadata(changed)
        namespace, name = metadata.namespace or None, metadata.name
        fault = (
            await self._before("update", type(changed), namespace, name) if self._faults else None
        )
        resource = self._resource(type(changed))
        old = self.store.get(resource, namespace, name)
        record = self.store.update(
            resource,
            namespace,
            name,
            overlay(old.data, old.typed, changed),
            self._clock.now_ns(),
            subresource=subresource,
            trusted=True,
        )
        return cast("T", _answer(fault, record.typed))

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
            patch_type = "merge"  # servers know no strategies for custom resources
        fault = await self._before("patch", kind, namespace, name) if self._faults else None
        record = self.store.patch(
            self._resource(kind),
            namespace,
            name,
            patch,
            self._clock.now_ns(),
            patch_type=patch_type,
            subresource=subresource,
            trusted=True,
        )
        return cast("T", _answer(fault, record.typed))

    async def report(self, namespace: str, name: str, uid: str, status: dict[str, Any]) -> Pod:
        """What a kubelet says of a pod: a patch of its status, in fewer steps (`with_report`)."""
        fault = await self._before("patch", Pod, namespace, name) if self._faults else None
        record = self.store.report(namespace, name, uid, status, self._clock.now_ns())
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
        fault = await self._before("delete", kind, namespace, name) if self._faults else None
        self.store.delete(
            self._resource(kind),
            namespace,
            name,
            self._clock.now_ns(),
            uid=uid,
            grace_period_seconds=grace_period_seconds,
        )
        _answer(fault, None)

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
        """Delete, and say what is to become of what the object owns."""
        fault = await self._before("delete", kind, namespace, name) if self._faults else None
        self.store.delete(
            self._resource(kind),
            namespace,
            name,
            self._clock.now_ns(),
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
        )
        _answer(fault, None)

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        fault = await self._before("bind", "Pod", namespace, name) if self._faults else None
        self.store.bind(namespace, name, uid, node, self._clock.now_ns())
        _answer(fault, None)

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
    # Through JSON: msgspec's own conversion leaves tuples where a JSON object has lists.
    if type(obj) is not Pod:
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
        return document
    # Pods have a spec in common with others, of which everything is known already.
    pod = {"metadata": _plain_metadata(obj.metadata), "spec": shared(obj.spec)}
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
    """How a watch shows what it has seen to someone who wants all of the JSON."""

    def event(seen: WatchedChange) -> WatchEvent[Any]:
        shown = None if seen.record is None else _document_of(kind, seen.record)
        return WatchEvent(seen.type, shown, str(seen.revision))

    return event


def _document_of(kind: type[RawObject], record: Record) -> RawObject:
    return msgspec.json.decode(record.encoded, type=kind)
