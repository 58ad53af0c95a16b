"""The HTTP server of this package, on aiohttp, with plain requests and responses.

A client may be slow, silent, endless or broken. The limits ensure that such a client costs no more
than its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from kubesched.foundation.http.http_messages import (
    BadRequest,
    Handler,
    Headers,
    Request,
    Response,
    UpgradedSession,
    WebSocketSession,
    parse_target,
    text_error,
)
from kubesched.foundation.http.unsent_bytes import UnsentBytes
from kubesched.foundation.util.logging import get_logger

__all__ = ["PART_BYTES", "HttpLimits", "HttpServer"]

log = get_logger(__name__)

# Descriptors that remain for files, databases and outgoing connections.
_RESERVED_DESCRIPTORS: Final = 64
# Out of descriptors, asyncio tries to accept once for each place of the backlog.
_BACKLOG: Final = 128
# Larger bodies and chunks are written in parts, each after the client has received the previous
# one.
PART_BYTES: Final = 64 * 1024
_REASONS: Final = {400: "Bad Request", 431: "Request Header Fields Too Large"}


class HttpLimits(msgspec.Struct, frozen=True):
    """The limits of a server for its clients."""

    # Further connections are closed at once. The limit is lower if the process may open fewer
    # files.
    connections: int = 1000
    # Timeout of the TLS handshake of a connection.
    handshake_seconds: float = 10.0
    # Timeout of the first request of a connection.
    header_seconds: float = 32.0
    # A connection without requests is closed after this time.
    idle_seconds: float = 90.0
    # A larger body is refused with 413.
    body_bytes: int = 64 * 1024
    # Timeout of a request body.
    body_seconds: float = 10.0
    # Timeout within which a client must receive a response that fits one part.
    response_seconds: float = 60.0
    # A client that does not take the next part of a response for this long is dropped.
    stalled_seconds: float = 60.0
    # Unsent bytes of large responses, over all clients. Beyond it, clients that have received
    # nothing for a second are dropped; then large responses are refused with 429.
    unsent_bytes: int = 256 * 1024 * 1024
    patience_seconds: float = 1.0
    # The request line and each header. Together a little more than the reference's 1 MiB.
    line_bytes: int = 16 * 1024
    headers: int = 100
    # How long the server reads a body that the handler did not read.
    lingering_seconds: float = 2.0


class HttpServer(web.Server):
    """Accepts connections and calls a handler for each request.

    A handler is cancelled when its client disconnects.
    """

    def __init__(self, handler: Handler, limits: HttpLimits | None = None) -> None:
        super().__init__(self._handle, handler_cancellation=True)
        self._handler = handler
        self.limits = limits or HttpLimits()
        self.max_connections = _affordable(self.limits.connections)
        self.open_connections = 0
        self.unsent = UnsentBytes(self.limits.unsent_bytes, self.limits.patience_seconds)
        self._listening: asyncio.Server | None = None

    def __call__(self) -> RequestHandler:
        return _Connection(self)

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Bind an address and accept connections. Raises OSError."""
        self._listening = await asyncio.get_running_loop().create_server(
            self, host, port, ssl=tls, backlog=_BACKLOG, **self._tls_timeouts(tls)
        )

    async def accept_from(self, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Accept connections from a socket that listens already."""
        self._listening = await asyncio.get_running_loop().create_server(
            self, sock=listener, ssl=tls, **self._tls_timeouts(tls)
        )

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port of the first socket."""
        assert self._listening is not None, "the server does not listen"
        host, port = self._listening.sockets[0].getsockname()[:2]
        return host, port

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections stay. Idempotent."""
        if self._listening is not None:
            self._listening.close()

    async def close(self, grace_seconds: float, *, abort: bool = False) -> None:
        """Stop accepting, and give running requests some time.

        With `abort` the server does not wait for clients to close their side of a TLS connection.
        """
        self.stop_accepting()
        await asyncio.sleep(0)  # requests that have arrived reach their handlers
        self.pre_shutdown()
        transports = [each.transport for each in self.connections]
        await self.shutdown(grace_seconds)
        if not abort:
            return
        for transport in transports:
            if transport is not None:
                transport.abort()
        for _ in range(2):  # one iteration of the loop for the abort, one for its callbacks
            await asyncio.sleep(0)

    def _tls_timeouts(self, tls: ssl.SSLContext | None) -> dict[str, Any]:
        if tls is None:
            return {}
        return {"ssl_handshake_timeout": self.limits.handshake_seconds, "ssl_shutdown_timeout": 5.0}

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.has_requested = True
        try:
            response = await self._handler(self._received(request, connection.certificates))
        except BadRequest as exc:
            response = text_error(str(exc), exc.status)
        if response.websocket is not None:
            return await self._converse(request, response.websocket)
        if response.upgraded is not None:
            return await self._run_upgraded(connection, response.upgraded)
        if response.stream is not None:
            return await self._send_stream(request, response, response.stream)
        if len(response.body) <= PART_BYTES or request.method == "HEAD":
            return _wire_response(response)
        return await self._send_large(request, response)

    def _received(self, request: web.BaseRequest, certificates: tuple[bytes, ...]) -> Request:
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
            has_body=request.body_exists,
            read_body=lambda: self._read_body(request),
        )

    async def _read_body(self, request: web.BaseRequest) -> bytes:
        limit = self.limits.body_bytes
        if (request.content_length or 0) > limit:
            raise BadRequest("request body too large", 413)
        pieces: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while piece := await request.content.readany():
                    size += len(piece)
                    if size > limit:
                        raise BadRequest("request body too large", 413)
                    pieces.append(piece)
        except TimeoutError as exc:
            raise BadRequest("request timeout", 408) from exc
        except (ConnectionError, web.RequestPayloadError) as exc:
            raise BadRequest("400 Bad Request") from exc
        return b"".join(pieces)

    async def _send_large(self, request: web.BaseRequest, response: Response) -> web.StreamResponse:
        """Send a large body in parts, or refuse it while other clients do not take theirs."""
        size, now = len(response.body), asyncio.get_running_loop().time()
        if not self.unsent.make_room(size, now):
            refusal = text_error("too many large responses are being sent", 429)
            return _wire_response(refusal.with_headers(Retry_After="1"))
        headers: dict[str, Any] = {**response.headers, "Content-Type": response.content_type}
        sent = web.StreamResponse(status=response.status, headers=headers)
        sent.content_length = size
        if response.closes_connection:
            sent.force_close()
        with self._dropping(request, sent):
            await sent.prepare(request)
            await self._write_parts(request, sent, response.body)
        return sent

    async def _write(
        self, request: web.BaseRequest, sent: web.StreamResponse, part: bytes | memoryview
    ) -> None:
        """Write, and wait until the client takes it. Raises TimeoutError if it does not."""
        async with asyncio.timeout(self.limits.stalled_seconds):
            await sent.write(part)
            # A small write does not wait unless the buffer is full.
            await request.writer.drain()

    async def _write_parts(
        self, request: web.BaseRequest, sent: web.StreamResponse, data: bytes
    ) -> None:
        """Write a large body or chunk. Raises TimeoutError if the client does not take a part."""
        loop, parts = asyncio.get_running_loop(), memoryview(data)
        self.unsent.begin(request.protocol, len(data), loop.time(), lambda: _drop(request))
        try:
            for start in range(0, len(data), PART_BYTES):
                part = parts[start : start + PART_BYTES]
                await self._write(request, sent, part)
                self.unsent.taken(request.protocol, len(part), loop.time())
        finally:
            self.unsent.end(request.protocol)

    @contextlib.contextmanager
    def _dropping(self, request: web.BaseRequest, sent: web.StreamResponse) -> Iterator[None]:
        """Drop a client that receives nothing, or that disconnects, while the block sends to it."""
        try:
            yield
        except TimeoutError:
            _drop(request)
        except ConnectionError:
            sent.force_close()

    async def _converse(
        self, request: web.BaseRequest, session: WebSocketSession
    ) -> web.StreamResponse:
        """Run a WebSocket session until it returns or the client disconnects."""
        socket = web.WebSocketResponse(
            protocols=session.protocols,
            timeout=self.limits.lingering_seconds,
            max_msg_size=self.limits.body_bytes,
        )
        try:
            await socket.prepare(request)
            await session(_OpenSocket(socket, self.limits.stalled_seconds))
            await socket.close()
        except (ConnectionError, TimeoutError):
            _drop(request)
        return socket

    async def _run_upgraded(
        self, connection: _Connection, session: UpgradedSession
    ) -> web.StreamResponse:
        """Run a session with the bytes of a connection until it returns or the client leaves."""
        raw = connection.become_raw(session.upgrade, session.headers)
        try:
            await session(raw)
        except (ConnectionError, TimeoutError):
            pass
        finally:
            connection.close_raw()
        # The connection is closed, so no client receives this.
        gone = web.Response()
        gone.force_close()
        return gone

    async def _send_stream(
        self, request: web.BaseRequest, response: Response, chunks: AsyncGenerator[bytes, None]
    ) -> web.StreamResponse:
        """Send chunks until they end, or the client disconnects or stops reading."""
        headers: dict[str, Any] = {**response.headers, "Content-Type": response.content_type}
        sent = web.StreamResponse(status=response.status, headers=headers)
        loop = asyncio.get_running_loop()
        with self._dropping(request, sent):
            async with aclosing(chunks):
                await sent.prepare(request)
                async for chunk in chunks:
                    if len(chunk) <= PART_BYTES:
                        await self._write(request, sent, chunk)
                        continue
                    # A stream cannot be refused in the middle.
                    self.unsent.make_room(len(chunk), loop.time())
                    await self._write_parts(request, sent, chunk)
        return sent


class _OpenSocket:
    """A WebSocket connection. A client that takes nothing for some time is dropped."""

    def __init__(self, socket: web.WebSocketResponse, stalled_seconds: float) -> None:
        self._socket, self._stalled_seconds = socket, stalled_seconds

    async def send(self, message: bytes) -> None:
        async with asyncio.timeout(self._stalled_seconds):
            await self._socket.send_bytes(message)

    async def receive(self) -> bytes | None:
        message = await self._socket.receive()
        if message.type in (WSMsgType.BINARY, WSMsgType.TEXT):
            data = message.data
            return data if isinstance(data, bytes) else str(data).encode()
        return None

    async def wait_closed(self) -> None:
        async for _message in self._socket:
            pass


class _RawBytes:
    """A connection whose bytes are no HTTP any more."""

    def __init__(self, transport: asyncio.Transport, stalled_seconds: float) -> None:
        self._transport, self._stalled_seconds = transport, stalled_seconds
        self._received = bytearray()
        self._changed = asyncio.Event()
        self._has_ended = False
        self.can_write = asyncio.Event()
        self.can_write.set()

    async def read(self) -> bytes:
        while not self._received and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._received)
        self._received.clear()
        self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(data)
        async with asyncio.timeout(self._stalled_seconds):
            await self.can_write.wait()

    def feed(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > PART_BYTES:
            self._transport.pause_reading()
        self._changed.set()

    def end(self) -> None:
        self._has_ended = True
        self.can_write.set()
        self._changed.set()


class _Connection(RequestHandler):
    """aiohttp's connection, with limits for the first request and for the response."""

    def __init__(self, server: HttpServer) -> None:
        limits = server.limits
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            lingering_time=limits.lingering_seconds,
            max_line_size=limits.line_bytes,
            max_field_size=limits.line_bytes,
            max_headers=limits.headers,
            auto_decompress=False,
            access_log=None,  # type: ignore[arg-type]  # None turns it off, as aiohttp documents
        )
        self._server = server
        self._first_request_timer: asyncio.TimerHandle | None = None
        self.has_requested = False
        self.certificates: tuple[bytes, ...] = ()
        self._raw: _RawBytes | None = None

    def become_raw(self, protocol: str, headers: Mapping[str, str]) -> _RawBytes:
        """Accept another protocol; what arrives from now on is no HTTP."""
        assert isinstance(self.transport, asyncio.Transport)
        self._raw = raw = _RawBytes(self.transport, self._server.limits.stalled_seconds)
        fields = {"Upgrade": protocol, "Connection": "Upgrade", **headers}
        lines = [f"{name}: {value}\r\n" for name, value in fields.items()]
        head = f"HTTP/1.1 101 Switching Protocols\r\n{''.join(lines)}\r\n"
        self.transport.write(head.encode("latin-1"))
        return raw

    def close_raw(self) -> None:
        """Close the connection after what has been written is sent."""
        if self.transport is not None:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._raw is None:
            super().data_received(data)
        else:
            self._raw.feed(data)

    def eof_received(self) -> None:
        if self._raw is None:
            super().eof_received()
        else:
            self._raw.end()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._raw is not None:
            self._raw.can_write.clear()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._raw is not None:
            self._raw.can_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # TLS holds up to 512 KiB by default.
        assert isinstance(transport, asyncio.WriteTransport)
        transport.set_write_buffer_limits(PART_BYTES)
        self._server.open_connections += 1
        if self._server.open_connections > self._server.max_connections:
            self.force_close()
            return
        self.certificates = _verified_chain(transport.get_extra_info("ssl_object"))
        seconds = self._server.limits.header_seconds
        self._first_request_timer = self._loop.call_later(seconds, self._close_if_silent)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.open_connections -= 1
        if self._raw is not None:
            self._raw.end()
        if self._first_request_timer is not None:
            self._first_request_timer.cancel()
        super().connection_lost(exc)

    def _close_if_silent(self) -> None:
        if not self.has_requested:
            self.force_close()

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        try:
            async with asyncio.timeout(self._server.limits.response_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            self.force_close()
            return resp, True

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002  the signature is aiohttp's
    ) -> web.StreamResponse:
        """Respond to malformed bytes, or to a handler that raised an exception.

        The response does not contain any part of the request. Malformed bytes are logged at a high
        level only, because clients can send any number of them.
        """
        if isinstance(exc, HttpProcessingError):
            status = 431 if isinstance(exc, LineTooLong) else 400
            log.detail(3, "Received bytes that are no HTTP request", why=type(exc).__name__)
        elif exc is not None:
            log.exception("Request failed", exc, method=request.method, path=request.path)
        reason = _REASONS.get(status, "Internal Server Error")
        answer = _wire_response(text_error(f"{status} {reason}", status))
        answer.force_close()
        return answer


