"""A transport that replays recordings of a real API server and stores the requests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from kubesched.foundation.client.transport import (
    OutgoingRequest,
    ResponseStream,
    ServerResponse,
    TransportError,
    with_timeout,
)


def load(goldens: Path) -> dict[str, dict[str, Any]]:
    """The recorded exchanges by name."""
    with (goldens / "wire.jsonl").open() as lines:
        return {exchange["name"]: exchange for exchange in map(json.loads, lines)}


def body_of(recorded: Any) -> bytes:
    return recorded.encode() if isinstance(recorded, str) else json.dumps(recorded).encode()


def answer(exchange: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ServerResponse:
    response = exchange["response"]
    return ServerResponse(response["status"], body_of(response.get("body")), headers or {})


def stream(exchange: Mapping[str, Any], pieces: int = 1) -> FakeStream:
    """A watch as recorded, cut into pieces at arbitrary places."""
    response = exchange["response"]
    if response["status"] != 200:
        return FakeStream([body_of(response["events"])], response["status"])
    text = b"".join(json.dumps(event).encode() + b"\n" for event in response["events"])
    size = max(1, len(text) // pieces)
    return FakeStream([text[i : i + size] for i in range(0, len(text), size)])


def query(target: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}


def path(target: str) -> str:
    return urlsplit(target).path


class FakeStream:
    def __init__(self, chunks: Iterable[bytes | TransportError], status: int = 200) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._chunks = list(chunks)

    async def read_chunk(self) -> bytes:
        if not self._chunks:
            return b""
        chunk = self._chunks.pop(0)
        if isinstance(chunk, TransportError):
            raise chunk
        return chunk

    async def read(self) -> bytes:
        return b"".join(chunk for chunk in self._chunks if isinstance(chunk, bytes))


class RecordedTransport:
    """Returns the given responses in order."""

    host = "recorded:6443"
    base_url = "https://recorded:6443"

    def __init__(self, *answers: ServerResponse | FakeStream | TransportError) -> None:
        self._answers = list(answers)
        self.requests: list[OutgoingRequest] = []
        self.open_streams = 0

    @property
    def last(self) -> OutgoingRequest:
        return self.requests[-1]

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        given = self._next(request)
        assert isinstance(given, ServerResponse)
        return given

    @contextlib.asynccontextmanager
    async def stream(self, request: OutgoingRequest) -> AsyncIterator[ResponseStream]:
        given = self._next(request)
        assert isinstance(given, FakeStream)
        self.open_streams += 1
        try:
            yield given
        finally:
            self.open_streams -= 1

    async def close(self) -> None:
        pass

    def _next(self, request: OutgoingRequest) -> ServerResponse | FakeStream:
        if request.before_send is not None:
            target = with_timeout(request.target, request.before_send())
            request = msgspec.structs.replace(request, target=target)
        self.requests.append(request)
        given = self._answers.pop(0)
        if isinstance(given, TransportError):
            raise given
        return given
