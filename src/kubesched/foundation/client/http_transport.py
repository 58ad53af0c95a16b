"""The transport over sockets: a connection pool for requests, aiohttp for streams.

No type of aiohttp leaves this module. Connections stay open and are reused. Each client has its own
pool, so that the renewal of a lease never waits behind a thousand bindings.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from yarl import URL

from kubesched.errors import ConfigError
from kubesched.foundation.client.credentials import ANONYMOUS, Credential, Credentials, FileText
from kubesched.foundation.client.http1 import encode_fields, encode_request
from kubesched.foundation.client.request_pool import RequestPool, open_socket
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.tls_rotation import CaReloads, RotatingContext
from kubesched.foundation.client.transport import (
    OutgoingRequest,
    ServerResponse,
    TransportError,
    with_timeout,
)
from kubesched.foundation.util.clock import SECOND

__all__ = ["Connection", "HttpTransport"]

_CONNECT_S = 30
# Timeout for the headers of a stream.
_HEADERS_S = 90
_PARALLEL = 64
_CHUNK = 1 << 20
_PORTS = {"http": 80, "https": 443}

_FAILURES = (aiohttp.ClientError, OSError, ValueError, ConfigError)


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an API server and the credentials for it."""

    server: str  # https://host:port, perhaps with a path
    tls: TlsOptions = TlsOptions()
    ca_file: FileText | None = None  # trusted in place of the authorities of `tls`, and reread
    credentials: Credentials = ANONYMOUS
    user_agent: str = "kubesched"