def _drop(request: web.BaseRequest) -> None:
    log.warning("Dropped a client that does not read", path=request.path)
    if request.transport is not None:
        request.transport.abort()


def _affordable(connections: int) -> int:
    """Return how many connections fit below the limit of open files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 0:
        return connections
    return min(connections, max(_RESERVED_DESCRIPTORS, soft - _RESERVED_DESCRIPTORS))


def _wire_response(response: Response) -> web.Response:
    headers: dict[str, Any] = {**response.headers, "Content-Type": response.content_type}
    sent = web.Response(status=response.status, body=response.body, headers=headers)
    if response.closes_connection:
        sent.force_close()
    return sent


def _address(request: web.BaseRequest) -> str:
    peer = request.transport.get_extra_info("peername") if request.transport else None
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else ""


def _verified_chain(connection: ssl.SSLObject | None) -> tuple[bytes, ...]:
    """Return the client's certificate and its issuers in DER; empty if it sent none."""
    if connection is None:
        return ()
    leaf = connection.getpeercert(binary_form=True)
    if leaf is None:
        return ()
    public = getattr(connection, "get_verified_chain", None)
    if public is not None:
        return tuple(public())
    # Before Python 3.13 only the inner object has the method.
    chain = connection._sslobj.get_verified_chain()  # type: ignore[attr-defined]
    return tuple(ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in chain or ()) or (leaf,)
