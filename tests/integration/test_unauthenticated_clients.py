"""Unauthenticated clients cost the server little, and authenticated ones are still served."""

from __future__ import annotations

import asyncio
import gzip
import random
import ssl
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.users import ADMIN, Users
from kubesched.foundation.http.self_signed import self_signed_certificate
from kubesched.foundation.util.clock import RealClock

TOKEN = {"Authorization": "Bearer secret"}


def run_with_server(
    scenario: Callable[[ApiServer, str, int], Awaitable[None]],
    limits: ApiLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> None:
    async def main() -> None:
        clock = RealClock()
        store = Store(random.Random(0), now_ns=clock.now_ns())
        service = ApiService(store, clock, users=Users({"secret": ADMIN}))
        async with ApiServer(service, limits=limits, tls=tls) as server:
            host, _, port = server.url.partition("://")[2].rpartition(":")
            await scenario(server, host, int(port))

    asyncio.run(main())


async def is_served(url: str) -> bool:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/v1/nodes", headers=TOKEN) as answer,
    ):
        return answer.status == 200


def test_the_body_of_an_unauthenticated_request_is_not_awaited() -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        # Two megabytes are announced, and none is sent.
        writer.write(b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), 60)
        assert b" 401 " in line
        rest = await asyncio.wait_for(reader.read(), 60)
        assert b"connection: close" in rest.lower()
        writer.close()
        assert await is_served(server.url)

    run_with_server(scenario)


def test_a_silent_client_is_disconnected() -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        silent = [await asyncio.open_connection(host, port) for _ in range(5)]
        silent[1][1].write(b"GET /api/v1/nodes HTT")
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
        assert await is_served(server.url)

    run_with_server(scenario, ApiLimits(header_seconds=0.2))


def test_a_client_without_a_handshake_is_disconnected() -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()

    pair = self_signed_certificate(["localhost"], RealClock().now_ns(), key_type="ec")
    tls = pair.server_context()
    run_with_server(scenario, ApiLimits(header_seconds=0.2, handshake_seconds=0.2), tls)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /api?" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET /api HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /api HTTP/1.1\r\n" + b"X: y\r\n" * 500 + b"\r\n", 400),
        (b"GET /api HTTP/1.1\r\nno header\r\n\r\n", 400),
    ],
    ids=["line", "header", "headers", "no header"],
)
def test_malformed_requests_are_not_logged(
    request_line: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request_line)
        line = await asyncio.wait_for(reader.readline(), 60)
        assert line.split()[1] == str(status).encode()
        assert await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert await is_served(server.url)

    run_with_server(scenario)
    assert caplog.text == ""


def test_connections_are_limited_and_closed_ones_are_replaced() -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        waiting = [await asyncio.open_connection(host, port) for _ in range(3)]
        reader, writer = await asyncio.open_connection(host, port)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        for _, other in waiting:
            other.close()
            await other.wait_closed()
        async with asyncio.timeout(60):
            while True:
                try:
                    if await is_served(server.url):
                        return
                except aiohttp.ClientError:
                    await asyncio.sleep(0)

    run_with_server(scenario, ApiLimits(connections=3))


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"Authorization: Bearer \xff\xfe\r\nContent-Length: 4", 401),
        (b"Content-Encoding: gzip\r\nContent-Length: 4", 401),
        (b"Authorization: Bearer secret\r\nContent-Encoding: gzip\r\nContent-Length: 4", 400),
    ],
)
def test_invalid_bytes_are_refused_without_an_exception(head: bytes, status: int) -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\nnope")
        line = await asyncio.wait_for(reader.readline(), 60)
        writer.close()
        assert line.split()[1] == str(status).encode()
        assert await is_served(server.url)

    run_with_server(scenario)


BOMB = gzip.compress(b"[" * 100_000_000, 9)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(b'{"metadata":{"name":"n"}}'), 201),
        (gzip.compress(b'{"metadata":{"name":"n"}}')[:-9], 400),
        (BOMB, 413),
    ],
    ids=["small", "cut off", "large once it is unpacked"],
)
def test_compressed_bodies(body: bytes, status: int) -> None:
    async def scenario(server: ApiServer, host: str, port: int) -> None:
        headers = {**TOKEN, "Content-Encoding": "gzip", "Content-Type": "application/json"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/api/v1/nodes", data=body, headers=headers) as answer,
        ):
            assert answer.status == status
        assert await is_served(server.url)

    run_with_server(scenario)
