"""Which volume of which CSI driver is behind a volume of a pod (docs/reference/07 §8.2).

What a claim stands for is remembered until the claim, its volume or its class changes.
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

# A claim that has no volume yet counts as one; no driver knows a volume by such a name.
_UNBOUND = "unbound claim "


class MissingClaimError(VolumeClaimError):
    """A claim of the pod does not exist, so it cannot be scheduled yet."""


class _Meaning(NamedTuple):
    """The volume that a claim stands for."""

    driver: str
    handle: str
    is_migrated: bool  # it is one only on nodes that have the driver


class CsiVolumes:
    """Volumes of pods as CSI volumes: `driver/handle`, with the driver.

    `on_change` is called with the key of a claim that may stand for something else from now on,
    and with None when any of them may.
    """

    def __init__(self, handle: Handle, on_change: Callable[[str | None], None]) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)
        self._on_change = on_change
        self._meanings: dict[str, _Meaning | None] = {}  # by namespace/name
        self._asked_about: dict[str, set[str]] = {}  # volume name -> claims
        self._claims.follow(self._claim_changed)
        self._volumes.follow(self._volume_changed)
        self._classes.follow(self._class_changed)

    def of_pod(self, pod: Pod, *, is_new: bool, has_drivers: bool) -> dict[str, str]:
        """The pod's volumes. `has_drivers`: on a node that CSI drivers are registered at.

        Raises:
            MissingClaimError: a claim of a new pod does not exist.
            VolumeError: volumes cannot be told.
        """
        found: dict[str, str] = {}
        for volume in pod.spec.volumes:
            meaning = self._meaning_of(pod, volume, is_new=is_new, has_drivers=has_drivers)
            if meaning is None or (meaning.is_migrated and not has_drivers):
                continue
            if meaning.driver and meaning.handle:
                found[f"{meaning.driver}/{meaning.handle}"] = meaning.driver
        return found

    def _meaning_of(
        self, pod: Pod, volume: Volume, *, is_new: bool, has_drivers: bool
    ) -> _Meaning | None:
        name = claim_name(pod, volume)
        if name is None:
            return _inline_meaning(volume) if has_drivers else None
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
        if key not in self._meanings:
            self._meanings[key] = self._work_out(key, claim)
        return self._meanings[key]

    def _work_out(self, key: str, claim: PersistentVolumeClaim) -> _Meaning | None:
        volume_name = claim.spec.volume_name
        if volume_name:
            self._asked_about.setdefault(volume_name, set()).add(key)
            volume = self._volumes.get(volume_name)
            if volume is not None:
                return _volume_meaning(volume)
        class_name = claim_class(claim)
        found = self._classes.get(class_name) if class_name else None
        if found is None:
            return None
        plugin = csi_driver_of_provisioner(found.provisioner)
        if plugin is None:
            return _Meaning(found.provisioner, _UNBOUND + key, is_migrated=False)
        if not plugin.is_replaced:
            return None
        return _Meaning(plugin.driver, _UNBOUND + key, is_migrated=True)

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
        self._meanings.pop(key, None)
        if old is not None and (users := self._asked_about.get(old.spec.volume_name)):
            users.discard(key)
            if not users:
                del self._asked_about[old.spec.volume_name]
        self._on_change(key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and _volume_meaning(old) == _volume_meaning(new):
            return
        changed = old if new is None else new
        assert changed is not None
        for key in self._asked_about.get(changed.metadata.name, ()):
            self._meanings.pop(key, None)
            self._on_change(key)

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        if old is None or new is None or old.provisioner != new.provisioner:
            self._meanings.clear()
            self._on_change(None)


def is_counted(volume: Volume) -> bool:
    """Whether a volume may be one that a CSI driver attaches."""
    return (
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or in_tree_plugin(volume) is not None
    )


def _inline_meaning(volume: Volume) -> _Meaning | None:
    plugin = in_tree_plugin(volume)
    if plugin is None or not plugin.is_replaced:
        return None
    try:
        handle = volume_handle(plugin, volume, None)
    except MigrationError as exc:
        raise VolumeClaimError(
            f"converting volume({volume.name}) from inline to csi: {exc}"
        ) from exc
    return _Meaning(plugin.driver, handle, is_migrated=True)


def _volume_meaning(volume: PersistentVolume) -> _Meaning | None:
    csi = volume.spec.csi
    if csi is not None:
        return _Meaning(csi.driver, csi.volume_handle, is_migrated=False)
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.is_replaced:
        return None
    try:
        handle = volume_handle(plugin, volume.spec, volume.metadata.labels)
    except MigrationError:
        return None
    return _Meaning(plugin.driver, handle, is_migrated=True)
