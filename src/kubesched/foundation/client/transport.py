"""What a client needs of HTTP: send a request, or open a stream.

`HttpApi` speaks to this protocol, and knows nothing of sockets. A transport knows nothing of
Kubernetes but the paths it is given; whatever the network does to it comes out as a
`TransportError`.
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
    """There is no answer. `kind` says why, as far as callers treat causes differently.

    `refused` means that nothing was sent; after `reset` and `timeout` the server may or may not
    have done what was asked.
    """

    def __init__(self, message: str, kind: FailureKind = "other") -> None:
        super().__init__(message)
        self.kind = kind


class OutgoingRequest(msgspec.Struct, frozen=True):
    """One HTTP request. The target is a path with its query, encoded; timeouts of 0 are none.

    `before_send` is called when there is a connection and nothing but sending is left to do. It
    says for how many nanoseconds from then on the server may go on with the request, which is
    told to the server; what it raises comes out of `send` as it is, and nothing is sent.
    """

    method: str
    target: str
    body: bytes = b""
    content_type: str = ""
    timeout_ns: int = 0
    before_send: Callable[[], int] | None = None


def with_timeout(target: str, limit_ns: int) -> str:
    """The target with the parameter by which API servers know when to give up a request."""
    mark = "&" if "?" in target else "?"
    return f"{target}{mark}timeout={max(1, limit_ns // MILLISECOND)}ms"


class ServerResponse(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class ResponseStream(Protocol):
    """An answer that goes on. If its status is not 200, `read` has the whole body."""

    status: int
    headers: Mapping[str, str]

    async def read_chunk(self) -> bytes:
        """What has arrived, as soon as something has; empty when the server ended the stream."""
        ...

    async def read(self) -> bytes: ...


class Transport(Protocol):
    @property
    def host(self) -> str:
        """The server's host and port, for metrics and messages."""
        ...

    @property
    def base_url(self) -> str:
        """What targets are put behind, for messages."""
        ...

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        """Raises TransportError."""
        ...

    def stream(self, request: OutgoingRequest) -> AbstractAsyncContextManager[ResponseStream]:
        """Raises TransportError when entered, and while read."""
        ...

    async def close(self) -> None: ...
