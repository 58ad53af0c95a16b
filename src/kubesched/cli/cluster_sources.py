"""Where commands that ask about a cluster take it from: files, a capture, or an API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cli.configuration_file import read_configuration
from kubesched.explain import Snapshot
from kubesched.explain.clusters.sources import load_files
from kubesched.foundation.util.standard_input import read_standard_text
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import Registry

__all__ = ["ClusterSource", "SourceOptions"]


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
    plugins: tuple[str, ...] = ()

    async def snapshot(self, namespace: str = "") -> ClusterSource:
        """The cluster: the files, or what they are laid over if they name no nodes.

        The namespace is the one to be read if not all may be.

        Raises ExplainError, ConfigError or ApiError with what is wrong and what next.
        """
        options: dict[str, Any] = {
            "configuration": self.configuration(),
            "plugins": self._registry(),
        }
        stdin = read_standard_text() if "-" in self.files else ""
        given = load_files(self.files, stdin).objects
        pods = tuple(each for each in given if isinstance(each, Pod))
        if self.capture is not None:
            base = Snapshot.from_capture(self.capture, **options)
        elif any(isinstance(each, Node) for each in given):
            return ClusterSource(Snapshot(given, **options), pods)
        else:
            base = await self._live(options, namespace)
        return ClusterSource(base.overlaid(given), pods)

    async def base_and_changes(self) -> tuple[Snapshot, tuple[ApiObject, ...]]:
        """The cluster as it is, and what the files would change of it.

        Files that name nodes are the cluster, unless a capture is; all others are changes. The
        configuration of the options is a change as well, and not the cluster's.
        """
        options: dict[str, Any] = {"plugins": self._registry()}
        given = load_files(self.files, read_standard_text() if "-" in self.files else "").objects
        if self.capture is not None:
            return Snapshot.from_capture(self.capture, **options), tuple(given)
        if any(isinstance(each, Node) for each in given):
            return Snapshot(given, **options), ()
        return await self._live(options), tuple(given)

    async def _live(self, options: dict[str, Any], namespace: str = "") -> Snapshot:
        async with live_api(self.address, "explain") as api:
            namespace = namespace or self.address.namespace()
            return await Snapshot.from_cluster(api, namespace, **options)

    def _registry(self) -> Registry:
        """All plugins: in-tree, installed, and those that the options name."""
        return complete_registry(out_of_tree_plugins(self.plugins))

    def configuration(self) -> KubeSchedulerConfiguration | None:
        if self.config_file is None:
            return None
        return read_configuration(self.config_file, out_of_tree_plugins(self.plugins))
