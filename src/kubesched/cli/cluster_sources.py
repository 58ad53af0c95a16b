"""Where commands that ask about a cluster take it from: files, a capture, or an API server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.config.load import load_configuration
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.explain import Snapshot
from kubesched.explain.sources import load_files

__all__ = ["ClusterSource", "SourceOptions", "source_options"]

F = TypeVar("F", bound=Callable[..., Any])


class ClusterSource(NamedTuple):
    """A cluster, and the pods that stood in the files themselves."""

    snapshot: Snapshot
    pods: tuple[Pod, ...]


class SourceOptions(NamedTuple):
    """What the options said."""

    files: tuple[str, ...]
    capture: Path | None
    address: ClusterAddress
    config_file: Path | None

    async def snapshot(self) -> ClusterSource:
        """The cluster: the files, or what they are laid over if they name no nodes.

        Raises ExplainError, ConfigError or ApiError with what is wrong and what next.
        """
        configuration = self.configuration()
        stdin = sys.stdin.read() if "-" in self.files else ""
        given = load_files(self.files, stdin).objects
        pods = tuple(each for each in given if isinstance(each, Pod))
        if self.capture is not None:
            base = Snapshot.from_capture(self.capture, configuration=configuration)
        elif any(isinstance(each, Node) for each in given):
            return ClusterSource(Snapshot(given, configuration=configuration), pods)
        else:
            base = await self._live(configuration)
        return ClusterSource(base.overlaid(given), pods)

    async def base_and_changes(self) -> tuple[Snapshot, tuple[ApiObject, ...]]:
        """The cluster as it is, and what the files would change of it.

        Files that name nodes are the cluster, unless a capture is; all others are changes. The
        configuration of the options is a change as well, and not the cluster's.
        """
        given = load_files(self.files, sys.stdin.read() if "-" in self.files else "").objects
        if self.capture is not None:
            return Snapshot.from_capture(self.capture), tuple(given)
        if any(isinstance(each, Node) for each in given):
            return Snapshot(given), ()
        return await self._live(None), tuple(given)

    async def _live(self, configuration: KubeSchedulerConfiguration | None) -> Snapshot:
        async with live_api(self.address, "explain") as api:
            return await Snapshot.from_cluster(api, configuration=configuration)

    def configuration(self) -> KubeSchedulerConfiguration | None:
        if self.config_file is None:
            return None
        return load_configuration(self.config_file.read_bytes())


def source_options(command: F) -> F:
    """Add the options to a command, which gets them as `source`."""

    @click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        metavar="FILE",
        help="Objects of the cluster, YAML or JSON, such as a dump; may be repeated; - reads "
        "standard input. Files without nodes are laid over the capture or the live cluster: so "
        "a pod that does not exist yet is asked about.",
    )
    @click.option(
        "--capture",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="What `kubesched capture` wrote.",
    )
    @cluster_options
    @click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The KubeSchedulerConfiguration of the scheduler; default: its defaults.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        files: tuple[str, ...],
        capture: Path | None,
        address: ClusterAddress,
        config_file: Path | None,
        **options: Any,
    ) -> Any:
        source = SourceOptions(files, capture, address, config_file)
        return command(*args, source=source, **options)

    return wrapped  # type: ignore[return-value]
