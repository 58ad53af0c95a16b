"""HTTP/1.1 over sockets, with aiohttp; nothing of aiohttp gets out of this file.

Connections are kept open and reused. Each client has its own pool, so that the renewal of a
lease never waits behind a thousand bindings.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from kubesched.client.credentials import ANONYMOUS, Credential, Credentials, FileText
from kubesched.client.tls import KeyPair, TlsOptions, client_context
from kubesched.client.transport import Answer, Request, TransportError, limited
from kubesched.util.clock import SECOND
from kubesched.util.errors import ConfigError

__all__ = ["AiohttpTransport", "Connection"]

_CONNECT_S = 30
# A server ends what takes it more than a minute, so more silence than that is a dead connection.
_SILENCE_S = 90
# Shorter than the 90 s after which API servers close what idles: a write on a connection that is
# being closed cannot be repeated.
_IDLE_S = 60
_PARALLEL = 64
_CHUNK = 1 << 20
_PEER_GONE_MS = 45_000

_FAILURES = (aiohttp.ClientError, OSError, ValueError, ConfigError)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach an API server."""

    server: str  # https://host:port, perhaps with a path
    tls: TlsOptions = TlsOptions()
    ca_file: FileText | None = None  # trusted instead of what `tls` says, and read again
    credentials: Credentials = ANONYMOUS
    user_agent: str = "kubesched"


class AiohttpTransport:
    """A pool of connections to one server. Made and closed on the loop that uses it."""

    def __init__(self, connection: Connection, *, parallel: int = _PARALLEL) -> None:
        self._connection = connection
        self.base_url = connection.server.rstrip("/")
        self._is_tls = urlsplit(self.base_url).scheme == "https"
        self._context: tuple[tuple[KeyPair | None, bytes], ssl.SSLContext] | None = None
        self._parallel = parallel
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    async def send(self, request: Request) -> Answer:
        if self._requests is None:
            self._requests = self._session(self._parallel, _SILENCE_S)
        try:
            response = await self._request(self._requests, request)
            return Answer(response.status, await response.read(), response.headers)
        except _FAILURES as exc:
            raise _translated(exc, self.base_url) from exc

    @contextlib.asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[_Stream]:
        if self._streams is None:
            # Streams stay open for minutes, so they neither share a limit nor time out here.
            self._streams = self._session(0, None)
        try:
            response = await self._request(self._streams, request)
        except _FAILURES as exc:
            raise _translated(exc, self.base_url) from exc
        try:
            yield _Stream(response, self.base_url)
        finally:
            response.close()

    async def close(self) -> None:
        sessions, self._requests, self._streams = (self._requests, self._streams), None, None
        for session in sessions:
            if session is not None:
                await session.close()

    def _session(self, parallel: int, silence_s: float | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=parallel, keepalive_timeout=_IDLE_S, socket_factory=_socket
            ),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=silence_s),
            headers={"User-Agent": self._connection.user_agent, "Accept": "application/json"},
            skip_auto_headers=["Accept-Encoding", "Content-Type"],
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_CHUNK,
            request_class=_Request,
        )

    async def _request(
        self, session: aiohttp.ClientSession, request: Request
    ) -> aiohttp.ClientResponse:
        credential = await self._connection.credentials.current()
        headers = dict(credential.headers)
        if request.content_type:
            headers["Content-Type"] = request.content_type
        options: dict[str, Any] = {}
        if request.timeout_ns:
            options["timeout"] = aiohttp.ClientTimeout(
                total=request.timeout_ns / SECOND, sock_connect=_CONNECT_S
            )
        if self._is_tls:
            options["ssl"] = self._current_context(credential)
            options["server_hostname"] = self._connection.tls.server_name or None
        before_send = _BEFORE_SEND.set(request.before_send)
        try:
            response = await session.request(
                request.method,
                URL(self.base_url + request.target, encoded=True),
                data=request.body or None,
                headers=headers,
                allow_redirects=False,
                **options,
            )
        finally:
            _BEFORE_SEND.reset(before_send)
        if response.status == 401:
            self._connection.credentials.refused()
        return response

    def _current_context(self, credential: Credential) -> ssl.SSLContext:
        connection = self._connection
        ca = connection.ca_file.read() if connection.ca_file is not None else connection.tls.ca
        made_from = (credential.pair, ca)
        if self._context is None or self._context[0] != made_from:
            options = msgspec.structs.replace(connection.tls, ca=ca)
            self._context = made_from, client_context(options, credential.pair)
        return self._context[1]


_BEFORE_SEND: ContextVar[Callable[[], int] | None] = ContextVar("before_send", default=None)


class _Request(aiohttp.ClientRequest):
    """A request that asks again, once it has got a connection, whether to be sent at all."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        if (check := _BEFORE_SEND.get()) is not None:
            self.url = URL(limited(str(self.url), check()), encoded=True)
        return await super().send(conn)


class _Stream:
    def __init__(self, response: aiohttp.ClientResponse, base_url: str) -> None:
        self._response, self._base_url = response, base_url
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read_chunk(self) -> bytes:
        try:
            return await self._response.content.readany()
        except _FAILURES as exc:
            raise _translated(exc, self._base_url) from exc

    async def read(self) -> bytes:
        try:
            return await self._response.read()
        except _FAILURES as exc:
            raise _translated(exc, self._base_url) from exc


def _translated(error: Exception, base_url: str) -> TransportError:
    """What to raise for what aiohttp or the system raised."""
    match error:
        case ConfigError():
            return TransportError(str(error), "credentials")
        case aiohttp.ClientConnectorCertificateError():
            return TransportError(f"{base_url}: {error.certificate_error}", "tls")
        case aiohttp.ClientSSLError():
            return TransportError(f"{base_url}: {error}", "tls")
        case aiohttp.ClientConnectorError(os_error=ConnectionRefusedError()):
            return TransportError(f"{base_url}: connection refused", "refused")
        case aiohttp.ClientConnectorError():
            return TransportError(f"{base_url}: {error.os_error.strerror or error}")
        case TimeoutError():
            return TransportError(f"{base_url}: timed out", "timeout")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return TransportError(f"{base_url}: connection lost: {error}", "reset")
        case _:
            return TransportError(f"{base_url}: {error}")


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute when the other machine is gone."""
    family, kind, protocol, _, _ = address
    connecting = socket.socket(family, kind, protocol)
    connecting.setblocking(False)
    connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _PEER_GONE_MS),
    ):
        if hasattr(socket, name):
            connecting.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connecting
