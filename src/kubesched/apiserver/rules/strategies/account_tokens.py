"""Pods that name a service account get its token mounted, unless the account or the pod opts out.

A pod that names none is left as it is: most pods here never ask for a token, and each would carry a
volume for it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kubesched.apiserver.rules.strategies.base import Cluster, Json

__all__ = ["with_account_token"]

_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SOURCES: list[Json] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
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


def with_account_token(namespace: str, spec: Json, cluster: Cluster) -> Json:
    """The spec with the volume and its mounts; as it is if the account is not there."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if not name or spec.get("automountServiceAccountToken") is False:
        return spec
    account = next(
        (
            each
            for each in cluster.within("serviceaccounts", namespace)
            if each["metadata"]["name"] == name
        ),
        None,
    )
    named = {**spec, "serviceAccountName": name, "serviceAccount": name}
    mounts = spec.get("automountServiceAccountToken")
    if account is None or (mounts is None and account.get("automountServiceAccountToken") is False):
        return named if account is not None else spec
    containers = {
        part: [_mounted(each, namespace, name) for each in spec[part]]
        for part in ("initContainers", "containers")
        if spec.get(part)
    }
    if all(containers[part] == spec[part] for part in containers):
        return named  # somebody has seen to it already
    projected = {"defaultMode": 420, "sources": _SOURCES}
    volume = {"name": _volume_name(namespace, name), "projected": projected}
    return {**named, **containers, "volumes": [*spec.get("volumes", ()), volume]}


def _mounted(container: Json, namespace: str, account: str) -> Json:
    mounts: list[Any] = container.get("volumeMounts") or []
    if any(each.get("mountPath") == _MOUNT_PATH for each in mounts):
        return container
    mount = {
        "name": _volume_name(namespace, account),
        "readOnly": True,
        "mountPath": _MOUNT_PATH,
    }
    return {**container, "volumeMounts": [*mounts, mount]}


def _volume_name(namespace: str, account: str) -> str:
    """The same for all pods of an account, so that what is known of their specs can be shared."""
    digest = hashlib.sha256(f"{namespace}/{account}".encode()).digest()
    return "kube-api-access-" + "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:5])
