"""The HTTP client over real sockets: connections, TLS, credentials, stalls."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubesched.api import ApiError, Pod
from kubesched.foundation.client import http_api, request_pool
from kubesched.foundation.client.credentials import FileText, UserCredentials
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse, TransportError
from kubesched.foundation.util.clock import MILLISECOND, SECOND, RealClock
from tests.integration.certificates import Authority

POD = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"d"}}'
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def answer_pod(_: web.Request) -> web.StreamResponse:
    return web.Response(body=POD, content_type="application/json")


@contextlib.asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    server = web.Server(handler)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if context else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def client(connection: Connection, **options: Any) -> AsyncIterator[HttpApi]:
    api = HttpApi(
        HttpTransport(connection), RealClock(), random.Random(1), qps=-1, burst=0, **options
    )
    try:
        yield api
    finally:
        await api.close()


async def get(server: str, **connection: Any) -> Pod:
    async with client(Connection(server=server, **connection)) as api:
        return await api.get(Pod, "p", "d")


def test_connections_are_persistent_and_used_in_parallel() -> None:
    peers: set[Any] = set()
    at_once = most_at_once = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal at_once, most_at_once
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1
        return await answer_pod(request)

    async def work() -> None:
        async with serving(handler) as server, client(Connection(server=server)) as api:
            for _ in range(5):
                await api.get(Pod, "p", "d")
            assert len(peers) == 1
            await asyncio.gather(*(api.get(Pod, "p", "d") for _ in range(20)))

    asyncio.run(work())
    assert most_at_once > 10


def test_requests_have_the_expected_path_and_headers() -> None:
    seen: list[web.Request] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await answer_pod(request)

    async def work() -> None:
        async with serving(handler) as server:
            connection = Connection(
                server=f"{server}/prefix/",
                credentials=UserCredentials(token="t"),
                user_agent="me/1",
            )
            async with client(connection) as api:
                await api.list(Pod, label_selector="app in (x,y)", field_selector="a!=b")
                await api.bind("d", "p", "u", "n")

    asyncio.run(work())
    listed, bound = seen
    assert (
        listed.raw_path
        == "/prefix/api/v1/pods?labelSelector=app+in+%28x%2Cy%29&fieldSelector=a%21%3Db"
    )
    assert listed.query["labelSelector"] == "app in (x,y)"
    assert listed.headers["Authorization"] == "Bearer t"
    assert listed.headers["User-Agent"] == "me/1"
    assert listed.headers["Accept"] == "application/json"
    assert "Accept-Encoding" not in listed.headers
    assert bound.method == "POST"
    assert bound.headers["Content-Type"] == "application/json"


def test_a_server_that_is_not_there_is_an_api_error_of_code_0() -> None:
    async def work() -> None:
        async with serving(answer_pod) as server:
            gone = server
        with pytest.raises(ApiError, match="connection refused") as error:
            await get(gone)
        assert error.value.code == 0

    asyncio.run(work())


def test_a_write_whose_connection_breaks_is_not_sent_again() -> None:
    requests = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def work() -> None:
        async with serving(handler) as server, client(Connection(server=server)) as api:
            with pytest.raises(ApiError, match="connection lost") as error:
                await api.bind("d", "p", "u", "n")
            assert error.value.code == 0

    asyncio.run(work())
    assert requests == 1


def test_a_lost_write_releases_its_slot() -> None:
    go_on = asyncio.Event()
    at_once = most_at_once = 0

    async def handler(request: web.Request) -> web.StreamResponse:
        nonlocal at_once, most_at_once
        at_once += 1
        most_at_once = max(most_at_once, at_once)
        await go_on.wait()
        at_once -= 1
        return await answer_pod(request)

    async def work() -> None:
        async with serving(handler) as server:
            transport = HttpTransport(Connection(server=server), parallel=2)
            sent = [
                asyncio.create_task(transport.send(OutgoingRequest("POST", "/x"))) for _ in range(6)
            ]
            await asyncio.sleep(0.05)
            sent[0].cancel()
            with pytest.raises(TransportError) as error:
                await transport.send(OutgoingRequest("POST", "/x", timeout_ns=50 * MILLISECOND))
            assert error.value.kind == "timeout"
            go_on.set()
            answers = await asyncio.gather(*sent, return_exceptions=True)
            await transport.close()
        assert isinstance(answers[0], asyncio.CancelledError)
        assert [each.status for each in answers[1:] if isinstance(each, ServerResponse)] == [
            200
        ] * 5

    asyncio.run(work())
    # The server is still handling the abandoned request.
    assert most_at_once <= 3


def test_a_large_answer_in_chunks_is_whole() -> None:
    large = b"x" * 3_000_000

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for at in range(0, len(large), 70_000):
            await response.write(large[at : at + 70_000])
        return response

    async def work() -> None:
        async with serving(handler) as server:
            transport = HttpTransport(Connection(server=server))
            for _ in range(2):
                answer = await transport.send(OutgoingRequest("GET", "/x"))
                assert answer.body == large
            await transport.close()

    asyncio.run(work())


async def closing_server(answers: int) -> asyncio.Server:
    """Responds to a given number of requests on each connection, and closes it at the next."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def test_a_connection_that_the_server_closed_is_replaced_for_reads_only() -> None:
    async def work() -> None:
        server = await closing_server(answers=1)
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(Connection(server=f"http://127.0.0.1:{port}"))
        for _ in range(2):  # the second request finds the connection closed
            assert (await transport.send(OutgoingRequest("GET", "/x"))).body == b"ok"
        with pytest.raises(TransportError) as error:
            await transport.send(OutgoingRequest("POST", "/x"))
        assert error.value.kind == "reset"
        await transport.close()
        server.close()

    asyncio.run(work())


