"""Endless or unexpected responses of a server end in an error."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.foundation.client import http1, http_transport, request_pool
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.util.clock import RealClock

OK = b"HTTP/1.1 200 OK\r\n"
NO = b"HTTP/1.1 500 Internal Server Error\r\n"
LENGTH = b"Content-Length: 99999999999\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "with a length": (OK + LENGTH, b"x" * 5000),
    "in chunks": (OK + CHUNKED, b"1000\r\n" + b"x" * 4096 + b"\r\n"),
    "until the connection ends": (OK + b"\r\n", b"x" * 5000),
    "of a refusal": (NO + LENGTH, b"x" * 5000),
    "a byte now and then": (OK + LENGTH, b"x"),
    "lines after the last chunk": (OK + CHUNKED + b"0\r\n", b"a: b\r\n"),
    "answers that come before the answer": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@contextlib.asynccontextmanager
async def client(head: bytes, again: bytes) -> AsyncIterator[HttpApi]:
    """Return a client of a server that sends a head, and then repeats the rest endlessly."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            while not writer.is_closing():
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(0.001)
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(Connection(server=f"http://127.0.0.1:{port}"))
    try:
        yield HttpApi(transport, RealClock(), random.Random(0), qps=0)
    finally:
        await transport.close()
        server.close()
        await server.wait_closed()
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize(("head", "again"), ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("verb", ["get", "list", "bind", "watch"])
def test_answers_without_end(
    verb: str, head: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1, "LARGEST_BODY", 100_000)
    monkeypatch.setattr(http_transport, "_CHUNK", 100_000)
    monkeypatch.setattr(request_pool, "_WHOLE_S", 0.3)
    monkeypatch.setattr(http_transport, "_HEADERS_S", 0.3)
    monkeypatch.setattr("kubesched.foundation.client.api_failures._RETRIES", 0)
    monkeypatch.setattr("kubesched.foundation.client.watch_stream.LONGEST_LINE", 1_000)

    async def follow(api: HttpApi) -> None:
        async for _ in api.watch(Pod, resource_version="1"):
            pass

    verbs: dict[str, Callable[[HttpApi], Awaitable[object]]] = {
        "get": lambda api: api.get(Pod, "p", "default"),
        "list": lambda api: api.list(Pod),
        "bind": lambda api: api.bind("default", "p", "u", "n"),
        "watch": follow,
    }

    async def main() -> None:
        async with client(head, again) as api, asyncio.timeout(60):
            with pytest.raises(ApiError):
                await verbs[verb](api)

    asyncio.run(main())
