"""The transport protocol of the client: send a request, or open a stream.

`HttpApi` uses this protocol and has no sockets. A transport has no rules of Kubernetes. It raises a
`TransportError` for every failure of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import MILLISECOND

__all__ = [
    "FailureKind",
    "OutgoingRequest",
    "ResponseStream",
    "ServerResponse",
    "Transport",
    "TransportError",
    "with_timeout",
]

FailureKind = Literal["refused", "reset", "timeout", "credentials", "tls", "other"]


class TransportError(KubeschedError):
    """A request has no response. `kind` is the cause, as far as callers distinguish causes.

    `refused` means that nothing was sent. After `reset` and `timeout` the server may have executed
    the request.
    """

    def __init__(self, message: str, kind: FailureKind = "other") -> None:
        super().__init__(message)
        self.kind = kind


class OutgoingRequest(msgspec.Struct, frozen=True):
    """A request of a client.

    The target is an encoded path and query. A timeout of 0 means no timeout.

    The transport calls `before_send` when it has a connection, right before it sends. The result is
    the time in nanoseconds within which the server must execute the request; it is sent along. If
    `before_send` raises, nothing is sent, and `send` raises the exception.
    """

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    timeout_ns: int = 0
    before_send: Callable[[], int] | None = None
    # Further headers; only streams send them.
    headers: tuple[tuple[str, str], ...] = ()


def with_timeout(target: str, limit_ns: int) -> str:
    """Return the target with the parameter that limits the execution on an API server."""
    mark = "&" if "?" in target else "?"
    return f"{target}{mark}timeout={max(1, limit_ns // MILLISECOND)}ms"


class ServerResponse(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class ResponseStream(Protocol):
    """A response that is streamed. If its status is not 200, `read` returns the whole body."""

    status: int
    headers: Mapping[str, str]

    async def read_chunk(self) -> bytes:
        """Wait for bytes and return them; empty when the server has ended the stream."""
        ...

    async def read(self) -> bytes: ...


class Transport(Protocol):
    @property
    def host(self) -> str:
        """The server's host and port, for metrics and messages."""
        ...

    @property
    def base_url(self) -> str:
        """The URL in front of targets, for messages."""
        ...

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        """Raises TransportError."""
        ...

    def stream(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ResponseStream]:
        """Raises TransportError when entered, and while read."""
        ...

    async def close(self) -> None: ...
