"""HTTP requests and responses as plain values, independent of the library on the socket.

The adapter decodes the path of a request exactly once. The authorization check and the search for a
handler both use the decoded text. Paths are not normalized: no endpoint matches `//metrics` or
`/healthz/../metrics`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from kubesched.errors import KubeschedError

__all__ = [
    "JSON",
    "TEXT",
    "BadRequest",
    "Handler",
    "Headers",
    "Query",
    "RawConnection",
    "Request",
    "Response",
    "UpgradedSession",
    "WebSocket",
    "WebSocketSession",
    "parse_target",
    "text_error",
]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_BROKEN_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
_CONTROL = re.compile("[\x00-\x20\x7f]")


class BadRequest(KubeschedError):  # noqa: N818  the name HTTP has for it
    """A malformed request. `status` is the status code of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Query:
    """The parameters of a query, in the order of the URL. A name may occur several times."""

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = tuple(pairs)
        self._first = dict(reversed(self._pairs))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __contains__(self, name: str) -> bool:
        return name in self._first

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter."""
        return self._first.get(name, default)

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter."""
        return [value for key, value in self._pairs if key == name]

    def flag(self, name: str) -> bool:
        """Whether a parameter is on: its value is neither `false` nor `0`, or it has none."""
        return self._first.get(name, "false").lower() not in ("false", "0")


class Headers:
    """The header fields of a message. Names match without case and may occur several times."""

    __slots__ = ("_fields", "_first")

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple([(name.lower(), value) for name, value in fields])
        self._first = dict(reversed(self._fields))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Iterate over the fields, with names in lower case."""
        return iter(self._fields)

    def get(self, name: str) -> str:
        """Return the first value of a field; an empty text if there is none."""
        return self._first.get(name.lower(), "")

    def all(self, name: str) -> list[str]:
        """Return every value of a field."""
        lower = name.lower()
        return [value for field, value in self._fields if field == lower]


async def _no_body() -> bytes:
    return b""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request that a server received."""

    method: str
    # The text of the request line between the method and the version.
    target: str
    # The path with its escapes decoded.
    path: str
    query: Query = Query()
    headers: Headers = Headers()
    # The address and port of the client.
    remote: str = ""
    # The client's certificate and its issuers in DER, verified by the TLS layer.
    certificates: tuple[bytes, ...] = ()
    has_body: bool = False
    # Reads the body from the connection. Raises BadRequest if it is too large or too slow.
    read_body: Callable[[], Awaitable[bytes]] = _no_body
    # The body, where a server reads it before it calls the handler.
    body: bytes = b""

    @property
    def raw_path(self) -> str:
        """The path with its escapes as the client sent them."""
        return _origin_form(self.target).partition("?")[0]

    @classmethod
    def of(
        cls,
        method: str,
        target: str,
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> Request:
        """Build a request whose body has been read. Raises BadRequest."""
        path, query = parse_target(target)
        fields = Headers(headers.items() if isinstance(headers, Mapping) else headers)
        return cls(method=method, target=target, path=path, query=query, headers=fields, body=body)


class WebSocket(Protocol):
    """The server's side of a WebSocket connection."""

    async def send(self, message: bytes) -> None:
        """Send a binary message."""
        ...

    async def receive(self) -> bytes | None:
        """Wait for a message; None when the client has closed the connection."""
        ...

    async def wait_closed(self) -> None:
        """Read and drop messages until the client closes the connection."""
        ...


class WebSocketSession(Protocol):
    """Handles a WebSocket connection. The server closes it when the call returns."""

    # The names of subprotocols, the preferred one first.
    protocols: tuple[str, ...]

    async def __call__(self, socket: WebSocket) -> None: ...


class RawConnection(Protocol):
    """The bytes of a connection after a request has changed its protocol."""

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the client takes none."""
        ...


class UpgradedSession(Protocol):
    """Handles a connection with another protocol. The server closes it when the call returns."""

    # The name of the protocol, and further headers of the response.
    upgrade: str
    headers: Mapping[str, str]

    async def __call__(self, connection: RawConnection) -> None: ...


class Response(msgspec.Struct, frozen=True):
    """What a handler returns."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = {}
    # Chunks that the server sends instead of a body. It requests the next chunk after the client
    # has received the previous one.
    stream: AsyncGenerator[bytes, None] | None = None
    # The session of a request for a WebSocket.
    websocket: WebSocketSession | None = None
    # The session of a request that changes the protocol of its connection.
    upgraded: UpgradedSession | None = None
    # Whether the server closes the connection afterwards, for example because of an unread body.
    closes_connection: bool = False

    def with_headers(self, **fields: str) -> Response:
        """Add fields; `Cache_Control` is written `Cache-Control`."""
        added = {name.replace("_", "-"): value for name, value in fields.items()}
        return msgspec.structs.replace(self, headers={**self.headers, **added})


Handler = Callable[[Request], Awaitable[Response]]


def parse_target(target: str) -> tuple[str, Query]:
    """Split the target of a request line into the decoded path and the query.

    Raises:
        BadRequest: the target is neither a path nor a URL, or has a broken escape.
    """
    raw_path, _, raw_query = _origin_form(target).partition("?")
    if not raw_path.startswith("/") and raw_path != "*":
        raise BadRequest("400 Bad Request")
    if _CONTROL.search(target) or _BROKEN_ESCAPE.search(raw_path):
        raise BadRequest("400 Bad Request")
    path = raw_path
    if "%" in raw_path:
        path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
    if not raw_query:
        return path, _EMPTY
    # A part with a semicolon is dropped, and the others still count, as in Go.
    pairs = [part for part in raw_query.split("&") if part and ";" not in part]
    return path, Query(parse_qsl("&".join(pairs), keep_blank_values=True, errors="replace"))


_EMPTY = Query()


def _origin_form(target: str) -> str:
    """Return a target without scheme and host, which requests through a proxy have."""
    if target.startswith("/") or "://" not in target.partition("?")[0]:
        return target
    _, _, rest = target.partition("://")
    slash = rest.find("/")
    return rest[slash:] if slash >= 0 else "/"


def text_error(message: str, status: int) -> Response:
    """Build a refusal in plain text: the message and a line end."""
    return Response(
        status=status,
        body=f"{message}\n".encode(),
        headers={"X-Content-Type-Options": "nosniff"},
    )
