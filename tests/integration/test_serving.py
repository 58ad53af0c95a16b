"""The endpoints on real sockets: TLS, credentials, and clients that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from kubesched.foundation.http.http_server import HttpLimits
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from kubesched.scheduler.server.serving import secure_server
from kubesched.scheduler.server.serving.listener import ServingError
from kubesched.scheduler.server.serving.secure_server import SchedulerServer
from tests.scheduler.server.serving_harness import (
    ADMIN,
    METRICS_READER,
    Authority,
    Credentials,
    ServingHarness,
)

ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE

PATHS = (
    "/healthz",
    "/livez",
    "/readyz",
    "/healthz/leaderElection",
    "/livez/ping",
    "/readyz/shutdown",
    "/metrics",
    "/metrics/slis",
    "/metrics/resources",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/pprof",
    "/debug/pprof/",
    "/debug/pprof/goroutine",
    "/debug/flags",
    "/debug/flags/v",
    "/nope",
)
OPEN_TO_ALL = ("/healthz", "/livez", "/readyz")


class Live:
    """A running server and a client for it."""

    def __init__(self, harness: ServingHarness, server: SchedulerServer) -> None:
        self.harness, self.server = harness, server
        self.base = f"https://127.0.0.1:{server.port}"

    async def get(
        self,
        path: str,
        *,
        token: str = "",
        method: str = "GET",
        tls: ssl.SSLContext = ANY_CERTIFICATE,
        data: bytes | None = None,
        **headers: str,
    ) -> tuple[int, bytes, dict[str, str]]:
        fields = {"Accept-Encoding": "identity"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            fields["Authorization"] = f"Bearer {token}"
        connector = aiohttp.TCPConnector(ssl=tls, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.request(
                method, self.base + path, headers=fields, data=data, allow_redirects=False
            ) as answer,
        ):
            return answer.status, await answer.read(), dict(answer.headers)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port, ssl=ANY_CERTIFICATE)

    async def say(self, text: bytes) -> bytes:
        """Send raw bytes; return the response until the connection closes."""
        reader, writer = await self.raw()
        try:
            writer.write(text)
            await writer.drain()
            return await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(*flags: str) -> AsyncIterator[Live]:
    harness = ServingHarness(RealClock(), "--bind-address=127.0.0.1", "--secure-port=0", *flags)
    server = SchedulerServer(
        harness.options.secure_serving,
        harness.access,
        harness.pages,
        harness.metrics,
        harness.clock,
    )
    await server.start()
    async with running(server):
        await asyncio.sleep(0)
        yield Live(harness, server)


def live(steps: Callable[[Live], Awaitable[None]], *flags: str) -> None:
    async def main() -> None:
        async with serving(*flags) as server:
            await steps(server)

    asyncio.run(main())


def test_probes_are_open_and_everything_else_is_not() -> None:
    async def steps(server: Live) -> None:
        for path in PATHS:
            status, body, headers = await server.get(path)
            if path in OPEN_TO_ALL:
                assert (status, body) == (200, b"ok"), path
            else:
                assert status == 403, path
                message = f'forbidden: User "system:anonymous" cannot get path "{path}"'
                assert json.loads(body)["message"] == message
            assert headers["Cache-Control"] == "no-cache, private"

    live(steps)


def test_a_wrong_token_is_refused_everywhere() -> None:
    async def steps(server: Live) -> None:
        for path in PATHS:
            status, body, _ = await server.get(path, token="wrong")
            assert (status, json.loads(body)["reason"]) == (401, "Unauthorized"), path

    live(steps)


def test_an_admin_reads_everything() -> None:
    async def steps(server: Live) -> None:
        expected = {"/debug/pprof": 302, "/debug/flags/v": 406, "/nope": 404}
        for path in PATHS:
            status, _, _ = await server.get(path, token=ADMIN)
            assert status == expected.get(path, 200), path

    live(steps)


def test_metrics_and_configz_need_their_own_permissions() -> None:
    async def steps(server: Live) -> None:
        status, body, headers = await server.get("/metrics", token=METRICS_READER)
        assert status == 200
        assert b'scheduler_pending_pods{queue="active"} 0' in body
        assert headers["Content-Type"] == (
            "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
        )
        assert int(headers["Process-Start-Time-Unix"]) > 1_600_000_000
        for path in ("/configz", "/metrics/resources", "/metrics/", "//metrics"):
            assert (await server.get(path, token=METRICS_READER))[0] == 403, path
        assert (await server.get("/metrics", token=METRICS_READER, method="DELETE"))[0] == 403

    live(steps)


TRICKS = (
    b"/healthz/../metrics",
    b"/healthz/%2e%2e/metrics",
    b"/healthz%2f..%2fmetrics",
    b"//metrics",
    b"/./metrics",
    b"/metrics/",
    b"/metrics%00",
    b"/healthz%00/../metrics",
    b"/%6detrics",
    b"/healthz;/metrics",
    b"/healthz#/metrics",
    b"/healthz\\..\\metrics",
    b"https://localhost/metrics",
)


@pytest.mark.parametrize("target", TRICKS, ids=lambda each: each.decode())
def test_no_spelling_of_a_path_opens_metrics(target: bytes) -> None:
    async def steps(server: Live) -> None:
        answer = await server.say(
            b"GET " + target + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert b"scheduler_" not in answer
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), answer

    live(steps)


BROKEN = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "no version": b"GET /healthz\r\n\r\n",
    "a bad escape": b"GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "a space in a header name": b"GET /healthz HTTP/1.1\r\nHo st: x\r\n\r\n",
    "two lengths": (
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"
    ),
    "length and chunks": (
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "a header of one letter and no colon": b"GET /healthz HTTP/1.1\r\nx\r\n\r\n",
    "a negative length": b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_broken_requests_are_refused_and_the_server_continues(text: bytes) -> None:
    async def steps(server: Live) -> None:
        answer = await server.say(text)
        assert b" 400 " in answer.partition(b"\r\n")[0]
        assert b"Traceback" not in answer
        assert (await server.get("/healthz"))[0] == 200

    live(steps)


def test_oversized_headers_are_refused() -> None:
    async def steps(server: Live) -> None:
        for head in (
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Large: " + b"a" * 70_000,
            b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x",
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"\r\n".join([b"X-Many: a"] * 2000),
        ):
            answer = await server.say(head + b"\r\n\r\n")
            assert answer[:13] in (
                b"HTTP/1.1 431 ",
                b"HTTP/1.1 400 ",
                b"HTTP/1.0 431 ",
                b"HTTP/1.0 400 ",
            ), answer[:80]
        assert (await server.get("/healthz"))[0] == 200

    live(steps)


def test_an_oversized_body_is_refused_unread() -> None:
    async def steps(server: Live) -> None:
        status, _, _ = await server.get(
            "/debug/flags/v", token=ADMIN, method="PUT", data=b"1" * 200_000
        )
        assert status == 413
        assert server.harness.verbosity == []
        status, body, _ = await server.get("/debug/flags/v", token=ADMIN, method="PUT", data=b"5")
        assert (status, body) == (200, b"successfully set klog.logging.verbosity to 5\n")
        assert server.harness.verbosity == [5]

    live(steps)


def test_a_client_that_never_finishes_its_request_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secure_server, "HTTP_LIMITS", HttpLimits(header_seconds=0.2))

    async def steps(server: Live) -> None:
        reader, writer = await server.raw()
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        await writer.drain()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        assert (await server.get("/healthz"))[0] == 200

    live(steps)


def test_a_client_that_sends_its_body_too_slowly_gets_a_timeout_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = HttpLimits(body_seconds=0.2, lingering_seconds=0.1)
    monkeypatch.setattr(secure_server, "HTTP_LIMITS", limits)

    async def steps(server: Live) -> None:
        answer = await server.say(
            b"PUT /debug/flags/v HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
            b"Authorization: Bearer " + ADMIN.encode() + b"\r\n\r\n1"
        )
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert server.harness.verbosity == []

    live(steps)


def test_head_has_no_body_and_gzip_is_supported() -> None:
    async def steps(server: Live) -> None:
        assert (await server.get("/healthz", method="HEAD"))[:2] == (200, b"")
        _, body, headers = await server.get("/metrics", token=ADMIN, Accept_Encoding="gzip")
        assert headers["Content-Encoding"] == "gzip"
        assert body[:2] == b"\x1f\x8b"

    live(steps)


# -- certificates ----------------------------------------------------------------------


def client_context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with tempfile.TemporaryDirectory() as folder:
        cert, key = Path(folder) / "crt", Path(folder) / "key"
        cert.write_bytes(credentials.certificate)
        key.write_bytes(credentials.key)
        context.load_cert_chain(cert, key)
    return context


def test_client_certificates_identify_and_unknown_authorities_do_not(tmp_path: Path) -> None:
    clients, strangers = Authority("clients"), Authority("strangers")
    (tmp_path / "ca.crt").write_bytes(clients.pem)

    async def steps(server: Live) -> None:
        master = client_context(clients.issue("root", "system:masters"))
        assert (await server.get("/configz", tls=master))[0] == 200
        reader = client_context(clients.issue("reader"))
        assert (await server.get("/metrics", tls=reader))[0] == 200
        status, body, _ = await server.get("/configz", tls=reader)
        assert (status, json.loads(body)["message"]) == (
            403,
            'forbidden: User "reader" cannot get path "/configz"',
        )
        stranger = client_context(strangers.issue("root", "system:masters"))
        with pytest.raises((aiohttp.ClientError, OSError)):
            await server.get("/configz", tls=stranger)
        serving_certificate = client_context(clients.issue("root", "system:masters", server=True))
        with pytest.raises((aiohttp.ClientError, OSError)):
            await server.get("/configz", tls=serving_certificate)
        assert (await server.get("/healthz"))[0] == 200

    live(steps, f"--client-ca-file={tmp_path / 'ca.crt'}")


def test_rotated_authorities_are_taken_over_while_running(tmp_path: Path) -> None:
    old, new = Authority("old"), Authority("new")
    file = tmp_path / "ca.crt"
    file.write_bytes(old.pem)
    before = client_context(old.issue("root", "system:masters"))
    after = client_context(new.issue("root", "system:masters"))

    async def steps(server: Live) -> None:
        assert (await server.get("/configz", tls=before))[0] == 200
        file.write_bytes(new.pem)
        server.harness.access.authorities._poll_files()
        assert (await server.get("/configz", tls=after))[0] == 200
        with pytest.raises((aiohttp.ClientError, OSError)):
            await server.get("/configz", tls=before)

    live(steps, f"--client-ca-file={file}")


def test_a_serving_certificate_is_replaced_while_running(tmp_path: Path) -> None:
    authority = Authority()
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def install(name: str) -> None:
        credentials = authority.issue(name, server=True, dns_name=name)
        cert.write_bytes(credentials.certificate)
        key.write_bytes(credentials.key)

    install("first.example")

    async def served(server: Live) -> bytes:
        _, writer = await server.raw()
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def steps(server: Live) -> None:
        assert b"first.example" in await served(server)
        cert.write_bytes(b"half written")
        server.server._tls.poll()
        assert b"first.example" in await served(server)
        install("second.example")
        server.server._tls.poll()
        assert b"second.example" in await served(server)

    live(steps, f"--tls-cert-file={cert}", f"--tls-private-key-file={key}")


def test_tls_versions_below_the_minimum_are_refused() -> None:
    async def steps(server: Live) -> None:
        old = ssl.create_default_context()
        old.check_hostname = False
        old.verify_mode = ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((aiohttp.ClientError, OSError)):
            await server.get("/healthz", tls=old)
        assert (await server.get("/healthz"))[0] == 200

    live(steps, "--tls-min-version=VersionTLS13")


def test_cipher_suites_limit_what_is_negotiated() -> None:
    async def steps(server: Live) -> None:
        old = ssl.create_default_context()
        old.check_hostname = False
        old.verify_mode = ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        _, writer = await asyncio.open_connection("127.0.0.1", server.server.port, ssl=old)
        assert writer.get_extra_info("cipher")[0] == "ECDHE-RSA-AES256-GCM-SHA384"
        writer.close()

    live(steps, "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")


def test_a_port_in_use_is_found_out_at_the_start() -> None:
    async def steps(server: Live) -> None:
        port = server.server.port
        other = ServingHarness(RealClock(), "--bind-address=127.0.0.1", f"--secure-port={port}")
        second = SchedulerServer(
            other.options.secure_serving, other.access, other.pages, other.metrics, other.clock
        )
        with pytest.raises(ServingError, match=f"failed to listen on 127.0.0.1:{port}: .*in use"):
            await second.start()

    live(steps)


def test_all_interfaces_means_both_families() -> None:
    async def main() -> None:
        harness = ServingHarness(RealClock(), "--secure-port=0")
        server = SchedulerServer(
            harness.options.secure_serving,
            harness.access,
            harness.pages,
            harness.metrics,
            harness.clock,
        )
        await server.start()
        async with running(server):
            await asyncio.sleep(0)
            assert (await Live(harness, server).get("/livez"))[1] == b"ok"

    asyncio.run(main())


def test_requests_under_way_are_finished_before_the_server_ends() -> None:
    async def main() -> None:
        entered, go_on = asyncio.Event(), asyncio.Event()
        async with serving() as server:
            original = server.harness.api.create

            async def slow(new: object) -> object:
                entered.set()
                await go_on.wait()
                return await original(new)

            server.harness.api.create = slow  # type: ignore[method-assign]
            asking = asyncio.create_task(server.get("/metrics", token=METRICS_READER))
            await entered.wait()
            server.server.stop()
            await asyncio.sleep(0)
            go_on.set()
            assert (await asking)[0] == 200

    asyncio.run(main())


def test_bytes_that_are_no_text_are_wrong_credentials() -> None:
    async def steps(server: Live) -> None:
        answer = await server.say(
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Authorization: Bearer \xff\xfe\r\n\r\n"
        )
        assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), answer
        answer = await server.say(b"GET /\xff HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ", b"HTTP/1.0 400 ")), answer

    live(steps)


def test_many_silent_clients_do_not_block_other_clients() -> None:
    async def steps(server: Live) -> None:
        silent = [await server.raw() for _ in range(40)]
        assert (await server.get("/healthz"))[0] == 200
        for _, writer in silent:
            writer.close()

    live(steps)


def test_more_connections_than_there_may_be_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_server, "HTTP_LIMITS", HttpLimits(connections=5))

    async def steps(server: Live) -> None:
        opened = [await server.raw() for _ in range(5)]
        reader, writer = await server.raw()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        for _, kept in opened:
            kept.close()
        for _ in range(3000):
            await asyncio.sleep(0.01)
            with contextlib.suppress(aiohttp.ClientError):
                if (await server.get("/healthz"))[0] == 200:
                    return
        raise AssertionError("those who left still count")

    live(steps)
