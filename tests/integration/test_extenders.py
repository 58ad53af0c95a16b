"""Extenders over real sockets: TLS, and `kubesched run` as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.errors import ConfigError
from kubesched.foundation.client.extender_client import ExtenderClient, ExtenderError
from kubesched.foundation.util.clock import MILLISECOND, SECOND
from kubesched.scheduler.config.types import ExtenderConfig, ExtenderTLSConfig
from kubesched.scheduler.extenders.extender_building import build_extenders, connect
from kubesched.testing import make_pod
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply, keep_nodes, score_nodes
from tests.integration.certificates import Authority
from tests.integration.scheduler_cluster import Cluster, ended, run_steps

Json = dict[str, Any]


async def asked(settings: ExtenderConfig, timeout_ns: int = 5 * SECOND) -> Any:
    """Return the extender's response to a request without nodes."""
    client = ExtenderClient(settings.url_prefix, connect(settings), timeout_ns)
    try:
        return json.loads(await client.post("filter", b"{}"))
    finally:
        await client.close()


class Trust(NamedTuple):
    """A way to be configured for TLS, and whether it works."""

    tls: Callable[[Path], ExtenderTLSConfig | None]
    enable_https: bool = False
    works: bool = True


TRUST = {
    "the authority is in a file": Trust(lambda ca: ExtenderTLSConfig(ca_file=str(ca))),
    "the authority is in the configuration": Trust(
        lambda ca: ExtenderTLSConfig(ca_data=ca.read_bytes())
    ),
    "data wins over a file": Trust(
        lambda ca: ExtenderTLSConfig(ca_data=ca.read_bytes(), ca_file=str(ca.parent / "absent"))
    ),
    "anyone is trusted": Trust(lambda _: ExtenderTLSConfig(insecure=True)),
    "HTTPS without an authority trusts anyone": Trust(lambda _: None, enable_https=True),
    "HTTPS with an authority trusts that one": Trust(
        lambda ca: ExtenderTLSConfig(ca_file=str(ca)), enable_https=True
    ),
    "without a word the system's authorities are trusted": Trust(lambda _: None, works=False),
    "the certificate is for another name": Trust(
        lambda ca: ExtenderTLSConfig(ca_file=str(ca), server_name="other.example"), works=False
    ),
}


@pytest.mark.parametrize("trust", TRUST.values(), ids=TRUST)
def test_extender_tls_settings_decide_which_servers_are_trusted(
    trust: Trust, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))

    async def steps() -> None:
        async with FakeExtender(tls=context, filter=lambda _: {"NodeNames": []}) as extender:
            settings = extender.settings(
                tls_config=trust.tls(authority.certificate), enable_https=trust.enable_https
            )
            if trust.works:
                assert await asked(settings) == {"NodeNames": []}
            else:
                with pytest.raises(ExtenderError, match=r"^Post .*: tls: failed to verify"):
                    await asked(settings)

    asyncio.run(steps())


