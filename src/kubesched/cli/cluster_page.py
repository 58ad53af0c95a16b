"""The dashboard of an embedded cluster, below a path of the API server's port."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kubesched.api import Node
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.dashboard import PREFIX
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.page_sources import dashboard_of_embedded
from kubesched.dashboard.sign_in import SignIn
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import Clock
from kubesched.scheduler.config.feature_gates import FeatureGates

__all__ = ["LINK_PATH", "ClusterPage", "PageLink"]

# A POST with the administrator's token returns a PageLink.
LINK_PATH: Final = f"{PREFIX}/link"


class PageLink(msgspec.Struct, frozen=True):
    """A URL that signs its first user in."""

    dashboard: str


class ClusterPage:
    """The dashboard, mounted on the cluster's server."""

    def __init__(
        self,
        live: LiveCluster,
        clock: Clock,
        plugins: Mapping[str, Any],
        *,
        host: str,
        gates: FeatureGates,
    ) -> None:
        self._cluster = cluster = live.cluster
        # Without tokens the API needs no authentication, and neither does the page.
        is_open = not cluster.token
        self._sign_in = SignIn([host], is_open=is_open, is_secure=not is_open)
        self._dashboard, attach = dashboard_of_embedded(
            cluster.api,
            clock,
            self._sign_in,
            title="embedded cluster",
            scheduler=lambda: live.scheduler,
            configuration=lambda: live.configuration,
            plugins=plugins,
            changes=EmbeddedChanges(cluster.api, cluster.clock, _Switches(live, plugins)),
            gates=gates,
        )
        live.watch_scheduler(attach)
        cluster.mount(PREFIX, self._answer)

    def link(self) -> str:
        """Return a URL that signs its first user in."""
        if self._sign_in.is_open:
            return f"{self._cluster.url}{PREFIX}/"
        return f"{self._cluster.url}{PREFIX}/?token={self._sign_in.issue()}"

    async def _answer(self, request: Request) -> Response:
        if request.path == LINK_PATH:
            return self._new_link(request)
        return await self._dashboard.answer(request)

    def _new_link(self, request: Request) -> Response:
        """Issue a link to a client that has the administrator's token."""
        if request.method != "POST":
            return Response(405, b"only POST\n")
        expected = f"Bearer {self._cluster.token}".encode()
        presented = request.headers.get("Authorization").encode("utf-8", "replace")
        if self._cluster.token and not hmac.compare_digest(presented, expected):
            return Response(401, b"only with the administrator's token\n")
        body = msgspec.json.encode(PageLink(self.link()))
        return Response(200, body, content_type="application/json")


class _Switches:
    def __init__(self, live: LiveCluster, plugins: Mapping[str, Any]) -> None:
        self._live, self._plugins = live, plugins

    async def stop_node(self, name: str) -> None:
        await self._mark(name, "true")

    async def start_node(self, name: str) -> None:
        await self._mark(name, None)

    async def configure(self, text: str) -> None:
        await self._live.replace_scheduler(read_configuration(text, self._plugins))

    async def _mark(self, name: str, stopped: str | None) -> None:
        patch = {"metadata": {"annotations": {STOPPED: stopped}}}
        await self._live.api.patch(Node, name, None, patch, patch_type="merge")
