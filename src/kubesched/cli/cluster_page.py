"""The dashboard of an embedded cluster, below a path of the API server's port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Node
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.dashboard import PREFIX
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.page_sources import dashboard_of_embedded
from kubesched.dashboard.sign_in import SignIn
from kubesched.foundation.util.clock import Clock

__all__ = ["ClusterPage"]


class ClusterPage:
    """The dashboard, mounted on the cluster's server."""

    def __init__(
        self,
        live: LiveCluster,
        clock: Clock,
        plugins: Mapping[str, Any],
        *,
        host: str,
    ) -> None:
        self._cluster = cluster = live.cluster
        # Without tokens the API needs no authentication, and neither does the page.
        is_open = not cluster.token
        self._sign_in = SignIn([host], is_open=is_open, is_secure=not is_open)
        dashboard, attach = dashboard_of_embedded(
            cluster.api,
            clock,
            self._sign_in,
            title="embedded cluster",
            scheduler=lambda: live.scheduler,
            configuration=lambda: live.configuration,
            plugins=plugins,
            changes=EmbeddedChanges(cluster.api, _Switches(live, plugins)),
        )
        live.watch_scheduler(attach)
        cluster.mount(PREFIX, dashboard.answer)

    def link(self) -> str:
        """Return a URL that signs its first user in."""
        if self._sign_in.is_open:
            return f"{self._cluster.url}{PREFIX}/"
        return f"{self._cluster.url}{PREFIX}/?token={self._sign_in.issue()}"


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
