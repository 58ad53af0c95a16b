"""The page's server side: who may see it, what a viewer is sent, and that nothing piles up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.apiserver import LocalApi
from kubesched.apiserver.store.object_store import Store
from kubesched.dashboard.answers import Answers
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.page_server import PageServer
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.viewers import Viewer
from kubesched.framework.pod_info import assigned_to
from kubesched.testing import make_node, make_pod
from kubesched.util.clock import RealClock


def view_of(*objects: Any) -> ClusterView:
    view = ClusterView(DecisionLog(), lambda: 0)
    for each in objects:
        if isinstance(each, Pod):
            view.put_pod(each)
        else:
            view.put_node(each)
    return view


class Site:
    """A page over some objects, and a browser-like client that is or is not signed in."""

    def __init__(self, *objects: Any, api: LocalApi | None = None) -> None:
        self.sign_in = SignIn()
        self.view = view_of(*objects)
        answers = Answers(self.view, lambda: list(objects), now_ns=lambda: 0, api=api)
        self.server = PageServer(Dashboard(self.view, answers, self.sign_in), "127.0.0.1", 0)

    async def signed_in(self, client: aiohttp.ClientSession) -> None:
        link = f"{self.server.url}/dashboard/?token={self.sign_in.issue()}"
        async with client.get(link, allow_redirects=False) as answer:
            assert answer.status == 303


@pytest.fixture
def objects() -> list[Any]:
    return [
        make_node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"}),
        make_pod("r", node_name="a", requests={"cpu": "1"}, phase="Running"),
        make_pod("<b>waits</b>", requests={"cpu": "9"}),
    ]


def run(work: Any) -> Any:
    return asyncio.run(work)


async def opened(site: Site) -> AsyncIterator[aiohttp.ClientSession]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with site.server, aiohttp.ClientSession(cookie_jar=jar) as client:
        yield client


def test_without_a_session_there_is_only_the_sign_in_line(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            for path in ("/dashboard/", "/dashboard/api/stream", "/dashboard/assets/index.js"):
                async with client.get(site.server.url + path) as answer:
                    assert answer.status == 401
                    assert await answer.text() == (
                        "Sign in: open the link that kubesched printed; it works once.\n"
                    )

    run(work())


def test_a_link_works_once_and_the_cookie_goes_on(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            link = f"{site.server.url}/dashboard/?token={site.sign_in.issue()}"
            async with client.get(link) as answer:
                assert answer.status == 200
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
            async with aiohttp.ClientSession() as stranger, stranger.get(link) as answer:
                assert answer.status == 401
            async with client.get(f"{site.server.url}/dashboard/api/nodes/a") as answer:
                assert answer.status == 200

    run(work())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({}, 403),
    ],
    ids=["a forged host", "another origin", "no origin at all"],
)
def test_a_request_from_elsewhere_is_refused(
    objects: list[Any], headers: dict[str, str], status: int
) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            await site.signed_in(client)
            url = f"{site.server.url}/dashboard/api/whatif"
            async with client.post(url, json={"drain": ["a"]}, headers=headers) as answer:
                assert answer.status == status

    run(work())


def test_files_outside_the_page_are_not_served(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            await site.signed_in(client)
            for path in ("..%2fdashboard.py", "assets/../../dashboard.py", "dashboard.py"):
                url = f"{site.server.url}/dashboard/{path}"
                async with client.get(url, allow_redirects=False) as answer:
                    assert answer.status in (303, 404)
                    assert b"Dashboard" not in await answer.read()

    run(work())


def test_a_pending_pod_is_explained(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects, make_pod("big", requests={"cpu": "9"}))
        async for client in opened(site):
            await site.signed_in(client)
            async with client.get(f"{site.server.url}/dashboard/api/pods/default/big") as answer:
                found = await answer.json()
        assert found["explanation"]["verdict"] == "pending"
        assert "Insufficient cpu" in found["explanation"]["summary"]
        assert found["explanation"]["suggestions"][0]["edits"]

    run(work())


def test_the_stream_begins_with_everything(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            await site.signed_in(client)
            async with client.get(f"{site.server.url}/dashboard/api/stream") as answer:
                line = await answer.content.readline()
            frame = json.loads(line.removeprefix(b"data: "))
        assert [row["name"] for row in frame["nodes"]] == ["a"]
        assert frame["nodes"][0]["cpu"] == [1000, 4000]
        assert [row["key"] for row in frame["waiting"]] == ["default/<b>waits</b>"]
        assert frame["writable"] is False

    run(work())


def test_a_page_that_only_reads_changes_nothing(objects: list[Any]) -> None:
    async def work() -> None:
        site = Site(*objects)
        async for client in opened(site):
            await site.signed_in(client)
            url = f"{site.server.url}/dashboard/api/manifests"
            origin = {"Origin": site.server.url}
            async with client.post(url, json={"text": "kind: Pod"}, headers=origin) as answer:
                assert answer.status == 403

    run(work())


def test_objects_are_made_on_an_embedded_cluster(objects: list[Any]) -> None:
    async def work() -> None:
        api = LocalApi(Store(), RealClock())
        site = Site(*objects, api=api)
        text = "apiVersion: v1\nkind: Node\nmetadata: {name: fresh}\n"
        async for client in opened(site):
            await site.signed_in(client)
            url = f"{site.server.url}/dashboard/api/manifests"
            origin = {"Origin": site.server.url}
            async with client.post(url, json={"text": text}, headers=origin) as answer:
                assert await answer.json() == {"made": ["Node fresh"]}
            async with client.post(url, json={"text": "a: [b"}, headers=origin) as answer:
                assert answer.status == 400
                assert "not YAML" in (await answer.json())["error"]

    run(work())


def test_a_stalled_viewer_costs_no_more_than_the_names_of_what_changed() -> None:
    async def work() -> None:
        view = view_of(make_node("a"))
        viewer = Viewer(view)
        viewer.next_frame()
        pod = make_pod("p", requests={"cpu": "1"})
        for _ in range(10_000):
            view.put_pod(pod)
            view.put_pod(assigned_to(pod, "a"))
            view.remove_pod(pod)
        assert viewer.backlog <= 2
        frame = viewer.next_frame()
        assert len(frame["decisions"]) <= 200
        assert [row["name"] for row in frame["nodes"]] == ["a"]
        viewer.close()
        assert view.listeners == []

    run(work())


def test_decisions_are_read_off_the_pods() -> None:
    log = DecisionLog(length=2)
    pod = make_pod("p")
    log.note(None, pod, 0)
    refused = replace(
        pod,
        status=replace(
            pod.status,
            nominated_node_name="a",
        ),
    )
    log.note(pod, refused, 1_000_000)
    log.note(refused, assigned_to(refused, "a"), 2_000_000)
    entries = log.since(0, 10)
    assert [(each["what"], each["node"]) for each in entries] == [
        ("nominated", "a"),
        ("placed", "a"),
    ]
    assert [each["what"] for each in log.story("default/p")] == ["created", "nominated", "placed"]


def test_requested_amounts_follow_pods_that_come_and_go() -> None:
    view = view_of(make_node("a", cpu="4"))
    pod = make_pod("p", requests={"cpu": "1"})
    view.put_pod(pod)
    view.put_pod(assigned_to(pod, "a"))
    row = view.node_row("a")
    assert row is not None
    assert row["cpu"] == [1000, 4000]
    view.put_pod(replace(assigned_to(pod, "a"), status=replace(pod.status, phase="Succeeded")))
    row = view.node_row("a")
    assert row is not None
    assert row["cpu"] == [0, 4000]
    assert view.counts() == {"nodes": 1, "pods": 0, "placed": 0, "waiting": 0}
