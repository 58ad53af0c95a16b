"""The minimal volume controller of the recordings: it binds at once what the scheduler chose."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.testing import FakeObjects, make_pv

__all__ = ["VolumeController"]

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class VolumeController:
    """Follows the objects. A volume with a claimRef gets its claim, a selected node a volume."""

    def __init__(self, objects: FakeObjects) -> None:
        self._objects = objects
        objects.listeners.append(self._react)

    def _react(self, _old: Any, new: Any) -> None:
        if isinstance(new, PersistentVolume):
            self._complete(new)
        elif isinstance(new, PersistentVolumeClaim):
            self._provision(new)

    def _complete(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or volume.status.phase == "Bound":
            return
        claim = self._objects.get(PersistentVolumeClaim, reference.name, reference.namespace)
        if claim is not None and not claim.spec.volume_name:
            self._bind(claim, volume)

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        if _SELECTED_NODE not in claim.metadata.annotations or claim.spec.volume_name:
            return
        volume = make_pv(
            f"pvc-{claim.metadata.uid}",
            storage_class=claim.spec.storage_class_name or "",
            size=claim.spec.resources.requests.get("storage", "0"),
            access_modes=claim.spec.access_modes,
            csi_driver="csi.example.com",
            claim=claim,
            phase="Pending",
        )
        self._bind(claim, volume)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        self._objects.put(replace(volume, status=replace(volume.status, phase="Bound")))
        annotations = {**claim.metadata.annotations, _BIND_COMPLETED: "yes"}
        self._objects.put(
            replace(
                claim,
                metadata=replace(claim.metadata, annotations=annotations),
                spec=replace(claim.spec, volume_name=volume.metadata.name),
                status=replace(claim.status, phase="Bound"),
            )
        )
