"""The embedded API server on a socket: an HTTP server around `ApiService`."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator
from types import TracebackType

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.router import ApiService, refused
from kubesched.cluster.apiserver.http.served_watch import ServedWatch, WatchStream
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.foundation.http.http_messages import BadRequest, Handler, Request, Response
from kubesched.foundation.http.http_server import HttpServer
from kubesched.foundation.util.accept_failures import AcceptFailures
from kubesched.foundation.util.logging import get_logger

__all__ = ["ApiServer"]

_TOO_MANY_WATCHES = "too many watches on this server, please try again later"
_SHUTDOWN_SECONDS = 1.0
_ENCODINGS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}

log = get_logger(__name__)


class ApiServer:
    """Serves an `ApiService` while its block runs.

    `port` 0 selects a free port; `url` is the address of the server after the block has begun.
    """

    def __init__(
        self,
        service: ApiService,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        limits: ApiLimits | None = None,
    ) -> None:
        self._service = service
        self._mounts: dict[str, Handler] = {}
        self._host, self._port = host, port
        self._tls = tls
        self._limits = limits or ApiLimits()
        self._http: HttpServer | None = None
        self._streams: set[WatchStream] = set()

    @property
    def url(self) -> str:
        scheme = "https" if self._tls is not None else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}"

    @property
    def watches(self) -> int:
        """The number of open watches."""
        return len(self._streams)

    def mount(self, prefix: str, handler: Handler) -> None:
        """Call a handler for every request below a path. It authenticates clients itself."""
        self._mounts[prefix] = handler

    async def start(self) -> None:
        """Listen. Raises OSError if the address cannot be used."""
        AcceptFailures.sum_up(asyncio.get_running_loop())
        http = HttpServer(self._answer, self._limits)
        await http.listen(self._host, self._port, self._tls)
        self._http = http
        if not self._port:
            # A name may resolve to several addresses, each of which would get a different port.
            self._host, self._port = http.address
        self._service.address = self.url.partition("://")[2]

    async def stop(self) -> None:
        """Close every connection and the socket. Idempotent."""
        http, self._http = self._http, None
        if http is None:
            return
        for stream in list(self._streams):
            stream.end()
        await http.close(_SHUTDOWN_SECONDS, abort=True)

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

    async def _answer(self, request: Request) -> Response:
        for prefix, handler in self._mounts.items():
            if request.path == prefix or request.path.startswith(f"{prefix}/"):
                return await handler(request)
        is_read = not request.has_body
        answer: Response | ServedWatch
        try:
            if not is_read:
                # Authenticate first: the body of an unauthenticated request would only use memory.
                self._service.admit(request)
                request = msgspec.structs.replace(request, body=await self._body(request))
                is_read = True
            answer = await self._service.complete(request)
        except ApiError as error:
            answer = refused(error)
        except BadRequest:
            raise
        except Exception as error:
            # A bug in one request must not affect the others.
            log.exception("Request failed", error, method=request.method, path=request.path)
            answer = refused(api_errors.internal_error("see the log of the server"))
        if isinstance(answer, ServedWatch):
            return self._watch(answer)
        return answer if is_read else msgspec.structs.replace(answer, closes_connection=True)

    async def _body(self, request: Request) -> bytes:
        """Raises ApiError 400, 413, 415, 504; BadRequest if the client sends no HTTP."""
        limit = self._limits.body_bytes
        try:
            body = await request.read_body()
        except BadRequest as error:
            if error.status == 413:
                raise api_errors.too_large(limit) from error
            if error.status == 408:
                why = "the body of the request did not arrive in time"
                raise api_errors.timed_out(why) from error
            raise
        return _inflated(body, request.headers.get("Content-Encoding"), limit)

    def _watch(self, watch: ServedWatch) -> Response:
        if len(self._streams) >= self._limits.watches:
            return refused(api_errors.too_many_requests(_TOO_MANY_WATCHES, 1))
        return Response(content_type=watch.content_type, stream=self._chunks(watch))

    async def _chunks(self, watch: ServedWatch) -> AsyncGenerator[bytes, None]:
        stream = WatchStream(watch, self._limits)
        self._streams.add(stream)
        chunks = stream.chunks()
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            self._streams.discard(stream)
            await chunks.aclose()


def _inflated(body: bytes, encoding: str, limit: int) -> bytes:
    """Return a body before compression. Raises ApiError 400, 413, 415."""
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
