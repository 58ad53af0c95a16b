"""Merge keys: the fields that identify items of lists in strategic merge patches."""

from __future__ import annotations

from typing import Any

__all__ = ["merge_key", "remove_unidentified_items"]

Json = dict[str, Any]

# The merge key of each list that merges item by item. A patch replaces all other lists, among
# them taints and tolerations, as a whole.
_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "reservedFor": "uid",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}


def merge_key(field: str, parent: str) -> str | None:
    """Return the field that identifies the items of a list; None if a patch replaces the list."""
    if field == "ports" and parent == "spec":
        return "port"  # of a service; the merge key of a container's ports is containerPort
    return _MERGE_KEYS.get(field)


def remove_unidentified_items(document: Json) -> Json:
    """Remove items without a merge key from the lists in metadata and status.

    No server has such items, but a file may, and lookups by key would not find them. The spec is
    not changed.
    """
    return {
        field: _identified(field, value, "") if field in ("metadata", "status") else value
        for field, value in document.items()
    }


def _identified(field: str, value: Any, parent: str) -> Any:
    if isinstance(value, dict):
        return {name: _identified(name, each, field) for name, each in value.items()}
    if not isinstance(value, list | tuple):
        return value
    key = merge_key(field, parent)
    return [
        _identified(field, each, parent) if isinstance(each, dict) else each
        for each in value
        if key is None or not isinstance(each, dict) or each.get(key) is not None
    ]
