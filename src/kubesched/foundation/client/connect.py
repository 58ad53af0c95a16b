"""`kubesched.connect`: access to the API server of a real cluster, in one call."""

from __future__ import annotations

import os
from pathlib import Path

from kubesched.foundation.client.connections import connect_process, connect_selected
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import HttpTransport
from kubesched.foundation.client.kubeconfig import kubectl_files, load_kubeconfig
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.foundation.util.randomness import derive

__all__ = ["connect"]


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    *,
    context: str = "",
    qps: float = 50,
    burst: int = 100,
    clock: Clock | None = None,
    user_agent: str = "kubesched",
) -> HttpApi:
    """Return access to a cluster's API server, for `Scheduler(api)`, plugins and scripts.

    Uses the current context of the kubeconfig, or the named one. Without a file it uses the service
    account of the pod that this process runs in, and outside a cluster the files in $KUBECONFIG.
    Sends nothing before the first request; `await api.close()` closes it.

    Raises:
        ConfigError: no cluster is configured, or its configuration is invalid.
    """
    clock = clock or RealClock()
    if context:
        files = [Path(kubeconfig)] if kubeconfig else kubectl_files(os.environ)
        selected = load_kubeconfig(files, must_exist=kubeconfig is not None).select(context)
        connection = connect_selected(selected, clock, user_agent=user_agent)
    else:
        path = os.fspath(kubeconfig) if kubeconfig else ""
        connection = connect_process(path, "", clock, os.environ, user_agent=user_agent)
    return HttpApi(
        HttpTransport(connection), clock, derive(0, "client", user_agent), qps=qps, burst=burst
    )
