"""The API server on a socket: aiohttp around `ApiService`.

Nothing is buffered per watcher: a stream reads the log when its client has taken what came
before. A client that takes nothing is dropped.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable
from types import TracebackType

import msgspec
from aiohttp import web

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.connection_guard import (
    ConnectionGuard,
    GuardedServer,
    GuardedSite,
)
from kubesched.cluster.apiserver.http.limits import Limits
from kubesched.cluster.apiserver.http.request_and_answer import Answer, Request, Stream
from kubesched.cluster.apiserver.http.router import ApiService, refused
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.foundation.util.accept_failures import AcceptFailures
from kubesched.foundation.util.logging import get_logger

__all__ = ["ApiServer", "Handler"]

_TOO_MANY_WATCHES = "too many watches on this server, please try again later"
_SHUTDOWN_SECONDS = 1.0
_IMPERSONATION = "impersonate-user"
_SHORTEST_PAUSE = 0.005
"""Seconds between two writes to one watcher: what happens in between is sent together."""

_ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

log = get_logger(__name__)

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class ApiServer:
    """Serves an `ApiService` while its block runs.

    `port` 0 takes a free one; `url` says where the server is once the block has begun.
    """

    def __init__(
        self,
        service: ApiService,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._service = service
        self._mounts: dict[str, Handler] = {}
        self._host, self._port = host, port
        self._tls = tls
        self._limits = limits or Limits()
        self._runner: web.ServerRunner | None = None
        self._guard = ConnectionGuard(self._limits)
        self._streams: set[_Pump] = set()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls is not None else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    @property
    def watches(self) -> int:
        """How many are open."""
        return len(self._streams)

    def mount(self, prefix: str, handler: Handler) -> None:
        """Let someone else answer everything under a path, sign-in included."""
        self._mounts[prefix] = handler

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be used."""
        AcceptFailures.sum_up(asyncio.get_running_loop())
        self._guard = ConnectionGuard(self._limits)
        server = GuardedServer(
            self._handle,
            self._guard,
            keepalive_timeout=self._limits.idle_seconds,
            auto_decompress=False,
            access_log=None,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        address = (self._host, self._port)
        site = GuardedSite(self._runner, address, self._tls, self._limits)
        try:
            await site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        if not self._port:
            # A name may stand for several addresses, and each would have a port of its own.
            self._host, self._port = self._runner.addresses[0][:2]
        self._service.address = self.url.partition("://")[2]

    async def stop(self) -> None:
        """Close every connection and the socket. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for pump in list(self._streams):
            pump.end()
        assert runner.server is not None
        transports = [each.transport for each in runner.server.connections]
        await runner.cleanup()
        # A TLS connection would go on waiting for its client's farewell.
        for transport in transports:
            if transport is not None:
                transport.abort()
        for _ in range(2):  # a turn to abort in, and one for what that calls
            await asyncio.sleep(0)

    async def __aenter__(self) -> ApiServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._guard.note_request(request.protocol)
        for prefix, handler in self._mounts.items():
            if request.path == prefix or request.path.startswith(f"{prefix}/"):
                return await handler(request)
        is_read = not request.body_exists
        try:
            asked = _request(request)
            if not is_read:
                # A stranger's body is not worth the memory.
                self._service.admit(asked)
                asked = msgspec.structs.replace(asked, body=await self._body(request))
                is_read = True
            answer = self._service.answer(asked)
        except ApiError as error:
            answer = refused(error)
        except TimeoutError:
            answer = refused(api_errors.timed_out("the body of the request did not arrive in time"))
        except (ConnectionError, web.RequestPayloadError):
            raise  # the client went away, or sends what is no HTTP
        except Exception as error:
            # One request that hits a bug must not take others along.
            log.exception("Request failed", error, method=request.method, path=request.path)
            answer = refused(api_errors.internal_error("see the log of the server"))
        if isinstance(answer, Stream):
            return await self._stream(request, answer)
        response = _response(answer)
        if not is_read:
            response.force_close()
        return response

    async def _body(self, request: web.BaseRequest) -> bytes:
        limit = self._limits.body_bytes
        if (request.content_length or 0) > limit:
            raise api_errors.too_large(limit)
        pieces: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._limits.body_seconds):
            while piece := await request.content.readany():
                size += len(piece)
                if size > limit:
                    raise api_errors.too_large(limit)
                pieces.append(piece)
        return _inflated(b"".join(pieces), request.headers.get("Content-Encoding", ""), limit)

    async def _stream(self, request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        if len(self._streams) >= self._limits.watches:
            return _response(refused(api_errors.too_many_requests(_TOO_MANY_WATCHES, 1)))
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        pump = _Pump(stream, response, self._limits)
        self._streams.add(pump)
        try:
            await response.prepare(request)
            await pump.run()
            await response.write_eof()
        except TimeoutError:
            log.warning("Dropped a watcher that does not read", path=request.path)
            if request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass  # the client has gone away, which ends its watch
        finally:
            self._streams.discard(pump)
        return response


class _Pump:
    """Moves what a watcher sees to its client until one of them ends."""

    def __init__(self, stream: Stream, response: web.StreamResponse, limits: Limits) -> None:
        self._stream = stream
        self._response = response
        self._limits = limits
        self._changed = asyncio.Event()
        self._is_over = False
        self._bookmark_due = False
        self._ticking: asyncio.TimerHandle | None = None

    def end(self) -> None:
        self._is_over = True
        self._changed.set()

    async def run(self) -> None:
        """Raises TimeoutError if the client does not read."""
        seconds = self._stream.timeout_seconds or self._limits.watch_seconds
        ending = asyncio.get_running_loop().call_later(seconds, self.end)
        if self._stream.bookmarks:
            self._schedule_bookmark()
        try:
            await self._pump()
        finally:
            ending.cancel()
            if self._ticking is not None:
                self._ticking.cancel()

    def _schedule_bookmark(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(self._limits.bookmark_seconds, self._tick)

    def _tick(self) -> None:
        self._bookmark_due = True
        self._changed.set()
        self._schedule_bookmark()

    async def _pump(self) -> None:
        stream, watcher = self._stream, self._stream.watcher
        initial_events = stream.initial_events
        while not self._is_over:
            self._changed.clear()
            try:
                lines = self._lines()
            except ApiError as error:
                await self._write(stream.error(error.status))
                return
            if initial_events and watcher.idle:
                lines += stream.bookmark(stream.revision(), True)
                initial_events = False
            if lines:
                await self._write(lines)
                await asyncio.sleep(_SHORTEST_PAUSE)
            elif watcher.idle:
                watcher.collection.call_on_change(self._changed.set)
                try:
                    await self._changed.wait()
                finally:
                    watcher.collection.forget(self._changed.set)

    def _lines(self) -> bytes:
        stream = self._stream
        seen = stream.watcher.read()
        lines = stream.encode([each for each in seen if each.record is not None]) if seen else b""
        if stream.bookmarks:
            if seen and seen[-1].record is None:
                lines += stream.bookmark(seen[-1].revision, False)
            elif self._bookmark_due and stream.watcher.idle:
                lines += stream.bookmark(stream.revision(), False)
                self._bookmark_due = False
        return lines

    async def _write(self, lines: bytes) -> None:
        async with asyncio.timeout(self._limits.stalled_seconds):
            await self._response.write(lines)


def _inflated(body: bytes, encoding: str, limit: int) -> bytes:
    """A body as it was before it was compressed. Raises ApiError 400, 413, 415."""
    if encoding in ("", "identity"):
        return body
    if encoding not in _ENCODINGS:
        raise api_errors.unsupported_media_type(f"content encoding {encoding!r} is not known")
    inflating = zlib.decompressobj(_ENCODINGS[encoding])
    try:
        inflated = inflating.decompress(body, limit + 1)
    except zlib.error as error:
        raise api_errors.bad_request(f"the body is no {encoding}: {error}") from None
    if len(inflated) > limit:
        raise api_errors.too_large(limit)
    if not inflating.eof:
        raise api_errors.bad_request(f"the body is no {encoding}: it ends too early")
    return inflated


def _request(request: web.BaseRequest) -> Request:
    url = request.rel_url
    return Request(
        method=request.method,
        path=url.raw_path,
        # Of a parameter that is given twice the first counts.
        query=dict(reversed(list(url.query.items()))) if url.query_string else {},
        headers=_headers(request),
    )


def _headers(request: web.BaseRequest) -> dict[str, str]:
    """By lower-case name. Of those that come more than once, the values are lines of one text."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    if _IMPERSONATION in headers:
        for name in headers:
            if name.startswith("impersonate-"):
                headers[name] = "\n".join(request.headers.getall(name))
    return headers


def _response(answer: Answer) -> web.Response:
    headers = {"Content-Type": answer.content_type, **answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers)
