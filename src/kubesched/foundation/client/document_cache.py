"""A cache of the complete JSON of pods and nodes, for extenders.

The types of `api/` declare only the fields that the scheduler reads, but extenders receive complete
objects. With extenders, informers use a `DocumentCache` in place of the API. It requests complete
objects, returns the decoded ones to the informers, and caches the JSON of those objects that an
extender may receive. The cached JSON is always of the version that the informer received.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from kubesched.api import codec
from kubesched.api.access import ApiAccess, ApiError, ObjectList, WatchEvent
from kubesched.api.meta import ObjectMeta, Status
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.raw_objects import (
    NodeDocument,
    PodDocument,
    RawObject,
    node_wire_form,
    pod_wire_form,
)
from kubesched.foundation.client.informer_store import is_older
from kubesched.foundation.client.unreadable import leave_out

__all__ = ["DocumentCache"]

T = TypeVar("T", bound=msgspec.Struct)

_UNREADABLE = Status(
    status="Failure",
    code=500,
    reason="InternalError",
    message="unable to decode an object that was deleted",
)
_DOCUMENTS: Mapping[type, type[RawObject]] = {Pod: PodDocument, Node: NodeDocument}


class _CachedDocument(NamedTuple):
    uid: str
    node_name: str  # the node of a pod, if it has one
    body: bytes


class DocumentCache:
    """An `ApiAccess` for lists and watches that caches the JSON of the objects.

    `is_cached` has a predicate for each type with cached JSON. Other types pass through unchanged.
    """

    def __init__(self, api: ApiAccess, is_cached: Mapping[type, Callable[[Any], bool]]) -> None:
        self._api = api
        self._is_cached = is_cached
        self._cached: dict[tuple[type, str, str], _CachedDocument] = {}
        # By type: the objects of the current list, and the version of the last one.
        self._listed: dict[type, dict[tuple[type, str, str], _CachedDocument]] = {}
        self._versions: dict[type, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def __len__(self) -> int:
        return len(self._cached)

    def pod(self, pod: Pod) -> bytes:
        """Return the last version of the pod as JSON, with the node that `pod` is on."""
        kept = self._cached.get(_key(Pod, pod.metadata))
        if kept is None or kept.uid != pod.metadata.uid:
            return _encoded(pod_wire_form(_declared(pod)))
        node_name = pod.spec.node_name
        if node_name and node_name != kept.node_name:
            # The pod is assumed on this node, and the watch has not confirmed it yet.
            document = msgspec.json.decode(kept.body)
            document.setdefault("spec", {})["nodeName"] = node_name
            return _encoded(document)
        return kept.body

    def node(self, node: Node) -> bytes:
        """Return the last version of the node as JSON."""
        kept = self._cached.get(_key(Node, node.metadata))
        if kept is None or kept.uid != node.metadata.uid:
            return _encoded(node_wire_form(_declared(node)))
        return kept.body

    def forget(self, gone: Pod | Node) -> None:
        """Evict an object, unless another object has its name by now."""
        key = _key(type(gone), gone.metadata)
        kept = self._cached.get(key)
        if kept is not None and kept.uid == gone.metadata.uid:
            del self._cached[key]

    async def list(
        self, kind: type[T], namespace: str | None = None, **options: Any
    ) -> ObjectList[T]:
        document = _DOCUMENTS.get(kind)
        if document is None or kind not in self._is_cached:
            return await self._api.list(kind, namespace, **options)
        page = await self._api.list(document, namespace, **options)
        if not options.get("continue_token"):
            self._listed[kind] = {}
        taken = (self._take(kind, each, self._listed[kind]) for each in page.items)
        items = [each for each in taken if each is not None]
        if not page.continue_token:
            self._start_list(kind, page.resource_version)
        return ObjectList(items, page.resource_version, page.continue_token)

    def _start_list(self, kind: type, version: str) -> None:
        """Start a new list. Entries that it does not contain are evicted at its end."""
        others = {key: kept for key, kept in self._cached.items() if key[0] is not kind}
        self._cached = others | self._listed.pop(kind, {})
        self._versions[kind] = version

    def watch(
        self, kind: type[T], namespace: str | None = None, **options: Any
    ) -> AsyncIterator[WatchEvent[T]]:
        document = _DOCUMENTS.get(kind)
        if document is None or kind not in self._is_cached:
            return self._api.watch(kind, namespace, **options)
        is_list = bool(options.get("send_initial_events"))
        events = self._api.watch(document, namespace, **options)
        return self._watch(kind, events, is_list=is_list)

    async def _watch(
        self, kind: type[T], events: AsyncIterator[WatchEvent[RawObject]], *, is_list: bool
    ) -> AsyncIterator[WatchEvent[T]]:
        """Watch. With `is_list` the events up to the first bookmark are a list."""
        self._versions.setdefault(kind, "")
        if is_list:
            self._listed[kind] = {}
        try:
            async for event in events:
                shown: Any = event.object
                happened = event.type
                if event.is_initial_end and is_list:
                    is_list = False
                    self._start_list(kind, event.resource_version)
                if isinstance(shown, RawObject):
                    shown = self._take(kind, shown, self._place_for(kind, event, is_list=is_list))
                    if shown is None and happened == "DELETED":
                        raise ApiError(_UNREADABLE)  # a new list will not have it
                    if shown is None:
                        happened = "BOOKMARK"
                if not is_list and not is_older(event.resource_version, self._versions[kind]):
                    self._versions[kind] = event.resource_version or self._versions[kind]
                yield WatchEvent(happened, shown, event.resource_version, event.is_initial_end)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def _place_for(
        self, kind: type, event: WatchEvent[RawObject], *, is_list: bool
    ) -> dict[tuple[type, str, str], _CachedDocument] | None:
        """Return the cache for the document of an event, or None."""
        if event.type == "DELETED":
            return None  # the informer evicts it when it handles the deletion
        if not is_list and is_older(event.resource_version, self._versions[kind]):
            return None  # an informer ignores it, and would never evict it
        return self._listed[kind] if is_list else self._cached

    def _take(
        self,
        kind: type[T],
        document: RawObject,
        place: dict[tuple[type, str, str], _CachedDocument] | None,
    ) -> T | None:
        """Return the decoded object; None if it cannot be decoded, as from the API itself."""
        body = document.body
        try:
            decoded = codec.decode(body, kind)
        except msgspec.MsgspecError as exc:
            leave_out(kind, body, exc)
            return None
        if place is None:
            return decoded
        metadata: ObjectMeta = decoded.metadata  # type: ignore[attr-defined]
        key = _key(kind, metadata)
        if self._is_cached[kind](decoded):
            node_name = decoded.spec.node_name if isinstance(decoded, Pod) else ""
            place[key] = _CachedDocument(metadata.uid, node_name, _in_full(kind, body))
        else:
            place.pop(key, None)
        return decoded


def _in_full(kind: type, body: bytes) -> bytes:
    """Add kind and apiVersion, which other servers than the reference's may omit."""
    if kind is Node:
        is_whole = b'"nodeInfo"' in body and b'"daemonEndpoints"' in body
        return body if is_whole else _encoded(node_wire_form(msgspec.json.decode(body)))
    is_whole = b'"conditions"' not in body or b'"lastProbeTime"' in body
    return body if is_whole else _encoded(pod_wire_form(msgspec.json.decode(body)))


def _key(kind: type, metadata: ObjectMeta) -> tuple[type, str, str]:
    return kind, metadata.namespace, metadata.name


def _declared(shown: Pod | Node) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.json.decode(msgspec.json.encode(shown)))


def _encoded(document: dict[str, Any]) -> bytes:
    return msgspec.json.encode(document)
