"""`kubesched run` as deploy/ runs it: its permissions, and those of readers of its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from kubesched.api import ObjectMeta, Pod, PriorityClass
from kubesched.api.events import Event
from kubesched.testing import make_node, make_pod
from tests.integration.deployed_cluster import (
    MONITOR,
    READER,
    ROOT,
    STRANGER,
    Deployed,
    Right,
    deployed,
    rights,
    rules,
)

# What the role allows and a run without volumes, devices and trouble does not need.
SPARE: dict[str, Callable[[Right], bool]] = {
    "single objects are read from caches": lambda right: right[2] == "get",
    "volumes are bound": lambda right: right[1].startswith("persistentvolume"),
    "volumes are looked at": lambda right: right[0] == "storage.k8s.io",
    "devices are allocated": lambda right: right[0] == "resource.k8s.io",
    "pod groups need their gate": lambda right: right[1].startswith("podgroups"),
    "conditions are patched": lambda right: right == ("", "pods/status", "update"),
    "the other way to bind": lambda right: right == ("", "bindings", "create"),
    "owners that block deletion": lambda right: right == ("", "pods/finalizers", "update"),
    "events are created, and patched when they repeat": lambda right: right[1] == "events",
    "services and the like are read for spreading only if profiles have defaults": lambda right: (
        right[1] in ("services", "replicationcontrollers", "replicasets", "statefulsets")
    ),
    "where lists are not streamed": lambda right: right[2] == "list",
    "leases are not watched": lambda right: right[1:] == ("leases", "watch"),
    "the page is not enabled": lambda right: right[1].endswith("reviews"),
}


async def bound(cluster: Deployed, *names: str) -> None:
    while True:
        pods = {pod.metadata.name: pod for pod in (await cluster.api.list(Pod)).items}
        if all(name in pods and pods[name].spec.node_name for name in names):
            return
        await asyncio.sleep(0.05)


async def told(cluster: Deployed, reason: str) -> None:
    while True:
        if any(event.reason == reason for event in (await cluster.api.list(Event)).items):
            return
        await asyncio.sleep(0.05)


def pod(name: str, cpu: str, priority_class: str = "") -> Pod:
    made = make_pod(name, requests={"cpu": cpu}, images=["i"], scheduler_name="kubesched")
    spec = msgspec.structs.replace(made.spec, priority_class_name=priority_class)
    return msgspec.structs.replace(made, spec=spec)


def test_the_role_allows_what_is_done_and_little_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with deployed(tmp_path) as cluster:
            await cluster.create(make_node("n0", cpu="1", memory="8Gi"))
            await cluster.create(pod("low", "800m"))
            await bound(cluster, "low")
            await cluster.create(pod("huge", "64"))
            await told(cluster, "FailedScheduling")
            await cluster.api.create(PriorityClass(metadata=ObjectMeta(name="high"), value=1000))
            await cluster.create(pod("high", "800m", "high"))
            await told(cluster, "Preempted")
            await cluster.api.delete(Pod, "low", "default", grace_period_seconds=0)
            await bound(cluster, "high")
            users = cluster.users
        assert users.refused == []
        given = rights(rules("ClusterRole", "kubesched"))
        given |= rights([*rules("Role", "kubesched-leader-election"), READER])
        assert users.used - given == set()
        idle = {
            right
            for right in given - users.used
            if not any(explains(right) for explains in SPARE.values())
        }
        assert idle == set()
        assert ("", "pods/binding", "create") in users.used
        assert ("", "pods", "delete") in users.used
        assert ("", "pods/status", "patch") in users.used
        assert ("coordination.k8s.io", "leases", "update") in users.used

    asyncio.run(main())


PAGES = (
    "/healthz",
    "/livez",
    "/readyz",
    "/livez/ping",
    "/readyz/shutdown",
    "/metrics",
    "/metrics/slis",
    "/metrics/resources",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/pprof/",
    "/debug/flags/v",
    "/nope",
)
OPEN = {"/healthz", "/livez", "/readyz"}
SCRAPED = {"/metrics", "/metrics/slis"}
TRICKS = (
    b"//metrics",
    b"/healthz/../metrics",
    b"/healthz/%2e%2e/metrics",
    b"/healthz%2f..%2fmetrics",
    b"/healthz/..%2fmetrics",
    b"/%2e/metrics",
    b"/metrics/",
    b"/METRICS",
    b"/%6detrics",
    b"/metrics%2f",
    b"/metrics%20",
    b"/metrics;a=b",
    b"/metrics%00",
    b"/healthz?/../metrics",
    b"/configz/",
    b"/Configz",
    b"/healthz%2f..%2fconfigz",
    b"http://localhost/metrics",
    b"https://localhost/healthz/../configz",
    b"*",
)
SECRETS = (b"scheduler_pending_pods", b"KubeSchedulerConfiguration")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def context() -> ssl.SSLContext:
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def status(cluster: Deployed, path: str, token: str, method: str = "GET") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.request(method, cluster.url + path, headers=headers) as response,
    ):
        body = await response.read()
        if response.status in (401, 403) and method != "HEAD":
            assert json.loads(body)["kind"] == "Status"
            assert not any(secret in body for secret in SECRETS)
        return response.status


async def say(cluster: Deployed, text: bytes, *, tls: bool = True) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", cluster.port, ssl=context() if tls else None
    )
    try:
        writer.write(text)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), 60)
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def wanted(path: str, who: str) -> int:
    if path in OPEN:
        return 200
    if who == MONITOR and path in SCRAPED:
        return 200
    if who == ROOT:
        return {"/nope": 404, "/debug/flags/v": 406}.get(path, 200)
    return 403


def test_pages_are_served_to_users_that_the_cluster_authorizes(tmp_path: Path) -> None:
    async def main() -> None:
        async with deployed(tmp_path) as cluster:
            for path in PAGES:
                for who in ("", STRANGER, MONITOR, ROOT):
                    assert await status(cluster, path, who) == wanted(path, who), (path, who)
                assert await status(cluster, path, "wrong") == 401, path
            for method in METHODS:
                for path in ("/metrics", "/configz"):
                    for who in ("", STRANGER):
                        got = await status(cluster, path, who, method)
                        assert got in (400, 403, 405), (method, path, who)
            # Reading is not resetting.
            assert await status(cluster, "/metrics", MONITOR, "DELETE") == 403

    asyncio.run(main())


def test_no_spelling_of_a_request_opens_a_page(tmp_path: Path) -> None:
    async def main() -> None:
        async with deployed(tmp_path) as cluster:
            for trick in TRICKS:
                for head in (b"Host: x", b"Host: x\r\nAuthorization: Bearer " + STRANGER.encode()):
                    request = b"GET " + trick + b" HTTP/1.1\r\n" + head
                    answer = await say(cluster, request + b"\r\nConnection: close\r\n\r\n")
                    assert not any(secret in answer for secret in SECRETS), trick
                    line = answer.partition(b"\r\n")[0]
                    harmless = trick == b"/healthz?/../metrics" and b" 200 " in line
                    assert harmless or b" 403 " in line or b" 400 " in line, (trick, line)
            for header in (
                b"X-Remote-User: admin\r\nX-Remote-Group: system:masters",
                b"Impersonate-User: admin",
                b"X-Forwarded-For: 127.0.0.1\r\nX-Original-URL: /metrics",
                b"Authorization: Basic YWRtaW46YWRtaW4=",
                b"Authorization: bearer",
                b"Authorization: Bearer",
                b"Authorization: Bearer  " + ROOT.encode(),
            ):
                request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + header
                answer = await say(cluster, request + b"\r\nConnection: close\r\n\r\n")
                assert b" 403 " in answer.partition(b"\r\n")[0], header
            # Not even TLS: no response that reveals anything, and the next client is served.
            plain = await say(cluster, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", tls=False)
            assert not any(secret in plain for secret in SECRETS)
            assert await status(cluster, "/livez", "") == 200

    asyncio.run(main())


@pytest.mark.parametrize("silent", [90])
def test_silent_clients_do_not_use_up_connections(tmp_path: Path, silent: int) -> None:
    async def main() -> None:
        async with deployed(tmp_path) as cluster, contextlib.AsyncExitStack() as stack:
            for number in range(silent):
                tls = context() if number % 3 == 0 else None
                _, writer = await asyncio.open_connection("127.0.0.1", cluster.port, ssl=tls)
                stack.callback(writer.close)
                if tls is not None:
                    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            async with asyncio.timeout(60):
                assert await status(cluster, "/livez", "") == 200
                assert await status(cluster, "/metrics", MONITOR) == 200

    asyncio.run(main())
