"""The CSI volume behind each volume of a pod (docs/reference/07 §8.2).

The CSI volume of a claim is cached until the claim, its volume or its class changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume
from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.csi_migration import (
    MigrationError,
    csi_driver_of_provisioner,
    in_tree_plugin,
    volume_handle,
)
from kubesched.scheduler.plugins.helpers.volume_claims import (
    VolumeClaimError,
    claim_class,
    claim_name,
    not_found,
    ownership_problem,
)

__all__ = ["CsiVolumes", "MissingClaimError", "is_counted"]

# A claim without a volume counts as one volume. The space distinguishes the name from real handles.
_UNBOUND = "unbound claim "


class MissingClaimError(VolumeClaimError):
    """A claim of the pod does not exist; the pod cannot be scheduled until it does."""


class _CsiVolume(NamedTuple):
    """The CSI volume behind a claim or an in-tree volume."""

    driver: str
    handle: str
    is_migrated: bool  # it counts only on nodes at which CSI drivers are registered


class CsiVolumes:
    """Maps volumes of pods to CSI volumes: `driver/handle` -> driver.

    Calls `on_change` with the key of a claim whose CSI volume may have changed, or with None if
    that of any claim may have.
    """

    def __init__(self, handle: Handle, on_change: Callable[[str | None], None]) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)
        self._on_change = on_change
        self._csi_volumes: dict[str, _CsiVolume | None] = {}  # namespace/name of the claim ->
        self._claims_of_volume: dict[str, set[str]] = {}  # volume name -> keys of claims
        self._claims.follow(self._claim_changed)
        self._volumes.follow(self._volume_changed)
        self._classes.follow(self._class_changed)

    def of_pod(self, pod: Pod, *, is_new: bool, has_drivers: bool) -> dict[str, str]:
        """Return the pod's CSI volumes.

        `has_drivers` says whether the node has a CSINode.

        Raises:
            MissingClaimError: a claim of a new pod does not exist.
            VolumeClaimError: the volumes cannot be determined.
        """
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            csi = self._csi_volume_of(pod, volume, is_new=is_new, has_drivers=has_drivers)
            if csi is None or (csi.is_migrated and not has_drivers):
                continue
            if csi.driver and csi.handle:
                found[f"{csi.driver}/{csi.handle}"] = csi.driver
        return found

    def _csi_volume_of(
        self, pod: Pod, volume: Volume, *, is_new: bool, has_drivers: bool
    ) -> _CsiVolume | None:
        name = claim_name(pod, volume)
        if name is None:
            return _inline_csi_volume(volume) if has_drivers else None
        if not name:
            raise VolumeClaimError("PersistentVolumeClaim had no name")
        namespace = pod.metadata.namespace
        claim = self._claims.get(name, namespace)
        if claim is None:
            if not is_new:
                return None
            cause = not_found(PersistentVolumeClaim, name)
            raise MissingClaimError(f"looking up PVC {namespace}/{name}: {cause}")
        if volume.ephemeral is not None and (problem := ownership_problem(pod, claim)):
            raise VolumeClaimError(problem)
        key = f"{namespace}/{name}"
        if key not in self._csi_volumes:
            self._csi_volumes[key] = self._resolve(key, claim)
        return self._csi_volumes[key]

    def _resolve(self, key: str, claim: PersistentVolumeClaim) -> _CsiVolume | None:
        volume_name = claim.spec.volume_name
        if volume_name:
            self._claims_of_volume.setdefault(volume_name, set()).add(key)
            volume = self._volumes.get(volume_name)
            if volume is not None:
                return _csi_volume_from(volume)
        class_name = claim_class(claim)
        found = self._classes.get(class_name) if class_name else None
        if found is None:
            return None
        plugin = csi_driver_of_provisioner(found.provisioner)
        if plugin is None:
            return _CsiVolume(found.provisioner, _UNBOUND + key, is_migrated=False)
        if not plugin.is_replaced:
            return None
        return _CsiVolume(plugin.driver, _UNBOUND + key, is_migrated=True)

    def _claim_changed(
        self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
    ) -> None:
        changed = old if new is None else new
        assert changed is not None
        key = f"{changed.metadata.namespace}/{changed.metadata.name}"
        if (
            old is not None
            and new is not None
            and old.spec.volume_name == new.spec.volume_name
            and claim_class(old) == claim_class(new)
            and old.metadata.owner_references == new.metadata.owner_references
        ):
            return
        self._csi_volumes.pop(key, None)
        if old is not None and (users := self._claims_of_volume.get(old.spec.volume_name)):
            users.discard(key)
            if not users:
                del self._claims_of_volume[old.spec.volume_name]
        self._on_change(key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and _csi_volume_from(old) == _csi_volume_from(new):
            return
        changed = old if new is None else new
        assert changed is not None
        for key in self._claims_of_volume.get(changed.metadata.name, ()):
            self._csi_volumes.pop(key, None)
            self._on_change(key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is None or new is None or old.provisioner != new.provisioner:
            self._csi_volumes.clear()
            self._on_change(None)


def is_counted(volume: Volume) -> bool:
    """Whether the volume can be one that a CSI driver attaches."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_plugin(volume) is not None
    )


def _inline_csi_volume(volume: Volume) -> _CsiVolume | None:
    plugin = in_tree_plugin(volume)
    if plugin is None or not plugin.is_replaced:
        return None
    try:
        handle = volume_handle(plugin, volume, None)
    except MigrationError as exc:
        raise VolumeClaimError(
            f"converting volume({volume.name}) from inline to csi: {exc}"
        ) from exc
    return _CsiVolume(plugin.driver, handle, is_migrated=True)


def _csi_volume_from(volume: PersistentVolume) -> _CsiVolume | None:
    csi = volume.spec.csi
    if csi is not None:
        return _CsiVolume(csi.driver, csi.volume_handle, is_migrated=False)
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.is_replaced:
        return None
    try:
        handle = volume_handle(plugin, volume.spec, volume.metadata.labels)
    except MigrationError:
        return None
    return _CsiVolume(plugin.driver, handle, is_migrated=True)
