"""The endpoints of `kubesched run`, with a cluster that authorizes their readers."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import sys
from pathlib import Path

import aiohttp
from msgspec.structs import replace

from kubesched.api.events import Event
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.foundation.util.clock import RealClock
from kubesched.testing import make_node, make_pod
from tests.integration.api_server_process import free_port


async def until_ready(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        try:
            async with session.get(f"{url}/readyz") as response:
                if response.status == 200:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.05)


def test_health_needs_no_user_and_pages_need_an_authenticated_one(tmp_path: Path) -> None:
    async def main() -> None:
        port = free_port()
        kubeconfig = tmp_path / "kubeconfig"
        async with EmbeddedCluster(RealClock(), random.Random(0), listen=Listen()) as cluster:
            kubeconfig.write_text(cluster.kubeconfig())
            giant = make_pod("giant", images=["giant"], requests={"cpu": "64"})
            for made in (make_node("a", cpu="2"), giant):
                unborn = replace(made.metadata, uid="", resource_version="")
                await cluster.api.create(replace(made, metadata=unborn))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "kubesched.cli.main",
                "run",
                f"--kubeconfig={kubeconfig}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1",
                "--dashboard",
                f"--secure-port={port}",
                "--explain-events",
                env={**os.environ, "PYTHONWARNINGS": "error"},
                stderr=asyncio.subprocess.DEVNULL,
            )
            url = f"https://127.0.0.1:{port}"
            connector = aiohttp.TCPConnector(ssl=False)  # a self-signed certificate
            try:
                async with aiohttp.ClientSession(connector=connector) as session:
                    async with asyncio.timeout(30):
                        await until_ready(session, url)
                    await check_endpoints(session, url, cluster.token)
                    await check_page(session, f"{url}/dashboard", cluster.token)
                await check_event(cluster)
                await check_commands(kubeconfig, url, tmp_path)
            finally:
                process.terminate()
                await process.wait()

    asyncio.run(main())


async def check_endpoints(session: aiohttp.ClientSession, url: str, token: str) -> None:
    async def get(path: str, token: str = "") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with session.get(url + path, headers=headers) as response:
            return response.status, await response.text()

    assert await get("/readyz?verbose") == (
        200,
        "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
    )
    assert await get("/livez") == (200, "ok")
    for path in ("/metrics", "/configz", "/flagz", "/statusz", "/metrics/resources"):
        assert (await get(path))[0] == 403
        assert (await get(path, "wrong"))[0] == 401
        assert (await get(path, token))[0] == 200
    _, metrics = await get("/metrics", token)
    for name in (
        'leader_election_master_status{name="kube-scheduler"}',
        'scheduler_pending_pods{queue="active"}',
        "rest_client_requests_total{",
        "process_start_time_seconds",
        "kubernetes_build_info{",
    ):
        assert name in metrics
    _, configuration = await get("/configz", token)
    assert '"kind":"KubeSchedulerConfiguration"' in configuration
    _, flags = await get("/flagz", token)
    assert "authentication-kubeconfig" in flags
    assert (await get("/explain/namespaces/default/pods/nobody"))[0] == 403
    status, text = await get("/explain/namespaces/default/pods/nobody", token)
    assert (status, "no pod default/nobody" in text) == (404, True)
    status, text = await get("/explain/namespaces/default/pods/giant", token)
    assert status == 200
    explanation = json.loads(text)
    assert explanation["verdict"] == "pending"
    assert "Insufficient cpu" in explanation["summary"]
    queue = explanation["queue"]
    assert (queue["place"], queue["attempts"]) == ("unschedulable", 1)
    assert queue["rejected_by"] == ["NodeResourcesFit"]
    awaited = {each["event"]: each["hints_of"] for each in queue["waits_for"]}
    assert awaited["NodeAdd"] == ["NodeResourcesFit"]
    assert (await get("/explain/queue"))[0] == 403
    status, text = await get("/explain/queue", token)
    assert (status, list(json.loads(text)["pods"])) == (200, ["default/giant"])


async def check_event(cluster: EmbeddedCluster) -> None:
    """The event has the reference's text, followed by the amounts that are missing."""
    async with asyncio.timeout(20):
        while not (found := (await cluster.api.list(Event)).items):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    note = next(each.note for each in found if each.reason == "FailedScheduling")
    assert note.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert note.endswith("asks 64, and even the largest node, a, has only 2 in all.")


async def check_commands(kubeconfig: Path, url: str, folder: Path) -> None:
    """Commands query a running scheduler, and captures contain its queue."""

    async def run(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kubesched.cli.main",
            *words,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, words
        return out.decode()

    asked = ("--scheduler", url, "--scheduler-insecure", "--kubeconfig", str(kubeconfig))
    shown = await run("explain", "pod", "default/giant", *asked)
    assert "default/giant is PENDING: Insufficient cpu" in shown
    assert "waiting for an event that may help (unschedulable)" in shown
    assert "waits for NodeAdd (hints of NodeResourcesFit decide)" in shown
    path = folder / "taken"
    await run("capture", "-o", str(path), *asked)
    from_capture = await run("explain", "pod", "default/giant", "--capture", str(path))
    assert "last rejected by NodeResourcesFit" in from_capture


def password(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'me:{text}'.encode()).decode()}"}


async def check_page(session: aiohttp.ClientSession, page: str, token: str) -> None:
    """A browser is asked for a token as a password, and then shows the live page."""
    for path in ("", "/", "/api/stream", "/assets/index.js"):
        async with session.get(page + path) as response:
            assert response.status == 401
            assert response.headers["WWW-Authenticate"].startswith("Basic realm=")
            assert await response.text() == (
                "Sign in: any user name, and a token of the cluster as the password.\n"
            )
    async with session.get(f"{page}/", headers=password("wrong")) as response:
        assert response.status == 401
    known = password(token)
    async with session.get(f"{page}/", headers=known) as response:
        assert response.status == 200
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    async with session.get(f"{page}/api/stream", headers=known) as response:
        frame = json.loads((await response.content.readline()).removeprefix(b"data: "))
    assert [name for _, name, *_ in frame["nodes"]] == ["a"]
    assert frame["queue"]["unschedulable"] == 1
    assert [each["pod"] for each in frame["decisions"]] == ["default/giant"]
    assert frame["writable"] is False
    own = {"Origin": page.removesuffix("/dashboard")}
    plan = {"add": 1, "like": "a"}
    for headers, status in ((own, 200), ({"Origin": "https://evil.example"}, 403), ({}, 403)):
        request = session.post(f"{page}/api/whatif", json=plan, headers={**headers, **known})
        async with request as response:
            assert response.status == status
    async with session.post(
        f"{page}/api/manifests", json={"text": ""}, headers={**own, **known}
    ) as response:
        assert response.status == 403
