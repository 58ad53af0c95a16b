"""What tells items of lists in API objects apart: the merge keys of strategic patches."""

from __future__ import annotations

from typing import Any

__all__ = ["merge_key", "with_identified_items"]

Json = dict[str, Any]

# Lists that merge item by item, and the field that identifies an item. All other lists are
# replaced whole; taints and tolerations are among them.
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
    """The field that items of a list are known by; None if they are not told apart."""
    if field == "ports" and parent == "spec":
        return "port"  # of a service; a container's ports are known by their containerPort
    return _MERGE_KEYS.get(field)


def with_identified_items(document: Json) -> Json:
    """The same, without items in metadata and status that lack what tells them apart.

    No server has such items; a file may, and whoever looks one up by its key would not find it.
    What a user asks for stays as it is.
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
