"""The API clients of a scheduler process: one connection, several rate limits.

docs/reference/02 §9.1.
"""

from __future__ import annotations

import platform
import sys

from msgspec.structs import replace

import kubesched
from kubesched.errors import ConfigError
from kubesched.foundation.client.connections import connect_in_cluster, connect_process
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.types import ClientConnectionConfiguration
from kubesched.scheduler.server.options.cluster_access import ClusterAccess

__all__ = ["ApiClients", "user_agent"]

_REVIEW_QPS, _REVIEW_BURST = 200, 400
_REVIEW_TIMEOUT_NS = 10 * SECOND
_FEW = 4


def user_agent() -> str:
    """Return the User-Agent header; each client of a process appends its purpose."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"kubesched/v{kubesched.__version__} ({sys.platform}/{machine}) kubernetes/python"


class ApiClients:
    """Builds the clients of a process, and closes them together."""

    def __init__(
        self,
        cluster: ClusterAccess,
        limits: ClientConnectionConfiguration,
        clock: Clock,
        metrics: ClientMetrics,
        seed: int,
    ) -> None:
        """Find the API server.

        Raises:
            ConfigError: no kubeconfig, flag or environment names one.
        """
        self._limits, self._clock, self._metrics, self._seed = limits, clock, metrics, seed
        self._clients: list[HttpApi] = []
        self._environment = cluster.environment
        self._connection = connect_process(
            cluster.kubeconfig,
            cluster.master,
            clock,
            cluster.environment,
            user_agent=user_agent(),
            metrics=metrics,
        )

    def client(
        self,
        purpose: str,
        *,
        timeout_ns: int = 0,
        fence: LeaseFence | None = None,
    ) -> HttpApi:
        """Build a client with the configured rate limit and its own connections."""
        connection = replace(self._connection, user_agent=f"{user_agent()}/{purpose}")
        made = HttpApi(
            HttpTransport(connection, on_ca_reload=self._metrics.count_ca_reload),
            self._clock,
            derive(self._seed, "client", purpose),
            qps=self._limits.qps,
            burst=self._limits.burst,
            timeout_ns=timeout_ns,
            metrics=self._metrics,
            fence=fence,
        )
        self._clients.append(made)
        self._metrics.note_transport()
        return made

    def reviewer(self, kubeconfig: str, purpose: str) -> HttpApi | None:
        """Build a client for TokenReviews and access reviews; None without an API server for them.

        Raises:
            ConfigError: the kubeconfig cannot be used.
        """
        connection = self._review_connection(kubeconfig)
        if connection is None:
            return None
        made = HttpApi(
            HttpTransport(connection, parallel=_FEW, on_ca_reload=self._metrics.count_ca_reload),
            self._clock,
            derive(self._seed, "client", purpose),
            qps=_REVIEW_QPS,
            burst=_REVIEW_BURST,
            timeout_ns=_REVIEW_TIMEOUT_NS,
            metrics=self._metrics,
        )
        self._clients.append(made)
        self._metrics.note_transport()
        return made

    async def close(self) -> None:
        for client in self._clients:
            await client.close()

    def _review_connection(self, kubeconfig: str) -> Connection | None:
        agent = user_agent()
        if kubeconfig:
            return connect_process(
                kubeconfig,
                "",
                self._clock,
                self._environment,
                user_agent=agent,
                metrics=self._metrics,
            )
        try:
            return connect_in_cluster(self._clock, self._environment, user_agent=agent)
        except ConfigError:
            return None
