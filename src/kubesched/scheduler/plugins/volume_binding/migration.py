"""In-tree volumes on nodes that use a CSI driver for them.

The rules are in docs/reference/07 §4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import CSINode, PersistentVolume
from kubesched.framework import Lister, NodeView
from kubesched.scheduler.plugins.helpers.csi_migration import (
    MIGRATED_PLUGINS,
    InTreePlugin,
    MigrationError,
    in_tree_plugin,
    is_migrated_on,
    with_csi_topology,
)
from kubesched.scheduler.plugins.helpers.node_names import NodeNames
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError

__all__ = ["Migration", "replaced_plugin", "translate"]


class Migration:
    """Tracks which in-tree plugins each node has migrated to CSI drivers."""

    def __init__(self, nodes: Lister[CSINode]) -> None:
        self._nodes = nodes
        self._migrated: dict[str, NodeNames] = {}  # plugin -> nodes
        nodes.follow(self._changed)

    def translated(self, volume: PersistentVolume, node_name: str) -> PersistentVolume:
        """Return the volume in the form for the node's plugin or driver.

        Raises:
            VolumeClaimError: the CSI driver does not support the volume.
        """
        plugin = replaced_plugin(volume)
        if plugin is None or not is_migrated_on(plugin, self._nodes.get(node_name)):
            return volume
        return translate(plugin, volume)

    def migrated(self, plugin: InTreePlugin, nodes: NodeView) -> NDArray[np.bool_]:
        """Return the nodes that use the CSI driver for the plugin's volumes."""
        names = self._migrated.get(plugin.name)
        return np.zeros(len(nodes), dtype=bool) if names is None else names.mask(nodes)

    def _changed(self, old: CSINode | None, new: CSINode | None) -> None:
        before, after = _plugins(old), _plugins(new)
        for plugin in before - after:
            self._migrated[plugin].discard(_name(old))
        for plugin in after - before:
            self._migrated.setdefault(plugin, NodeNames()).add(_name(new))


def replaced_plugin(volume: PersistentVolume) -> InTreePlugin | None:
    """Return the in-tree plugin of a volume, if the scheduler supports its migration."""
    if volume.spec.csi is not None:
        return None
    plugin = in_tree_plugin(volume.spec)
    return plugin if plugin is not None and plugin.is_replaced else None


def translate(plugin: InTreePlugin, volume: PersistentVolume) -> PersistentVolume:
    """Translate the volume for the CSI driver.

    Raise VolumeClaimError if that is impossible.
    """

    try:
        return with_csi_topology(plugin, volume)
    except MigrationError as exc:
        raise VolumeClaimError(f"could not translate pv: {exc}") from exc


def _plugins(node: CSINode | None) -> set[str]:
    annotated = "" if node is None else node.metadata.annotations.get(MIGRATED_PLUGINS, "")
    return set(annotated.split(",")) if annotated else set()


def _name(node: CSINode | None) -> str:
    assert node is not None
    return node.metadata.name
