"""VolumeAttachments by node: volumes that are attached even if no pod uses them."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import PersistentVolume, VolumeAttachment
from kubesched.framework import Handle

__all__ = ["Attachments"]


class Attachments:
    """Indexes VolumeAttachments by node; calls `on_change` with the name of the node."""

    def __init__(self, handle: Handle, on_change: Callable[[str], None]) -> None:
        self._volumes = handle.lister(PersistentVolume)
        self._on_change = on_change
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._nodes_of: dict[str, set[str]] = {}  # volume name -> nodes
        handle.lister(VolumeAttachment).follow(self._attachment_changed)
        self._volumes.follow(self._volume_changed)

    def on_node(self, name: str) -> dict[str, str]:
        """Return the volumes attached to a node: `driver/handle` -> driver."""
        attached: dict[str, str] = {}
        for each in self._by_node.get(name, {}).values():
            volume_name = each.spec.source.persistent_volume_name
            volume = self._volumes.get(volume_name) if volume_name else None
            if each.spec.attacher and volume is not None and volume.spec.csi is not None:
                driver = each.spec.attacher
                attached[f"{driver}/{volume.spec.csi.volume_handle}"] = driver
        return attached

    def _attachment_changed(
        self, old: VolumeAttachment | None, new: VolumeAttachment | None
    ) -> None:
        if old is not None:
            self._remove(old)
            self._on_change(old.spec.node_name)
        if new is not None:
            self._by_node.setdefault(new.spec.node_name, {})[new.metadata.name] = new
            if volume_name := new.spec.source.persistent_volume_name:
                self._nodes_of.setdefault(volume_name, set()).add(new.spec.node_name)
            self._on_change(new.spec.node_name)

    def _remove(self, old: VolumeAttachment) -> None:
        node, volume_name = old.spec.node_name, old.spec.source.persistent_volume_name
        left = self._by_node.get(node, {})
        left.pop(old.metadata.name, None)
        if not left:
            self._by_node.pop(node, None)
        nodes = self._nodes_of.get(volume_name or "")
        if nodes is None or any(
            each.spec.source.persistent_volume_name == volume_name for each in left.values()
        ):
            return
        nodes.discard(node)
        if not nodes:
            del self._nodes_of[volume_name or ""]

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        nodes = self._nodes_of.get(changed.metadata.name)
        if not nodes or (old is not None and new is not None and old.spec.csi == new.spec.csi):
            return
        for node in nodes:
            self._on_change(node)