def test_the_expected_tls_server_name_can_be_configured(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server", hosts="DNS:extender.example"))

    async def steps() -> None:
        async with FakeExtender(tls=context, filter=lambda _: {}) as extender:
            tls = ExtenderTLSConfig(
                ca_file=str(authority.certificate), server_name="extender.example"
            )
            assert await asked(extender.settings(tls_config=tls)) == {}

    asyncio.run(steps())


@pytest.mark.parametrize("from_files", [True, False])
def test_the_client_presents_its_certificate(tmp_path: Path, from_files: bool) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    certificate, key = authority.issue("scheduler")

    async def steps() -> None:
        async with FakeExtender(tls=context, filter=lambda _: {}) as extender:
            ca = {"ca_file": str(authority.certificate)}
            pair: Json = {"cert_data": certificate.read_bytes(), "key_data": key.read_bytes()}
            if from_files:
                pair = {"cert_file": str(certificate), "key_file": str(key)}
            tls = ExtenderTLSConfig(**ca, **pair)
            assert await asked(extender.settings(tls_config=tls)) == {}
            with pytest.raises(ExtenderError):
                await asked(extender.settings(tls_config=ExtenderTLSConfig(**ca)))

    asyncio.run(steps())


BROKEN = {
    "an authority, and no need of one": (
        ExtenderTLSConfig(insecure=True, ca_data=b"x"),
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    "a file that is not there": (
        ExtenderTLSConfig(ca_file="/does/not/exist"),
        "open /does/not/exist: no such file or directory",
    ),
    "an authority that is none": (
        ExtenderTLSConfig(ca_data=b"x"),
        "unable to load root certificates: unable to parse bytes as PEM block",
    ),
    "an authority in a missing file, and no need of one": (
        ExtenderTLSConfig(insecure=True, ca_file="/does/not/exist"),
        "specifying a root certificates file with the insecure flag is not allowed",
    ),
    "a certificate that is none": (
        ExtenderTLSConfig(cert_data=b"x", key_data=b"y"),
        "tls: failed to find any PEM data in certificate input",
    ),
}


@pytest.mark.parametrize(("tls", "why"), BROKEN.values(), ids=BROKEN)
def test_unusable_extender_certificates_are_reported_at_the_start(
    tls: ExtenderTLSConfig, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        build_extenders([ExtenderConfig(url_prefix="https://x", tls_config=tls)])
    assert str(caught.value).startswith(f"couldn't build extenders: {why}")


class TestFailures:
    def test_no_process_listens(self) -> None:
        async def steps() -> None:
            async with FakeExtender() as extender:
                settings = extender.settings()
            address = settings.url_prefix.removeprefix("http://")
            with pytest.raises(ExtenderError) as caught:
                await asked(settings)
            assert str(caught.value) == (
                f'Post "http://{address}/filter": dial tcp {address}: connect: connection refused'
            )

        asyncio.run(steps())

    def test_no_answer_in_time(self) -> None:
        async def steps() -> None:
            async def never(_: Json) -> Json:
                await asyncio.Event().wait()
                return {}

            async with FakeExtender(filter=never) as extender:
                with pytest.raises(ExtenderError, match=r"Client\.Timeout exceeded"):
                    await asked(extender.settings(), timeout_ns=50 * MILLISECOND)

        asyncio.run(steps())

    def test_the_connection_is_closed_without_an_answer(self) -> None:
        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        async def steps() -> None:
            server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                settings = ExtenderConfig(url_prefix=f"http://127.0.0.1:{port}")
                with pytest.raises(ExtenderError, match=r"EOF$"):
                    await asked(settings)

        asyncio.run(steps())

    def test_a_refusal(self) -> None:
        async def steps() -> None:
            async with FakeExtender(filter=lambda _: Reply(418)) as extender:
                with pytest.raises(ExtenderError, match=r"^failed filter with .*, code 418$"):
                    await asked(extender.settings("/path//"))

        asyncio.run(steps())


RAW_ANSWERS = {
    "of known length": b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + b'{"NodeNames":[]}',
    "in chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5\r\n{"Nod\r\nb\r\neNames":[]}\r\n0\r\n\r\n'
    ),
    "that ends with the connection": b'HTTP/1.0 200 OK\r\n\r\n{"NodeNames":[]}',
    "of an old server with a length": (
        b'HTTP/1.0 200 OK\r\nServer: BaseHTTP/0.6\r\ncontent-length: 16\r\n\r\n{"NodeNames":[]}'
    ),
}


@pytest.mark.parametrize("answer", RAW_ANSWERS.values(), ids=RAW_ANSWERS)
def test_answers_of_all_kinds_of_servers(answer: bytes) -> None:
    """Each connection is closed after one response, whether the server announced that or not."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def steps() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            settings = ExtenderConfig(url_prefix=f"http://127.0.0.1:{port}")
            client = ExtenderClient(settings.url_prefix, connect(settings), 5 * SECOND)
            for _ in range(3):
                assert json.loads(await client.post("filter", b"{}")) == {"NodeNames": []}
                await asyncio.sleep(0.01)  # for the end of the connection to arrive
            await client.close()

    asyncio.run(steps())


def test_a_scheduler_process_calls_extenders(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("server"))

    async def steps(cluster: Cluster) -> None:
        async def bind(arguments: Json) -> Json:
            await cluster.api.bind(
                arguments["PodNamespace"],
                arguments["PodName"],
                arguments["PodUID"],
                arguments["Node"],
            )
            return {}

        filtering = FakeExtender(filter=keep_nodes(lambda name: name in ("n1", "n2")))
        others = FakeExtender(
            tls=context, prioritize=score_nodes(lambda name: 10 * (name == "n2")), bind=bind
        )
        async with filtering, others:
            extenders = [
                {"urlPrefix": f"{filtering.url}/", "filterVerb": "filter"},
                {
                    "urlPrefix": f"{others.url}/scheduler",
                    "prioritizeVerb": "prioritize",
                    "weight": 5,
                    "bindVerb": "bind",
                    "nodeCacheCapable": True,
                    "enableHTTPS": True,
                    "tlsConfig": {"caFile": str(authority.certificate)},
                    "httpTimeout": "3s",
                },
            ]
            cluster.configure(more=yaml.safe_dump({"extenders": extenders}))
            await cluster.create_pods(f"p{number}" for number in range(5))
            async with cluster.scheduler() as process:
                pods = await cluster.until_bound(5)
                process.send_signal(signal.SIGTERM)
                code, said = await ended(process)
        assert code == 0, said
        assert "Traceback" not in said, said
        assert {pod.spec.node_name for pod in pods} == {"n2"}
        assert {call["PodName"] for call in others.called("bind")} == {
            f"p{number}" for number in range(5)
        }
        [first, *_] = filtering.called("filter")
        assert {node["metadata"]["name"] for node in first["Nodes"]["items"]} == {
            f"n{number}" for number in range(5)
        }
        assert first["Pod"]["spec"]["restartPolicy"] == "Always"
        assert "kind" not in first["Pod"]
        assert "nodeInfo" in first["Nodes"]["items"][0]["status"]
        [ranked, *_] = others.called("prioritize")
        assert ranked["Nodes"] is None
        assert sorted(ranked["NodeNames"]) == ["n1", "n2"]

    run_steps(tmp_path, steps)


def test_a_scheduler_process_with_a_hanging_extender_places_other_pods_and_ends(
    tmp_path: Path,
) -> None:
    async def steps(cluster: Cluster) -> None:
        is_asked = asyncio.Event()

        async def never(_: Json) -> Json:
            is_asked.set()
            await asyncio.Event().wait()
            return {}

        async with FakeExtender(filter=never) as extender:
            managed = [{"name": "example.com/foo", "ignoredByScheduler": True}]
            settings = {
                "urlPrefix": extender.url,
                "filterVerb": "filter",
                "managedResources": managed,
                "httpTimeout": "1h",
            }
            cluster.configure(more=yaml.safe_dump({"extenders": [settings]}))
            foo = make_pod("foo", requests={"example.com/foo": "1"}, images=["i"])
            await cluster.create(_with_limits(foo))
            async with cluster.scheduler() as process:
                await is_asked.wait()
                await cluster.create_pods(f"p{number}" for number in range(5))
                await cluster.until_bound(5)
                process.send_signal(signal.SIGTERM)
                code, said = await ended(process)
        assert code == 0, said
        assert "Traceback" not in said, said
        assert (await cluster.api.get(Pod, "foo", "default")).spec.node_name == ""

    run_steps(tmp_path, steps)


def _with_limits(pod: Pod) -> Pod:
    container = pod.spec.containers[0]
    resources = replace(container.resources, limits=container.resources.requests)
    containers = (replace(container, resources=resources),)
    return replace(pod, spec=replace(pod.spec, containers=containers))
