"""The page of an embedded cluster: on the same port as its API, under a path of its own."""

from __future__ import annotations

from kubesched.api import Node
from kubesched.api.access import ApiAccess
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.dashboard.dashboard import PREFIX
from kubesched.dashboard.sign_in import SignIn
from kubesched.dashboard.sources import dashboard_of_scheduler
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import Clock
from kubesched.util.components import Component

__all__ = ["ClusterPage"]


class ClusterPage:
    """Mounted on the cluster's server; `parts` run beside the cluster."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        scheduler: Scheduler,
        clock: Clock,
        configuration: KubeSchedulerConfiguration,
        *,
        host: str,
    ) -> None:
        self._cluster = cluster
        # Without tokens the API itself is open to everybody, and so is the page.
        self._sign_in = SignIn([host], is_open=not cluster.token)
        self.parts: tuple[Component, ...]
        dashboard, self.parts = dashboard_of_scheduler(
            scheduler,
            cluster.api,
            clock,
            self._sign_in,
            title="embedded cluster",
            is_writable=True,
            changes=_NodeSwitch(cluster.api),
            configuration=configuration,
        )
        cluster.mount(PREFIX, dashboard.handle)

    def link(self) -> str:
        """An address that signs its first user in."""
        if self._sign_in.is_open:
            return f"{self._cluster.url}{PREFIX}/"
        return f"{self._cluster.url}{PREFIX}/?token={self._sign_in.issue()}"


class _NodeSwitch:
    def __init__(self, api: ApiAccess) -> None:
        self._api = api

    async def stop_node(self, name: str) -> None:
        await self._mark(name, "true")

    async def start_node(self, name: str) -> None:
        await self._mark(name, None)

    async def _mark(self, name: str, stopped: str | None) -> None:
        patch = {"metadata": {"annotations": {STOPPED: stopped}}}
        await self._api.patch(Node, name, None, patch, patch_type="merge")
