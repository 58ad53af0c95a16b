"""Tables of volumes, claims, storage classes and devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.tables.table import AGE, NAME, Column, Layout, age, wide

__all__ = ["STORAGE"]

Json = Mapping[str, Any]

_UNSET = "<unset>"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _phase(data: Json) -> str:
    if data["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(data.get("status", {}).get("phase", ""))


def _volume(data: Json, now_ns: int) -> Sequence[Any]:
    spec = data.get("spec", {})
    claim = spec.get("claimRef")
    return (
        data["metadata"]["name"],
        spec.get("capacity", {}).get("storage", ""),
        _modes(spec.get("accessModes", ())),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(data),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        data.get("status", {}).get("reason", ""),
        age(data, now_ns),
        spec.get("volumeMode", _UNSET),
    )


def _claim(data: Json, now_ns: int) -> Sequence[Any]:
    spec, status = data.get("spec", {}), data.get("status", {})
    bound = bool(spec.get("volumeName"))
    return (
        data["metadata"]["name"],
        _phase(data),
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes", ())) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or _UNSET,
        age(data, now_ns),
        spec.get("volumeMode", _UNSET),
    )


def _storage_class(data: Json, now_ns: int) -> Sequence[Any]:
    metadata = data["metadata"]
    is_default = metadata.get("annotations", {}).get(_DEFAULT_CLASS) == "true"
    return (
        metadata["name"] + (" (default)" if is_default else ""),
        data.get("provisioner", ""),
        data.get("reclaimPolicy", "Delete"),
        data.get("volumeBindingMode", "Immediate"),
        bool(data.get("allowVolumeExpansion")),
        age(data, now_ns),
    )


def _attachment(data: Json, now_ns: int) -> Sequence[Any]:
    spec = data.get("spec", {})
    return (
        data["metadata"]["name"],
        spec.get("attacher", ""),
        spec.get("source", {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        bool(data.get("status", {}).get("attached")),
        age(data, now_ns),
    )


def _csi_node(data: Json, now_ns: int) -> Sequence[Any]:
    drivers = len(data.get("spec", {}).get("drivers", ()))
    return (data["metadata"]["name"], drivers, age(data, now_ns))


def _named(data: Json, now_ns: int) -> Sequence[Any]:
    return (data["metadata"]["name"], age(data, now_ns))


def _resource_claim(data: Json, now_ns: int) -> Sequence[Any]:
    status = data.get("status", {})
    states = []
    if data["metadata"].get("deletionTimestamp"):
        states.append("deleted")
    if "allocation" not in status:
        if not states:
            states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return (data["metadata"]["name"], ",".join(states), age(data, now_ns))


def _resource_slice(data: Json, now_ns: int) -> Sequence[Any]:
    spec = data.get("spec", {})
    return (
        data["metadata"]["name"],
        spec.get("nodeName", ""),
        spec.get("driver", ""),
        spec.get("pool", {}).get("name", ""),
        age(data, now_ns),
    )


STORAGE: dict[str, Layout] = {
    "PersistentVolume": Layout(
        (
            NAME,
            Column("Capacity"),
            Column("Access Modes"),
            Column("Reclaim Policy"),
            Column("Status"),
            Column("Claim"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            Column("Reason"),
            AGE,
            wide("VolumeMode"),
        ),
        _volume,
    ),
    "PersistentVolumeClaim": Layout(
        (
            NAME,
            Column("Status"),
            Column("Volume"),
            Column("Capacity"),
            Column("Access Modes"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ),
        _claim,
    ),
    "StorageClass": Layout(
        (
            NAME,
            Column("Provisioner"),
            Column("ReclaimPolicy"),
            Column("VolumeBindingMode"),
            Column("AllowVolumeExpansion", type="boolean"),
            AGE,
        ),
        _storage_class,
    ),
    "VolumeAttachment": Layout(
        (
            NAME,
            Column("Attacher", format="name"),
            Column("PV"),
            Column("Node"),
            Column("Attached", type="boolean"),
            AGE,
        ),
        _attachment,
    ),
    "CSINode": Layout((NAME, Column("Drivers", type="integer"), AGE), _csi_node),
    "DeviceClass": Layout((NAME, AGE), _named),
    "ResourceClaimTemplate": Layout((NAME, AGE), _named),
    "ResourceClaim": Layout((NAME, Column("State"), AGE), _resource_claim),
    "ResourceSlice": Layout(
        (NAME, Column("Node"), Column("Driver"), Column("Pool"), AGE), _resource_slice
    ),
}
