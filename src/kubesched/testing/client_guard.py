"""A guard that keeps clients in tests from connecting to any cluster but the test's.

Some programs, the official client among them, read `$KUBECONFIG` when they are imported. In a test
they would then connect to the user's own cluster.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubesched.errors import KubeschedError

__all__ = ["guarded_clients", "hide_kubeconfig"]

_VARIABLE: Final = "KUBECONFIG"
_OFFICIAL_CLIENT: Final = "kubernetes.client"
# The host of an official client without a loaded configuration.
_UNCONFIGURED: Final = ("", "http://localhost", "https://localhost")

# The official clients read the default path at import and store it in these modules.
_DEFAULT_PATH: Final = "KUBE_CONFIG_DEFAULT_LOCATION"
_PATH_MODULES: Final = ("kubernetes.config.kube_config", "kubernetes_asyncio.config.kube_config")

# The URLs of all clusters of running tests: a test may use several.
_running: list[str] = []


@contextlib.contextmanager
def guarded_clients(url: str, kubeconfig: Path) -> Iterator[None]:
    """Set the default kubeconfig of clients to a test's cluster, and check the official client.

    At the end of the block the previous default is restored. If the official client was configured
    for the test's cluster, its configuration is reset.

    Raises:
        KubeschedError: the official client is configured for another cluster.
    """
    _check_official_client(url)
    former = os.environ.get(_VARIABLE)
    _running.append(url)
    _set_default(str(kubeconfig))
    try:
        yield
    finally:
        _running.remove(url)
        _set_default(former)
        if _official_host() == url:
            sys.modules[_OFFICIAL_CLIENT].Configuration.set_default(None)


def hide_kubeconfig() -> None:
    """Set $KUBECONFIG to an empty file, for clients that read it when they are imported."""
    _set_default(os.devnull)


def _set_default(path: str | None) -> None:
    """Set $KUBECONFIG, also in clients that have read it; None removes it."""
    if path is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = path
    for name in _PATH_MODULES:
        if name in sys.modules:
            setattr(sys.modules[name], _DEFAULT_PATH, path or "~/.kube/config")


def _check_official_client(url: str) -> None:
    host = _official_host()
    if host in _UNCONFIGURED or host == url or host in _running:
        return
    error = KubeschedError(
        f"the kubernetes client is configured for {host} and not for the cluster of this test"
    )
    error.add_note(
        "a module loads the configuration when it is imported: load it in a function instead, or "
        "set `kubesched_hide_kubeconfig = true` in pytest's configuration"
    )
    raise error


def _official_host() -> str:
    """Return the server of the official client's default configuration; empty without one."""
    client = sys.modules.get(_OFFICIAL_CLIENT)
    if client is None:
        return ""
    return str(client.Configuration.get_default_copy().host)