def test_a_write_is_not_sent_on_a_connection_that_the_server_has_closed() -> None:
    """As proxies do when they are reloaded, or find that a connection has idled for too long."""
    listening = socket.create_server(("127.0.0.1", 0))
    hung_up = [threading.Event(), threading.Event()]

    def serve() -> None:
        for event in hung_up:
            peer, _ = listening.accept()
            with peer:
                while not peer.recv(65536).endswith(b"\r\n\r\n"):
                    pass
                peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            event.set()

    async def work() -> None:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        transport = HttpTransport(Connection(server=address))
        for event in hung_up:
            assert (await transport.send(OutgoingRequest("POST", "/x"))).body == b"ok"
            event.wait(10)  # which is blocked, as under load
        await transport.close()

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with listening:
        asyncio.run(work())
        server.join(10)


def test_a_request_that_is_stopped_at_the_last_moment_is_not_sent() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.raw_path)
        return await answer_pod(request)

    class TooLateError(Exception):
        pass

    def too_late() -> int:
        raise TooLateError

    async def work() -> None:
        async with serving(handler) as server:
            transport = HttpTransport(Connection(server=server), parallel=1)
            with pytest.raises(TooLateError):
                await transport.send(OutgoingRequest("POST", "/a", before_send=too_late))
            await transport.send(OutgoingRequest("POST", "/b", before_send=lambda: 5 * SECOND))
            await transport.close()

    asyncio.run(work())
    assert seen == ["/b?timeout=5000ms"]


def test_a_rotated_token_is_used_at_once_when_the_old_one_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    accepted = "old"

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {accepted}":
            return web.Response(status=401)
        return await answer_pod(request)

    async def work() -> None:
        nonlocal accepted
        async with serving(handler) as server:
            credentials = UserCredentials(token_file=FileText(token, RealClock()))
            async with client(Connection(server=server, credentials=credentials)) as api:
                await api.get(Pod, "p", "d")
                accepted = "new"
                token.write_text("new")
                await api.bind("d", "p", "u", "n")
                accepted = "another"
                with pytest.raises(ApiError) as error:
                    await api.get(Pod, "p", "d")
                assert error.value.reason == "Unauthorized"
                token.write_text("another")
                assert [event.type async for event in api.watch(Pod, resource_version="1")] == []

    asyncio.run(work())


def event(name: str) -> bytes:
    return b'{"type":"ADDED","object":{"metadata":{"name":"%s"}}}\n' % name.encode()


def test_a_watch_delivers_while_it_is_open_and_ends_when_the_server_ends_it() -> None:
    go_on = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        first, second = event("a"), event("b")
        await response.write(first + second[:10])
        await go_on.wait()
        await response.write(second[10:])
        return response

    async def work() -> list[str]:
        names = []
        async with serving(handler) as server, client(Connection(server=server)) as api:
            async for each in api.watch(Pod, resource_version="1"):
                assert each.object is not None
                names.append(each.object.metadata.name)
                go_on.set()
        return names

    assert asyncio.run(work()) == ["a", "b"]


def test_a_watch_that_stalls_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_api, "_WATCH_SECONDS", (0, 0))
    monkeypatch.setattr(http_api, "_WATCH_GRACE_S", 0.1)
    over = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("a"))
        await over.wait()
        return response

    async def work() -> None:
        async with serving(handler) as server, client(Connection(server=server)) as api:
            watch = api.watch(Pod, resource_version="1")
            assert (await anext(watch)).type == "ADDED"
            with pytest.raises(ApiError, match="the watch stalled") as error:
                await anext(watch)
            over.set()
            assert error.value.code == 0

    asyncio.run(work())


# TLS


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"))


def try_tls(context: ssl.SSLContext, **connection: Any) -> Pod:
    async def work() -> Pod:
        async with serving(answer_pod, context) as server:
            return await get(server, **connection)

    return asyncio.run(work())


def test_a_server_with_a_certificate_of_the_configured_authority_is_trusted(
    authority: Authority,
) -> None:
    context = server_context(*authority.issue("server"))
    pod = try_tls(context, tls=TlsOptions(authority.certificate.read_bytes()))
    assert pod.metadata.name == "p"


def test_a_server_of_another_authority_is_not(authority: Authority, tmp_path: Path) -> None:
    context = server_context(*authority.issue("server"))
    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(ApiError, match="certificate verify failed") as error:
        try_tls(context, tls=TlsOptions(stranger.certificate.read_bytes()))
    assert error.value.code == 0


