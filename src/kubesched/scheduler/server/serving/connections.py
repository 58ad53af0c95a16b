"""The thin shell on aiohttp: bytes to requests, answers to bytes, and the limits on both.

A client may be slow, silent, endless or broken; none of that may cost more than its connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler

from kubesched.scheduler.server.endpoints.http_messages import (
    BadRequest,
    Headers,
    Request,
    Response,
    parse_target,
    text_error,
)
from kubesched.scheduler.server.serving.tls_contexts import verified_chain

__all__ = ["HttpServer"]

Answer = Callable[[Request], Awaitable[Response]]

HEADER_TIMEOUT_SECONDS: Final = 32.0
IDLE_TIMEOUT_SECONDS: Final = 90.0
WRITE_TIMEOUT_SECONDS: Final = 60.0
BODY_TIMEOUT_SECONDS: Final = 10.0
LINGERING_SECONDS: Final = 2.0
# One more is closed: what connections cost must not be for those outside to decide.
MAX_CONNECTIONS: Final = 1000
_MAX_BODY_BYTES: Final = 64 * 1024
# Together a little more than the reference's limit of one mebibyte for all headers.
_MAX_LINE_BYTES: Final = 16 * 1024
_MAX_HEADERS: Final = 100


class HttpServer(web.Server):
    """Makes a protocol for each connection that asks `answer`."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(self._handle)
        self._answer = answer
        self.open = 0

    def __call__(self) -> RequestHandler:
        return _Connection(self)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.has_asked = True
        try:
            response = await self._answer(_plain(request, connection.certificates))
        except BadRequest as exc:
            response = text_error(str(exc), exc.status)
        if response.stream is not None:
            return await _streamed(request, response, response.stream)
        return _for_wire(response)


class _Connection(RequestHandler):
    """aiohttp's connection with a limit for the first request and for reading the answer."""

    def __init__(self, server: HttpServer) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_TIMEOUT_SECONDS,
            lingering_time=LINGERING_SECONDS,
            max_line_size=_MAX_LINE_BYTES,
            max_field_size=_MAX_LINE_BYTES,
            max_headers=_MAX_HEADERS,
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]  # None turns it off, as aiohttp documents
        )
        self._server = server
        self._header_timer: asyncio.TimerHandle | None = None
        self.has_asked = False
        self.certificates: tuple[bytes, ...] = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.open += 1
        if self._server.open > MAX_CONNECTIONS:
            self.force_close()
            return
        connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        self.certificates = verified_chain(connection)
        self._header_timer = self._loop.call_later(HEADER_TIMEOUT_SECONDS, self._end_if_silent)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.open -= 1
        if self._header_timer is not None:
            self._header_timer.cancel()
        super().connection_lost(exc)

    def _end_if_silent(self) -> None:
        if not self.has_asked:
            self.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self.force_close()
            return resp, True

    def handle_error(
        self,
        request: web.BaseRequest,  # noqa: ARG002  the signature is aiohttp's
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002
    ) -> web.StreamResponse:
        """Answer a request that could not be read, without repeating any of it."""
        if isinstance(exc, LineTooLong):
            status = 431
        reasons = {400: "Bad Request", 431: "Request Header Fields Too Large"}
        reason = reasons.get(status, "Internal Server Error")
        answer = _for_wire(text_error(f"{status} {reason}", status))
        answer.force_close()
        return answer


def _plain(request: web.BaseRequest, certificates: tuple[bytes, ...]) -> Request:
    if request.version.major != 1:
        raise BadRequest("400 Bad Request")
    target = request.raw_path
    path, query = parse_target(target)
    return Request(
        method=request.method,
        target=target,
        path=path,
        query=query,
        headers=Headers(request.headers.items()),
        remote=_address(request),
        certificates=certificates,
        read_body=lambda: _read_body(request),
    )


async def _read_body(request: web.BaseRequest) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    raise BadRequest("request body too large", 413)
    except TimeoutError as exc:
        raise BadRequest("request timeout", 408) from exc
    except (ConnectionError, web.RequestPayloadError) as exc:
        raise BadRequest("400 Bad Request") from exc
    return bytes(body)


def _for_wire(response: Response) -> web.Response:
    headers: dict[str, Any] = {**response.headers, "Content-Type": response.content_type}
    return web.Response(status=response.status, body=response.body, headers=headers)


async def _streamed(
    request: web.BaseRequest, response: Response, parts: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Send parts as long as they are taken; one that is not taken in time ends it."""
    headers: dict[str, Any] = {**response.headers, "Content-Type": response.content_type}
    sent = web.StreamResponse(status=response.status, headers=headers)
    try:
        async with aclosing(parts):
            await sent.prepare(request)
            async for part in parts:
                async with asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                    await sent.write(part)
    except (ConnectionError, TimeoutError):
        sent.force_close()
    return sent


def _address(request: web.BaseRequest) -> str:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""
