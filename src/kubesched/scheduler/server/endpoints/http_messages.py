"""A request and its answer as plain values, independent of the library on the socket.

The path of a request is decoded exactly once, here, and both the permission and the handler are
looked up by that one text. Nothing is cleaned up: `//metrics` and `/healthz/../metrics` are names
that no endpoint has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from kubesched.errors import KubeschedError

__all__ = [
    "TEXT",
    "BadRequest",
    "Handler",
    "Headers",
    "Request",
    "Response",
    "parse_target",
    "text_error",
]

TEXT = "text/plain; charset=utf-8"
_HEX = frozenset("0123456789abcdefABCDEF")


class BadRequest(KubeschedError):  # noqa: N818  the name HTTP has for it
    """A request that cannot be answered as sent."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Headers:
    """Header fields: names are matched without case, a name may occur several times."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = tuple((name.lower(), value) for name, value in fields)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The fields, with names in lower case."""
        return iter(self._fields)

    def get(self, name: str) -> str:
        """The first value; empty if there is none."""
        return next(iter(self.all(name)), "")

    def all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for field, value in self._fields if field == wanted]


async def _no_body() -> bytes:
    return b""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks."""

    method: str
    # As it stood in the request line.
    target: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Headers = Headers()
    remote: str = ""
    # The client's certificate and those that vouch for it, in DER, verified by the TLS layer.
    certificates: tuple[bytes, ...] = ()
    # Raises BadRequest for a body that is too large or too slow.
    read_body: Callable[[], Awaitable[bytes]] = _no_body

    def query_values(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]

    def has_query(self, name: str) -> bool:
        return any(key == name for key, _ in self.query)


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered."""

    status: int = 200
    body: bytes = b""
    content_type: str = TEXT
    headers: Mapping[str, str] = {}
    # Instead of a body: parts that are sent as they come, each once the one before is taken.
    stream: AsyncGenerator[bytes, None] | None = None

    def with_headers(self, **fields: str) -> Response:
        """Add fields; `Cache_Control` is written `Cache-Control`."""
        added = {name.replace("_", "-"): value for name, value in fields.items()}
        return msgspec.structs.replace(self, headers={**self.headers, **added})


Handler = Callable[[Request], Awaitable[Response]]


def parse_target(target: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Take the target of a request line apart: the decoded path and the query.

    Raises:
        BadRequest: the target is neither a path nor a URL, or has a broken escape.
    """
    if "://" in target.partition("?")[0] and not target.startswith("/"):
        # The absolute form, which proxies send.
        _, _, rest = target.partition("://")
        slash = rest.find("/")
        target = rest[slash:] if slash >= 0 else "/"
    raw_path, _, raw_query = target.partition("?")
    if not raw_path.startswith("/") and raw_path != "*":
        raise BadRequest("400 Bad Request")
    if any(character <= " " or character == "\x7f" for character in target):
        raise BadRequest("400 Bad Request")
    _check_escapes(raw_path)
    path = unquote_to_bytes(raw_path).decode("utf-8", "replace")
    # A part with a semicolon or a broken escape is no pair; the others still count.
    pairs = [part for part in raw_query.split("&") if part and ";" not in part]
    query = parse_qsl("&".join(pairs), keep_blank_values=True, errors="replace")
    return path, tuple(query)


def _check_escapes(raw_path: str) -> None:
    at = raw_path.find("%")
    while at >= 0:
        digits = raw_path[at + 1 : at + 3]
        if len(digits) != 2 or not _HEX.issuperset(digits):
            raise BadRequest("400 Bad Request")
        at = raw_path.find("%", at + 1)


def text_error(message: str, status: int) -> Response:
    """A refusal for people: the message and a line end."""
    return Response(
        status=status,
        body=f"{message}\n".encode(),
        headers={"X-Content-Type-Options": "nosniff"},
    )
