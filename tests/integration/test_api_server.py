"""The API server on real sockets of the loopback interface."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from kubesched.cluster.apiserver.http import (
    VIEWERS,
    ApiLimits,
    ApiServer,
    ApiService,
    Requester,
    Users,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.http.self_signed import self_signed_certificate
from kubesched.foundation.util.clock import RealClock

Test = Callable[[aiohttp.ClientSession, "Server"], Awaitable[None]]
PODS = "/api/v1/namespaces/default/pods"


class Server:
    """A server for one test, with short methods for requests."""

    def __init__(
        self,
        users: Users | None = None,
        limits: ApiLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.store = Store()
        self.service = ApiService(self.store, RealClock(), users=users)
        self.http = ApiServer(self.service, limits=limits, tls=tls)

    def run(self, test: Test, **session: Any) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(20),
                self.http,
                aiohttp.ClientSession(self.http.url, **session) as client,
            ):
                await test(client, self)

        asyncio.run(main())


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "pause"}]}}


async def event(response: aiohttp.ClientResponse) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(await response.content.readline())
    return line


def test_objects_are_created_read_and_watched() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async with client.get(f"{PODS}?watch=1&resourceVersion={server.store.revision}") as watch:
            assert watch.status == 200
            async with client.post(PODS, json=pod("p")) as answer:
                assert answer.status == 201
                created = await answer.json()
            assert await event(watch) == {"type": "ADDED", "object": created}
            binding = {"target": {"kind": "Node", "name": "n"}}
            async with client.post(f"{PODS}/p/binding", json=binding) as answer:
                assert answer.status == 201
            assert (await event(watch))["object"]["spec"]["nodeName"] == "n"
            async with client.delete(f"{PODS}/p?gracePeriodSeconds=0") as answer:
                assert answer.status == 200
            assert (await event(watch))["type"] == "MODIFIED"
            assert (await event(watch))["type"] == "DELETED"

    Server().run(test)


def test_a_watch_ends_when_its_time_is_over() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async with client.get("/api/v1/nodes?watch=1") as watch:
            assert await watch.content.readline() == b""

    Server(limits=ApiLimits(watch_seconds=0.01)).run(test)


def test_bookmarks_come_to_a_watch_that_allows_them() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async with client.get("/api/v1/nodes?watch=1&allowWatchBookmarks=true") as watch:
            bookmark = await event(watch)
            assert bookmark["type"] == "BOOKMARK"
            version = bookmark["object"]["metadata"]["resourceVersion"]
            assert version == str(server.store.revision)

    Server(limits=ApiLimits(bookmark_seconds=0.01)).run(test)


def test_a_watcher_that_does_not_read_is_dropped() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(server.http.url.rpartition(":")[2]), limit=1024
        )
        writer.write(b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readline()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        large = {"metadata": {"generateName": "c-"}, "data": {"a": "x" * 500_000}}
        for _ in range(40):
            url = "/api/v1/namespaces/default/configmaps"
            async with client.post(url, json=large) as answer:
                assert answer.status == 201
        while server.http.watches:  # noqa: ASYNC110  the server offers no notification
            await asyncio.sleep(0.01)
        writer.close()

    Server(limits=ApiLimits(stalled_seconds=0.05)).run(test)


MAPS = "/api/v1/namespaces/default/configmaps"


async def silent(server: Server, target: str) -> asyncio.StreamWriter:
    """Open a connection that sends a request and never reads the response."""
    tls = None
    if server.http.url.startswith("https"):
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", int(server.http.url.rpartition(":")[2])))
    reader, writer = await asyncio.open_connection(sock=raw, ssl=tls, server_hostname=tls and "x")
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readline()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    return writer


def buffered(server: Server) -> list[int]:
    """The bytes that the transports of the server's connections hold."""
    assert server.http._http is not None
    sizes = []
    for connection in server.http._http.connections:
        transport: Any = connection.transport
        if transport is not None:
            inner = getattr(transport, "_ssl_protocol", None)
            sizes.append(transport.get_write_buffer_size())
            if inner is not None:
                sizes[-1] += inner._transport.get_write_buffer_size()
    return sizes


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("query", ["", "?watch=1", "?watch=1&resourceVersion=1"])
def test_a_client_that_reads_nothing_costs_little_and_is_dropped(query: str, tls: bool) -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        resource = server.store.catalog.by_url("", "v1", "configmaps")
        for number in range(20):
            body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900_000}}
            server.store.create(resource, "default", body, 0)
        clients = [await silent(server, f"{MAPS}{query}") for _ in range(3)]
        http = server.http._http
        assert http is not None
        most = 0
        while http.open_connections:
            await asyncio.sleep(0.01)
            most = max([most, *buffered(server)])
        assert most < 400_000
        assert http.unsent.total == 0
        for each in clients:
            each.transport.abort()

    context = self_signed_certificate(["127.0.0.1"], time.time_ns()).server_context()
    limits = ApiLimits(stalled_seconds=0.2)
    Server(limits=limits, tls=context if tls else None).run(test)


