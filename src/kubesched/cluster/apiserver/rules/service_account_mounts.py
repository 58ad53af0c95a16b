"""Service account admission: sets the account, the token volume and the pull secrets of a pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["apply_service_account", "is_mirror"]

Json = dict[str, Any]

_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
# All pods use the same volume name, so that they can share their specs (`SharedSpec`).
_VOLUME = "kube-api-access-token"
_SECONDS = 3607
_MIRROR = "kubernetes.io/config.mirror"
_SOURCES: list[Json] = [
    {"serviceAccountToken": {"expirationSeconds": _SECONDS, "path": "token"}},
    {
        "configMap": {
            "name": "kube-root-ca.crt",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    },
    {
        "downwardAPI": {
            "items": [
                {
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }
            ]
        }
    },
]


def apply_service_account(pod: Json, account: Mapping[str, Any]) -> Json:
    """Return the pod with the fields that its service account provides."""
    spec = pod.get("spec")
    if not isinstance(spec, dict) or is_mirror(pod):
        return pod
    filled = dict(spec)
    filled["serviceAccountName"] = filled["serviceAccount"] = account["metadata"]["name"]
    if not filled.get("imagePullSecrets") and account.get("imagePullSecrets"):
        filled["imagePullSecrets"] = account["imagePullSecrets"]
    is_mounted = spec.get("automountServiceAccountToken")
    if is_mounted is None:
        is_mounted = account.get("automountServiceAccountToken", True)
    if is_mounted:
        _mount(filled)
    return {**pod, "spec": filled}


def is_mirror(pod: Json) -> bool:
    """Whether a pod represents one that the kubelet runs from a file."""
    return _MIRROR in _annotations(pod)


def _annotations(pod: Json) -> Mapping[str, Any]:
    metadata = pod.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}


def _mount(spec: Json) -> None:
    """Mount the token in every container that mounts nothing at its path."""
    listed = spec.get("volumes")
    volumes: list[Any] = listed if isinstance(listed, list) else []
    name = _unused_name(volumes)
    is_used = False
    for field in ("initContainers", "containers"):
        containers = spec.get(field)
        if not isinstance(containers, list):
            continue
        made = []
        for container in containers:
            mounts = container.get("volumeMounts") if isinstance(container, dict) else None
            mounts = mounts if isinstance(mounts, list) else []
            if not isinstance(container, dict) or any(
                isinstance(each, dict) and each.get("mountPath") == _PATH for each in mounts
            ):
                made.append(container)
                continue
            mount = {"name": name, "readOnly": True, "mountPath": _PATH}
            made.append({**container, "volumeMounts": [*mounts, mount]})
            is_used = True
        spec[field] = made
    if is_used:
        volume = {"name": name, "projected": {"sources": _SOURCES, "defaultMode": 420}}
        spec["volumes"] = [*volumes, volume]


def _unused_name(volumes: list[Any]) -> str:
    """Return a name for the volume. A copy of a pod has the volume of the pod already."""
    names = {each.get("name") for each in volumes if isinstance(each, dict)}
    name, number = _VOLUME, 1
    while name in names:
        number += 1
        name = f"{_VOLUME}-{number}"
    return name
