"""A page over some objects, and a browser-like client that is or is not signed in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kubesched.api import Node, Pod
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.page_server import PageServer
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.stream_frames import FrameHub


class FixedPageState:
    """A state with fixed objects; it is the only one."""

    def __init__(self, *objects: Any) -> None:
        self._objects = list(objects)
        self.view = ClusterView()
        self.decisions = DecisionLog(lambda: 0)
        for each in objects:
            if isinstance(each, Pod):
                self.view.put_pod(each)
            elif isinstance(each, Node):
                self.view.put_node(each)

    def at(self, moment: Any) -> FixedPageState:
        return self

    def of_kind(self, kind: type[Any]) -> Iterable[Any]:
        return [each for each in self._objects if isinstance(each, kind)]

    def objects(self) -> list[Any]:
        return self._objects

    def configuration(self) -> None:
        return None


class PageHarness:
    """The page on a socket."""

    def __init__(
        self,
        *objects: Any,
        changes: EmbeddedChanges | None = None,
        public_url: str = "",
        path: str = "",
    ) -> None:
        self.sign_in = SignIn(public_url=public_url)
        self.state = FixedPageState(*objects)
        queries = PageQueries(self.state, now_ns=lambda: 0, changes=changes)
        self.hub = FrameHub(self.state.view, self.state.decisions, queries.decorated)
        dashboard = Dashboard(queries, self.sign_in, self.hub)
        self.server = PageServer(dashboard, "127.0.0.1", 0, path=path)

    @property
    def url(self) -> str:
        """The folder of the page; `entrance` is the address of a link."""
        return f"{self.entrance}{self.sign_in.folder}/"

    @property
    def entrance(self) -> str:
        return f"{self.server.url}/dashboard/"

    @asynccontextmanager
    async def anonymous_client(self) -> AsyncIterator[aiohttp.ClientSession]:
        jar = aiohttp.CookieJar(unsafe=True)
        async with self.server, aiohttp.ClientSession(cookie_jar=jar) as client:
            yield client

    @asynccontextmanager
    async def signed_in_client(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with self.anonymous_client() as client:
            link = f"{self.entrance}?token={self.sign_in.issue()}"
            async with client.get(link) as answer:
                assert answer.status == 200
            yield client

    async def post(
        self, client: aiohttp.ClientSession, path: str, body: Any
    ) -> tuple[int, dict[str, Any]]:
        """Post as the page does."""
        headers = {"Origin": self.server.url}
        async with client.post(f"{self.url}api/{path}", json=body, headers=headers) as answer:
            return answer.status, await answer.json()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(main())
