"""The address and the credentials of the API server. No connection is opened here.

docs/reference/02 §9.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config.types import ClientConnectionConfiguration
from kubesched.scheduler.config.yaml_text import read_yaml
from kubesched.scheduler.server.options.option_validation import ReadFile, open_error

__all__ = ["ClusterAccess", "find_cluster"]

log = get_logger(__name__)

_NOTHING_PROVIDED: Final = (
    "invalid configuration: no configuration has been provided, "
    "try setting KUBERNETES_MASTER environment variable"
)
_WHERE_TO_NAME_IT: Final = (
    "set --kubeconfig, clientConnection.kubeconfig in the file of --config, or $KUBECONFIG; "
    "--kubeconfig has no effect together with --config"
)
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"


class ClusterAccess(msgspec.Struct, frozen=True):
    """How to reach an API server; `master` overrides the address in the kubeconfig.

    Without both, and outside a cluster, the files in $KUBECONFIG are used.
    """

    kubeconfig: str = ""
    master: str = ""
    in_cluster: bool = False
    # The environment variables of the process.
    environment: Mapping[str, str] = {}


def find_cluster(
    connection: ClientConnectionConfiguration,
    master: str,
    read_file: ReadFile,
    environment: Mapping[str, str],
) -> ClusterAccess:
    """Find the API server in the configuration, the flags or the pod's environment.

    Raises:
        ConfigError: no server is named, or these settings cannot work.
    """
    if connection.kubeconfig:
        _check_kubeconfig(connection.kubeconfig, master, read_file)
        access = ClusterAccess(connection.kubeconfig, master, environment=environment)
    elif master:
        access = ClusterAccess(master=master, environment=environment)
    else:
        log.warning(
            "Neither --kubeconfig nor --master was specified.  "
            "Using the inClusterConfig.  This might not work."
        )
        in_cluster = _is_in_cluster(read_file, environment)
        if not in_cluster and not environment.get("KUBECONFIG"):
            error = ConfigError(_NOTHING_PROVIDED)
            error.add_note(_WHERE_TO_NAME_IT)
            raise error
        access = ClusterAccess(in_cluster=in_cluster, environment=environment)
    return access


def _check_kubeconfig(path: str, master: str, read_file: ReadFile) -> None:
    try:
        content, _ = read_yaml(read_file(path))
    except FileNotFoundError as exc:
        raise ConfigError(open_error(path, exc, "stat")) from exc
    except OSError as exc:
        raise ConfigError(
            f"error loading config file {quote(path)}: {open_error(path, exc)}"
        ) from exc
    except ConfigError as exc:
        raise ConfigError(f"error loading config file {quote(path)}: {exc}") from exc
    if not content and not master:
        raise ConfigError(_NOTHING_PROVIDED)


def _is_in_cluster(read_file: ReadFile, environment: Mapping[str, str]) -> bool:
    if not all(environment.get(f"KUBERNETES_SERVICE_{part}") for part in ("HOST", "PORT")):
        return False
    try:
        read_file(_TOKEN)
    except OSError:
        return False
    return True