class HttpTransport:
    """A pool of connections to one server. Build and close it on the loop that uses it."""

    def __init__(
        self,
        connection: Connection,
        *,
        parallel: int = _PARALLEL,
        on_ca_reload: CaReloads | None = None,
    ) -> None:
        self._connection = connection
        self.base_url = connection.server.rstrip("/")
        parts = urlsplit(self.base_url)
        self.host = parts.netloc
        self._is_tls = parts.scheme == "https"
        self._path = parts.path
        self._headers = {
            "Host": parts.netloc.rpartition("@")[2],
            "User-Agent": connection.user_agent,
            "Accept": "application/json",
        }
        # The credential of the encoded fields, which are stored by the type of the content.
        self._fields_of: Credential | None = None
        self._encoded_fields: dict[str, str] = {}
        self._tls = RotatingContext(connection.tls, connection.ca_file, on_ca_reload)
        self._parallel = parallel
        self._requests: RequestPool | None = None
        self._streams: aiohttp.ClientSession | None = None

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        try:
            if self._requests is None:
                self._requests = self._pool()
            credential = await self._connection.credentials.current()
            answer = await self._exchange(self._requests, request, credential)
            if answer.status == 401 and (fresh := await self._fresher(credential)) is not None:
                # The server executed nothing for this client, so even a write can be retried.
                answer = await self._exchange(self._requests, request, fresh)
        except _FAILURES as exc:
            raise _translated(exc, self.base_url) from exc
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: OutgoingRequest) -> AsyncIterator[_Stream]:
        if self._streams is None:
            self._streams = self._session()
        try:
            async with asyncio.timeout(_HEADERS_S):
                response = await self._open(self._streams, request)
        except _FAILURES as exc:
            raise _translated(exc, self.base_url) from exc
        try:
            yield _Stream(response, self.base_url)
        finally:
            response.close()

    async def close(self) -> None:
        pool, self._requests = self._requests, None
        if pool is not None:
            pool.close()
        session, self._streams = self._streams, None
        if session is not None:
            await session.close()

    def _pool(self) -> RequestPool:
        parts = urlsplit(self.base_url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
        if not parts.hostname or not port:
            raise ValueError("not an address of a server")
        return RequestPool(parts.hostname, port, parallel=self._parallel)

    async def _exchange(
        self, pool: RequestPool, request: OutgoingRequest, credential: Credential
    ) -> ServerResponse:
        return await pool.send(
            partial(self._encoded, request, credential),
            context=self._tls.current(credential.pair) if self._is_tls else None,
            server_name=self._connection.tls.server_name,
            timeout_s=request.timeout_ns / SECOND if request.timeout_ns else None,
            may_repeat=request.method == "GET",
        )

    def _encoded(self, request: OutgoingRequest, credential: Credential) -> bytes:
        target = self._path + request.target
        if request.before_send is not None:
            target = with_timeout(target, request.before_send())
        fields = self._fields(credential, request.content_type)
        return encode_request(request.method, target, fields, request.body)

    def _fields(self, credential: Credential, content_type: str) -> str:
        """Return the header fields of a request; they change with the credential only."""
        if credential is not self._fields_of and credential != self._fields_of:
            self._fields_of, self._encoded_fields = credential, {}
        fields = self._encoded_fields.get(content_type)
        if fields is None:
            headers = {**self._headers, **credential.headers}
            if content_type:
                headers["Content-Type"] = content_type
            fields = self._encoded_fields[content_type] = encode_fields(headers)
        return fields

    def _session(self) -> aiohttp.ClientSession:
        # Streams stay open for minutes, so they have neither a shared limit nor a timeout here.
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
            headers=self._headers,
            skip_auto_headers=["Accept-Encoding", "Content-Type"],
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=_CHUNK,
        )

    async def _open(
        self, session: aiohttp.ClientSession, request: OutgoingRequest
    ) -> aiohttp.ClientResponse:
        credential = await self._connection.credentials.current()
        response = await self._request_stream(session, request, credential)
        if response.status == 401 and (fresh := await self._fresher(credential)) is not None:
            response.close()
            response = await self._request_stream(session, request, fresh)
        return response

    async def _request_stream(
        self, session: aiohttp.ClientSession, request: OutgoingRequest, credential: Credential
    ) -> aiohttp.ClientResponse:
        options: dict[str, Any] = {}
        if self._is_tls:
            options["ssl"] = self._tls.current(credential.pair)
            options["server_hostname"] = self._connection.tls.server_name or None
        return await session.request(
            request.method,
            URL(self.base_url + request.target, encoded=True),
            headers=[*credential.headers.items(), *request.headers],
            data=request.body or None,
            allow_redirects=False,
            **options,
        )

    async def _fresher(self, refused: Credential) -> Credential | None:
        """Return newer credentials than the refused ones, if there are any."""
        self._connection.credentials.refused()
        current = await self._connection.credentials.current()
        return None if current == refused else current


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
        """Read the body of a refusal, for a limited time."""
        rest = bytearray()
        try:
            async with asyncio.timeout(_HEADERS_S):
                while len(rest) < _CHUNK and (more := await self._response.content.readany()):
                    rest += more
            return bytes(rest)
        except _FAILURES as exc:
            raise _translated(exc, self._base_url) from exc


def _translated(error: Exception, base_url: str) -> TransportError:
    """Translate an exception of aiohttp or the system to a TransportError."""
    match error:
        case ConfigError():
            return TransportError(str(error), "credentials")
        case aiohttp.ClientConnectorCertificateError():
            return TransportError(f"{base_url}: {error.certificate_error}", "tls")
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return TransportError(f"{base_url}: {error}", "tls")
        case (
            aiohttp.ClientConnectorError(os_error=ConnectionRefusedError())
            | ConnectionRefusedError()
        ):
            return TransportError(f"{base_url}: connection refused", "refused")
        case aiohttp.ClientConnectorError():
            return TransportError(f"{base_url}: {error.os_error.strerror or error}")
        case TimeoutError():
            return TransportError(f"{base_url}: timed out", "timeout")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return TransportError(f"{base_url}: connection lost: {error}", "reset")
        case OSError(strerror=str() as text):
            return TransportError(f"{base_url}: {text}")
        case _:
            return TransportError(f"{base_url}: {error}")


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    return open_socket(family, kind, protocol)