def test_a_server_of_another_name_is_trusted_only_under_that_name(authority: Authority) -> None:
    context = server_context(*authority.issue("named", hosts="DNS:kubernetes"))
    ca = authority.certificate.read_bytes()
    with pytest.raises(ApiError, match="IP address mismatch"):
        try_tls(context, tls=TlsOptions(ca))
    try_tls(context, tls=TlsOptions(ca, server_name="kubernetes"))


def test_an_insecure_connection_verifies_no_certificate(authority: Authority) -> None:
    context = server_context(*authority.issue("named", hosts="DNS:kubernetes"))
    try_tls(context, tls=TlsOptions(insecure=True))


def test_a_server_that_requires_a_certificate_closes_the_connection(authority: Authority) -> None:
    context = server_context(*authority.issue("server"), client_ca=authority.certificate)
    with pytest.raises(ApiError, match="connection lost") as error:
        try_tls(context, tls=TlsOptions(authority.certificate.read_bytes()))
    assert error.value.code == 0


def test_a_client_certificate_is_shown_and_replaced_when_it_is_rotated(
    authority: Authority, tmp_path: Path
) -> None:
    shown: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        shown.append(dict(part[0] for part in peer["subject"])["commonName"])
        return await answer_pod(request)

    def rotate(name: str) -> None:
        for source, path in zip(authority.issue(name), (certificate, key), strict=True):
            path.write_bytes(source.read_bytes())

    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    rotate("first")
    clock = RealClock()
    user = UserCredentials(certificate=FileText(certificate, clock), key=FileText(key, clock))
    context = server_context(*authority.issue("server"), client_ca=authority.certificate)

    async def work() -> None:
        async with serving(handler, context) as server:
            tls = TlsOptions(authority.certificate.read_bytes())
            connection = Connection(server=server, tls=tls, credentials=user)
            async with client(connection) as api:
                await api.get(Pod, "p", "d")
                rotate("second")
                user.refused()
                await api.get(Pod, "p", "d")

    asyncio.run(work())
    assert shown == ["first", "second"]


def test_an_unreachable_server_gets_few_connection_attempts() -> None:
    async def work() -> None:
        async with serving(answer_pod) as server:
            url = server
        transport = HttpTransport(Connection(server=url))
        sent = [transport.send(OutgoingRequest("POST", "/x")) for _ in range(200)]
        with counted_connects() as connects:
            answers = await asyncio.gather(*sent, return_exceptions=True)
        kinds = {each.kind for each in answers if isinstance(each, TransportError)}
        assert (len(answers), kinds) == (200, {"refused"})
        assert len(connects) <= 64  # the limit of concurrent requests
        await asyncio.sleep(0.15)
        with counted_connects() as connects, pytest.raises(TransportError):
            await transport.send(OutgoingRequest("POST", "/x"))
        assert len(connects) == 1
        await transport.close()

    asyncio.run(work())


@contextlib.contextmanager
def counted_connects() -> Iterator[list[object]]:
    """Record the connections opened within the block."""
    loop, connects = asyncio.get_running_loop(), list[object]()
    original = loop.sock_connect

    async def connect(connecting: Any, address: Any) -> None:
        connects.append(address)
        await original(connecting, address)

    loop.sock_connect = connect  # type: ignore[method-assign]
    try:
        yield connects
    finally:
        loop.sock_connect = original  # type: ignore[method-assign]


def test_an_address_that_leads_nowhere_does_not_hide_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_pool, "_NEXT_ADDRESS_S", 0.05)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        nowhere = socket.socket()
        nowhere.bind(("127.0.0.2", 0))
        nowhere.listen(0)
        waiting = [socket.socket() for _ in range(3)]  # more than it takes
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(nowhere.getsockname())
        tried: list[Any] = []

        async def two_addresses(_: str, port: int, **options: Any) -> list[Any]:
            rest = socket.AF_INET, socket.SOCK_STREAM, 0, ""
            return [(*rest, nowhere.getsockname()), (*rest, ("127.0.0.1", port))]

        async def connect(_: socket.socket, address: Any) -> None:
            tried.append(address[0])
            await original(_, address)

        async with serving(answer_pod) as server:
            original = loop.sock_connect
            monkeypatch.setattr(loop, "getaddrinfo", two_addresses)
            monkeypatch.setattr(loop, "sock_connect", connect)
            transport = HttpTransport(Connection(server=server))
            await asyncio.gather(*(transport.send(OutgoingRequest("GET", "/x")) for _ in range(2)))
            assert sorted(tried) == ["127.0.0.1"] * 2 + ["127.0.0.2"] * 2
            tried.clear()
            await asyncio.gather(*(transport.send(OutgoingRequest("GET", "/x")) for _ in range(3)))
            assert tried == ["127.0.0.1"]  # by now it has cached which address works
            await transport.close()
        for each in (nowhere, *waiting):
            each.close()

    asyncio.run(work())
