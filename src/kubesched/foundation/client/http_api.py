"""`ApiAccess` over HTTP: any Kubernetes API server (docs/reference/02 §9).

Objects are sent as JSON and decoded once, into the fields that their types declare. Requests wait
for the client's rate limit. The client retries when the server asks for it, and retries reads whose
response was lost. Every failure is an `ApiError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from itertools import count
from typing import Any, TypeVar

import msgspec

from kubesched.api import codec
from kubesched.api.access import ApiError, ObjectList, PatchType, WatchEvent
from kubesched.api.base import ApiStruct
from kubesched.api.coordination import Lease
from kubesched.api.core import Binding
from kubesched.api.custom_kinds import CustomObject
from kubesched.api.kinds import Kind, kind_of
from kubesched.api.meta import ObjectMeta, Status
from kubesched.api.overlay import overlay
from kubesched.api.pod import Pod
from kubesched.api.reference import ObjectReference
from kubesched.foundation.client.api_failures import (
    bounded,
    refusal,
    retry_after_ns,
    retry_lost_ns,
    unreachable,
)
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.client.targets import group_target, target
from kubesched.foundation.client.transport import (
    OutgoingRequest,
    ResponseStream,
    ServerResponse,
    Transport,
    TransportError,
)
from kubesched.foundation.client.unreadable import read_what_can_be
from kubesched.foundation.client.watch_stream import WatchDecoder
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock
from kubesched.foundation.util.large_objects import LARGE_TEXT, allocating_large
from kubesched.foundation.util.logging import get_logger

__all__ = ["HttpApi"]

log = get_logger(__name__)

T = TypeVar("T", bound=msgspec.Struct)

_JSON = "application/json"
_PATCH_TYPES: Mapping[PatchType, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_FIELD_MANAGER = "kubesched"
# Types that declare every field of their objects, so that an update loses nothing.
_WHOLE = frozenset([Lease])

_SHOWN_WAIT_NS = 50 * MILLISECOND
_MOST_WARNINGS = 100
# A full page of objects that are large.
_LARGE_PAGE = 500 * LARGE_TEXT
_UNAVAILABLE = 500
_DISCOVERY_TIMEOUT_NS = 32 * SECOND
_WATCH_SECONDS = (300, 600)
# The server ends a watch after its timeout. This much later the connection counts as lost.
_WATCH_GRACE_S = 15
# Servers that send bookmarks send one about every minute, even without changes.
_BOOKMARK_SILENCE_S = 180


class HttpApi:
    """A client with its own connections and rate limit.

    Writes pass through the `fence`, if there is one.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        random: random.Random,
        *,
        qps: float = 50,
        burst: int = 100,
        timeout_ns: int = 0,
        metrics: ClientMetrics | None = None,
        fence: LeaseFence | None = None,
    ) -> None:
        self._transport, self._clock, self._random = transport, clock, random
        self._bucket = TokenBucket(qps, burst)
        self._timeout_ns = timeout_ns
        self._metrics = metrics
        self._fence = fence
        self._writing = 0
        self._warnings: set[str] = set()
        self._kind_names: dict[str, str] = {}

    @property
    def is_writing(self) -> bool:
        """Whether a write is waiting or in flight."""
        return self._writing > 0

    async def close(self) -> None:
        await self._transport.close()

    async def serves(self, api_version: str) -> bool:
        """Whether the server has this group and version. False also if it refuses to answer.

        Raises:
            ApiError: the server is unavailable.
        """
        group, _, version = api_version.rpartition("/")
        try:
            await self._call("GET", group_target(group, version), timeout_ns=_DISCOVERY_TIMEOUT_NS)
        except ApiError as error:
            if error.code == 0 or error.code >= _UNAVAILABLE:
                raise
            return False
        return True

    # The methods of ApiAccess

    async def get(self, kind: type[T], name: str, namespace: str | None = None) -> T:
        answer = await self._call("GET", target(kind_of(kind), namespace, name))
        return _decoded(answer.body, kind)

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
        query = {
            "labelSelector": label_selector,
            "fieldSelector": field_selector,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
        }
        answer = await self._call("GET", target(kind_of(kind), namespace, query=query))
        large = allocating_large if len(answer.body) > _LARGE_PAGE else contextlib.nullcontext
        try:
            with large(len(answer.body)):
                return codec.decode_list(answer.body, kind)
        except msgspec.ValidationError:
            pass  # an object in the list cannot be decoded
        except msgspec.MsgspecError as exc:
            raise _unreadable(exc) from exc
        try:
            return read_what_can_be(answer.body, kind)
        except msgspec.MsgspecError as exc:
            raise _unreadable(exc) from exc

    async def watch(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        send_initial_events: bool = False,
    ) -> AsyncIterator[WatchEvent[T]]:
        seconds = self._random.randint(*_WATCH_SECONDS)
        query = {
            "allowWatchBookmarks": "true",
            "fieldSelector": field_selector,
            "labelSelector": label_selector,
            "resourceVersion": resource_version,
            "resourceVersionMatch": "NotOlderThan" if send_initial_events else "",
            "sendInitialEvents": "true" if send_initial_events else "",
            "timeoutSeconds": str(seconds),
            "watch": "true",
        }
        request = OutgoingRequest("GET", target(kind_of(kind), namespace, query=query))
        async with contextlib.AsyncExitStack() as stack:
            streamed = await self._open(stack, request)
            decoder = WatchDecoder(kind)
            ends_ns = self._clock.monotonic_ns() + (seconds + _WATCH_GRACE_S) * SECOND
            while chunk := await self._next_chunk(streamed, ends_ns, decoder):
                for event in decoder.feed(chunk):
                    if isinstance(event.object, Status):
                        raise ApiError(bounded(event.object))
                    yield event
                    del event  # it would stay in memory until the next one arrives
                if decoder.is_large:
                    await asyncio.sleep(0)  # reading does not suspend while data is buffered

    async def create(self, new: T) -> T:
        kind = kind_of(type(new))
        namespace = new.metadata.namespace  # type: ignore[attr-defined]  # every kind has it
        body = codec.encode(new)
        if kind.kind == kind.plural:  # a custom resource without a type
            body = msgspec.json.encode(msgspec.json.decode(body) | {"kind": await self._name(kind)})
        answer = await self._call("POST", target(kind, namespace), body)
        return _decoded(answer.body, type(new))

    async def _name(self, kind: Kind) -> str:
        """Look up the kind of a plural on the server."""
        if kind.plural not in self._kind_names:
            answer = await self._call("GET", group_target(kind.group, kind.version))
            served = _decoded(answer.body, _Served).resources
            names = {each.name: each.kind for each in served}
            self._kind_names[kind.plural] = names.get(kind.plural) or kind.plural
        return self._kind_names[kind.plural]

    async def update(self, changed: T, *, subresource: str = "") -> T:
        """Replace an object. Fields that its type does not declare keep their values."""
        kind = kind_of(type(changed))
        metadata: ObjectMeta = changed.metadata  # type: ignore[attr-defined]
        if type(changed) in _WHOLE:
            body = codec.encode(changed)
        else:
            body = await self._with_undeclared_fields(kind, changed, metadata)
        place = target(kind, metadata.namespace, metadata.name, subresource)
        answer = await self._call("PUT", place, body)
        return _decoded(answer.body, type(changed))

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
        query = {"fieldManager": _FIELD_MANAGER, "force": "true"} if patch_type == "apply" else {}
        if patch_type == "strategic" and issubclass(kind, CustomObject):
            patch_type = "merge"  # servers have no strategies for custom resources
        answer = await self._call(
            "PATCH",
            target(kind_of(kind), namespace, name, subresource, query),
            msgspec.json.encode(patch),
            _PATCH_TYPES[patch_type],
        )
        return _decoded(answer.body, kind)

    async def delete(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
    ) -> None:
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        place = target(kind_of(kind), namespace, name)
        _check_is_object(await self._call("DELETE", place, msgspec.json.encode(options)))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        binding = Binding(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=uid),
            target=ObjectReference(kind="Node", name=node),
        )
        place = target(_POD, namespace, name, "binding")
        _check_is_object(await self._call("POST", place, codec.encode(binding)))

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Evict a pod. A refusal of its budget is an ApiError with code 429."""
        options = {"preconditions": {"uid": uid}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        place = target(_POD, namespace, name, "eviction")
        _check_is_object(await self._call("POST", place, msgspec.json.encode(body)))

    async def _call(
        self,
        method: str,
        place: str,
        body: bytes = b"",
        content_type: str = _JSON,
        *,
        timeout_ns: int = 0,
    ) -> ServerResponse:
        request = OutgoingRequest(
            method, place, body, content_type if body else "", timeout_ns or self._timeout_ns
        )
        started_ns = self._clock.monotonic_ns()
        is_write = method != "GET"
        self._writing += is_write
        try:
            answer = await self._send_with_retries(request, is_write)
        finally:
            self._writing -= is_write
        if self._metrics is not None:
            family = self._metrics.request_duration_seconds.labels(method, self._transport.host)
            family.observe_ns(self._clock.monotonic_ns() - started_ns)
        if isinstance(answer, TransportError):
            raise unreachable(answer) from answer
        if not 200 <= answer.status < 300:
            raise refusal(answer)
        return answer

    async def _send_with_retries(
        self, request: OutgoingRequest, is_write: bool
    ) -> ServerResponse | TransportError:
        for attempt in count():
            await self._throttle(request)
            if is_write and self._fence is not None:
                answer = await self._send_fenced(self._fence, request, attempt)
            else:
                answer = await self._send(request, attempt)
            if isinstance(answer, TransportError):
                wait_ns = None if is_write else retry_lost_ns(answer, attempt)
            else:
                wait_ns = retry_after_ns(answer, attempt)
            if wait_ns is None:
                break
            await self._clock.sleep(wait_ns)
        return answer

    async def _send_fenced(
        self, fence: LeaseFence, request: OutgoingRequest, attempt: int
    ) -> ServerResponse | TransportError:
        ends_ns = await fence.enter()
        is_settled = False
        try:
            limit_ns = ends_ns - self._clock.monotonic_ns()
            limited = msgspec.structs.replace(
                request,
                timeout_ns=min(limit_ns, request.timeout_ns or limit_ns),
                before_send=lambda: fence.check(ends_ns),
            )
            answer = await self._send(limited, attempt)
            is_settled = isinstance(answer, ServerResponse) or answer.kind == "refused"
        except ApiError:
            is_settled = True  # the fence closed before it was sent
            raise
        finally:
            fence.leave(ends_ns, is_settled=is_settled)
        return answer

    async def _send(
        self, request: OutgoingRequest, attempt: int
    ) -> ServerResponse | TransportError:
        try:
            answer = await self._transport.send(request)
        except TransportError as failure:
            self._count(request, "<error>", attempt)
            return failure
        self._count(request, str(answer.status), attempt)
        if (warning := answer.headers.get("Warning")) is not None:
            self._pass_on(warning)
        if self._metrics is not None:
            labels = request.method, self._transport.host
            self._metrics.request_size_bytes.labels(*labels).observe(len(request.body))
            self._metrics.response_size_bytes.labels(*labels).observe(len(answer.body))
        return answer

    def _pass_on(self, warning: str) -> None:
        """Log the warnings of a server, each text once, because every response repeats them."""
        if warning not in self._warnings and len(self._warnings) < _MOST_WARNINGS:
            self._warnings.add(warning)
            log.warning("The API server warns", warning=warning)

    async def _throttle(self, request: OutgoingRequest) -> None:
        wait_ns = self._bucket.take(self._clock.monotonic_ns())
        if wait_ns:
            await self._clock.sleep(wait_ns)
        if self._metrics is not None:
            labels = request.method, self._transport.host
            self._metrics.rate_limiter_duration_seconds.labels(*labels).observe_ns(wait_ns)
        if wait_ns > _SHOWN_WAIT_NS:
            log.detail(
                3,
                "Waited before sending request",
                delay=f"{wait_ns / SECOND:.3f}s",
                reason="client-side throttling, not priority and fairness",
                verb=request.method,
                URL=self._transport.base_url + request.target,
            )

    def _count(self, request: OutgoingRequest, code: str, attempt: int) -> None:
        if self._metrics is None:
            return
        labels = code, request.method, self._transport.host
        self._metrics.requests_total.labels(*labels).inc()
        if attempt:
            self._metrics.request_retries_total.labels(*labels).inc()

    async def _with_undeclared_fields(self, kind: Kind, changed: T, metadata: ObjectMeta) -> bytes:
        answer = await self._call("GET", target(kind, metadata.namespace, metadata.name))
        shown = _decoded(answer.body, type(changed))
        try:
            stored = msgspec.json.decode(answer.body)
            # If the object has changed in the meantime, the result has the older version, and the
            # server responds with a conflict.
            return msgspec.json.encode(overlay(stored, shown, changed))
        except RecursionError as exc:
            raise unreachable(TransportError(_TOO_DEEP)) from exc

    async def _open(
        self, stack: contextlib.AsyncExitStack, request: OutgoingRequest
    ) -> ResponseStream:
        for attempt in count():
            if attempt:
                await self._throttle(request)  # the first attempt is not rate limited
            try:
                streamed = await stack.enter_async_context(self._transport.stream(request))
                self._count(request, str(streamed.status), attempt)
                if streamed.status == 200:
                    break
                answer = ServerResponse(streamed.status, await streamed.read(), streamed.headers)
                wait_ns = retry_after_ns(answer, attempt)
                if wait_ns is None:
                    raise refusal(answer)
            except TransportError as failure:
                self._count(request, "<error>", attempt)
                wait_ns = retry_lost_ns(failure, attempt, is_watch=True)
                if wait_ns is None:
                    raise unreachable(failure) from failure
            await stack.aclose()
            await self._clock.sleep(wait_ns)
        return streamed

    async def _next_chunk(
        self, streamed: ResponseStream, ends_ns: int, decoder: WatchDecoder[Any]
    ) -> bytes:
        """Return the next bytes; none when the server has ended the watch.

        Raises:
            ApiError: code 0, the connection broke, or it was silent for too long.
        """
        patience_s = max(0.0, (ends_ns - self._clock.monotonic_ns()) / SECOND)
        if decoder.has_seen_bookmark:
            patience_s = min(patience_s, _BOOKMARK_SILENCE_S)
        try:
            async with asyncio.timeout(patience_s):
                return await streamed.read_chunk()
        except TransportError as failure:
            raise unreachable(failure) from failure
        except TimeoutError as exc:
            stalled = TransportError(f"{self._transport.base_url}: the watch stalled", "timeout")
            raise unreachable(stalled) from exc


class _ServedResource(ApiStruct):
    name: str = ""
    kind: str = ""


class _Served(ApiStruct):
    resources: tuple[_ServedResource, ...] = ()


_POD = kind_of(Pod)
_TOO_DEEP = "the object is nested too deeply to be changed"


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        if len(body) > LARGE_TEXT:
            with allocating_large(len(body)):
                return codec.decode(body, kind)
        return codec.decode(body, kind)
    except msgspec.MsgspecError as exc:
        raise _unreadable(exc) from exc


def _check_is_object(answer: ServerResponse) -> None:
    """Raise ApiError for a successful response that does not come from an API server.

    A proxy that responds with its own page has not forwarded the request.
    """
    try:
        msgspec.json.decode(answer.body, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as exc:
        raise _unreadable(exc) from exc


def _unreadable(why: msgspec.MsgspecError) -> ApiError:
    # The response is not of this API, so the request did not reach an API server.
    return unreachable(TransportError(f"the answer of the server cannot be read: {why}"))
