"""Sources of the cluster that a command reads: files, a capture, or an API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.api.time import parse_time
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cli.configuration_file import read_configuration
from kubesched.explain import ExplainError, Snapshot
from kubesched.explain.clusters.sources import load_files
from kubesched.explain.recordings.past_clusters import capture_at
from kubesched.foundation.util.standard_input import read_standard_text
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import Registry

__all__ = ["ClusterSource", "SourceOptions"]


class ClusterSource(NamedTuple):
    """The snapshot of a cluster, and the pods of the first file (`load_files`)."""

    snapshot: Snapshot
    pods: tuple[Pod, ...]
    # The namespace of names without one: that of the context, for a live cluster.
    namespace: str = "default"


class SourceOptions(NamedTuple):
    """The values of `source_options`."""

    files: tuple[str, ...]
    capture: Path | None
    address: ClusterAddress
    config_file: Path | None
    plugins: tuple[str, ...] = ()
    recorded: Path | None = None  # a flight recording, instead of the capture
    recorded_at: str = ""  # RFC 3339; empty: its end

    async def snapshot(self, namespace: str = "") -> ClusterSource:
        """Read the cluster: the files, or what they overlay if they contain no nodes.

        `namespace` is read if the user may not read all namespaces.

        Raises:
            ExplainError: a file or the capture cannot be used.
            ConfigError: the configuration is invalid, or no cluster is named.
            ApiError: the API server refuses a request.
        """
        options: dict[str, Any] = {
            "configuration": self.configuration(),
            "plugins": self.registry(),
        }
        stdin = read_standard_text() if "-" in self.files else ""
        loaded = load_files(self.files, stdin)
        objects, pods = loaded.objects, loaded.pods
        captured = self._captured(options)
        if captured is not None:
            base = captured
        elif any(isinstance(each, Node) for each in objects):
            return ClusterSource(Snapshot(objects, unknown=loaded.unknown, **options), pods)
        else:
            base = await self._live(options, namespace)
            return ClusterSource(base.overlaid(objects), pods, self.address.namespace())
        return ClusterSource(base.overlaid(objects), pods)

    async def base_and_changes(self) -> tuple[Snapshot, tuple[ApiObject, ...]]:
        """Return the cluster, and the objects that the files would change.

        Files with nodes are the cluster, unless there is a capture; otherwise files are changes.
        The configuration of the options is also a change, and not that of the cluster.
        """
        options: dict[str, Any] = {"plugins": self.registry()}
        loaded = load_files(self.files, read_standard_text() if "-" in self.files else "")
        objects = loaded.objects
        captured = self._captured(options)
        if captured is not None:
            return captured, tuple(objects)
        if any(isinstance(each, Node) for each in objects):
            return Snapshot(objects, unknown=loaded.unknown, **options), ()
        return await self._live(options), tuple(objects)

    def _captured(self, options: dict[str, Any]) -> Snapshot | None:
        """Return the cluster of the capture or of the recording; None without them."""
        if self.capture is not None:
            return Snapshot.from_capture(self.capture, **options)
        if self.recorded is None:
            return None
        try:
            at_ns = parse_time(self.recorded_at) if self.recorded_at else None
        except ValueError as error:
            raise ExplainError(f"--at: {error}") from error
        return Snapshot.of_capture(capture_at(self.recorded, at_ns), **options)

    async def _live(self, options: dict[str, Any], namespace: str = "") -> Snapshot:
        async with live_api(self.address, "explain") as api:
            namespace = namespace or self.address.namespace()
            return await Snapshot.from_cluster(api, namespace, **options)

    def registry(self) -> Registry:
        """Return all plugins: in-tree, installed, and named by options."""
        return complete_registry(out_of_tree_plugins(self.plugins))

    def configuration(self) -> KubeSchedulerConfiguration | None:
        if self.config_file is None:
            return None
        return read_configuration(self.config_file, out_of_tree_plugins(self.plugins))
