"""The cluster that a command connects to: from a kubeconfig, or a named one of `kubesched up`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from kubesched.cli.named_clusters import known_clusters, named_cluster, state_folder
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.client.connections import (
    SERVICE_ACCOUNT,
    connect_process,
    connect_selected,
)
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.kubeconfig import kubectl_files, load_kubeconfig
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.process.api_clients import user_agent

__all__ = ["ClusterAddress", "live_api"]

_QPS, _BURST = 1000, 1000
_NAMESPACE = "default"
_VARIABLES = ("KUBECONFIG", "KUBERNETES_SERVICE_HOST")


class ClusterAddress(NamedTuple):
    """The values of `cluster_options`.

    Without any, the cluster is the current context of kubectl: of $KUBECONFIG, or else of
    ~/.kube/config. In a pod without these files it is the pod's own cluster.
    """

    kubeconfig: str = ""
    context: str = ""
    name: str = ""

    def check_is_named(self) -> None:
        """Check that the user named a cluster. Commands that write never use ~/.kube/config.

        Raises:
            ConfigError: no option and no $KUBECONFIG names one.
        """
        if not (self.name or self.context or self.kubeconfig) and not any(
            os.environ.get(each) for each in _VARIABLES
        ):
            raise _no_cluster()

    def connection(self, clock: Clock, user_agent: str) -> Connection:
        """Return how to connect to the cluster.

        Raises:
            ConfigError: no cluster is named, or the kubeconfig is invalid.
            KubeschedError: the cluster of that name does not run.
        """
        if self.name:
            return self._named(clock, user_agent)
        if self.context or self._is_of_kubectl():
            files = [Path(self.kubeconfig)] if self.kubeconfig else kubectl_files(os.environ)
            found = load_kubeconfig(files, must_exist=bool(self.kubeconfig))
            return connect_selected(found.select(self.context), clock, user_agent=user_agent)
        self.check_is_named()
        return connect_process(self.kubeconfig, "", clock, os.environ, user_agent=user_agent)

    def namespace(self) -> str:
        """Return the namespace of the context, or of this process in a pod; or `default`."""
        files = kubectl_files(os.environ)
        if self.name:
            files = [named_cluster(state_folder(os.environ), self.name).kubeconfig]
        elif self.kubeconfig:
            files = [Path(self.kubeconfig)]
        elif not (self.context or os.environ.get("KUBECONFIG") or self._is_of_kubectl()):
            with contextlib.suppress(OSError):
                return (SERVICE_ACCOUNT / "namespace").read_text().strip()
        try:
            selected = load_kubeconfig(files, must_exist=False).select(self.context)
        except ConfigError:
            return _NAMESPACE
        return selected.namespace or _NAMESPACE

    def _is_of_kubectl(self) -> bool:
        """Whether the cluster comes from ~/.kube/config, because no option names one."""
        if self.kubeconfig or os.environ.get("KUBECONFIG"):
            return False
        return any(path.is_file() for path in kubectl_files(os.environ))

    def _named(self, clock: Clock, user_agent: str) -> Connection:
        folder = named_cluster(state_folder(os.environ), self.name)
        if (state := folder.state()) != "running":
            raise KubeschedError(
                f"cluster {self.name!r} is {state}; kubesched up --name {self.name} starts it"
            )
        selected = load_kubeconfig([folder.kubeconfig], must_exist=True).select()
        return connect_selected(selected, clock, user_agent=user_agent)


def _no_cluster() -> ConfigError:
    error = ConfigError("which cluster? give --name or --kubeconfig, or set KUBECONFIG")
    folders = known_clusters(state_folder(os.environ))
    if running := [each.name for each in folders if each.state() == "running"]:
        error.add_note(f"these run: {', '.join(running)}")
    else:
        error.add_note("kubesched up --name blue --detach makes one")
    return error


@contextlib.asynccontextmanager
async def live_api(address: ClusterAddress, purpose: str) -> AsyncIterator[HttpApi]:
    """Connect to the API server of a cluster for the duration of a command."""
    clock = RealClock()
    connection = address.connection(clock, f"{user_agent()}/{purpose}")
    api = HttpApi(HttpTransport(connection), clock, derive(0, purpose), qps=_QPS, burst=_BURST)
    try:
        yield api
    finally:
        await api.close()