def test_large_responses_together_have_a_limit() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        resource = server.store.catalog.by_url("", "v1", "configmaps")
        for number in range(20):
            body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900_000}}
            server.store.create(resource, "default", body, 0)
        first = await silent(server, MAPS)
        async with client.get(MAPS) as refused:
            assert refused.status == 429
            assert refused.headers["Retry-After"] == "1"
        async with client.get(f"{MAPS}/c0") as small:
            assert small.status == 200
        first.transport.abort()
        http = server.http._http
        assert http is not None
        while http.unsent.total:  # noqa: ASYNC110  the server offers no notification
            await asyncio.sleep(0.01)
        async with client.get(MAPS) as answer:
            assert answer.status == 200
            assert len((await answer.json())["items"]) == 20

    Server(limits=ApiLimits(unsent_bytes=20_000_000, patience_seconds=1000.0)).run(test)


def test_a_stalled_client_is_dropped_to_make_room() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        resource = server.store.catalog.by_url("", "v1", "configmaps")
        for number in range(20):
            body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900_000}}
            server.store.create(resource, "default", body, 0)
        first = await silent(server, MAPS)
        await asyncio.sleep(0.05)  # twice the patience
        async with client.get(MAPS) as answer:
            assert answer.status == 200
            assert len((await answer.json())["items"]) == 20
        first.transport.abort()

    Server(limits=ApiLimits(unsent_bytes=20_000_000, patience_seconds=0.02)).run(test)


def test_the_watch_of_a_disconnected_client_is_closed() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async with client.get("/api/v1/nodes?watch=1"):
            assert server.http.watches == 1
        while server.http.watches:  # noqa: ASYNC110  the server offers no notification
            await asyncio.sleep(0.01)

    Server().run(test)


def test_too_many_watches_are_refused() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async with (
            client.get("/api/v1/nodes?watch=1"),
            client.get("/api/v1/nodes?watch=1") as second,
        ):
            assert second.status == 429
            assert second.headers["Retry-After"] == "1"
            assert (await second.json())["reason"] == "TooManyRequests"

    Server(limits=ApiLimits(watches=1)).run(test)


def test_too_large_a_body_is_refused() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async def pieces() -> Any:
            for _ in range(10):
                yield b"x" * 200

        for body in (b"x" * 1001, pieces()):
            async with client.post(PODS, data=body) as answer:
                assert answer.status == 413
                status = await answer.json()
                assert status["message"] == "Request entity too large: limit is 1000"
                assert status["reason"] == "RequestEntityTooLarge"

    Server(limits=ApiLimits(body_bytes=1000)).run(test)


def test_a_body_that_does_not_arrive_is_not_waited_for() -> None:
    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(server.http.url.rpartition(":")[2])
        )
        writer.write(f"POST {PODS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert b" 408 " in await reader.readline()
        writer.close()

    Server(limits=ApiLimits(body_seconds=0.01)).run(test)


def test_tokens_identify_users() -> None:
    users = Users({"a": Requester("alice"), "v": Requester("victor", groups=(VIEWERS,))})

    async def test(client: aiohttp.ClientSession, server: Server) -> None:
        async def code(method: str, path: str, token: str, **body: Any) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with client.request(method, path, headers=headers, **body) as answer:
                return answer.status, await answer.json()

        assert (await code("POST", PODS, "a", json=pod("p")))[0] == 201
        assert (await code("GET", f"{PODS}/p", "v"))[0] == 200
        status, refusal = await code("DELETE", f"{PODS}/p", "v")
        assert status == 403
        assert refusal["message"] == (
            'pods "p" is forbidden: User "victor" cannot delete resource "pods" in API group "" '
            'in the namespace "default"'
        )
        assert (await code("GET", PODS, ""))[0] == 401
        assert (await code("GET", PODS, "x"))[0] == 401
        async with client.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")

    Server(users).run(test)


@pytest.mark.parametrize("path", ["/api/v1/nodes?watch=1", "/version"])
def test_no_task_or_socket_is_left_after_the_server(path: str) -> None:
    async def main() -> None:
        server = Server()
        async with server.http, aiohttp.ClientSession(server.http.url) as client:
            answer = await client.get(path)
            url = server.http.url
            before = asyncio.current_task()
        answer.close()
        async with aiohttp.ClientSession() as client:
            with pytest.raises(aiohttp.ClientConnectionError):
                await client.get(url + "/version")
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {before}

    asyncio.run(main())
