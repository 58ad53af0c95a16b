"""The details of a node: its pods, devices and volumes, and which pods use them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kubesched.api import CSINode, PersistentVolumeClaim, Pod, ResourceClaim, ResourceSlice
from kubesched.dashboard.page_state import PageState
from kubesched.dashboard.rows import node_row, pod_row

__all__ = ["node_detail"]

_ATTRIBUTES_SHOWN = 6


def node_detail(state: PageState, name: str) -> dict[str, Any] | None:
    """Return the details of a node; None if it does not exist."""
    facts = state.view.facts(name)
    if facts is None:
        return None
    pods, node = state.view.pods_on(name), facts.node
    return {
        **node_row(facts),
        "labels": node.metadata.labels,
        "created": node.metadata.creation_timestamp or "",
        "list": sorted(map(pod_row, pods), key=lambda pod: (-pod["cpu"], pod["key"])),
        "devices": _devices(state, name),
        "volumes": _volumes(state, pods),
        "volumeLimits": _volume_limits(state, name),
    }


def _devices(state: PageState, name: str) -> list[dict[str, Any]]:
    """Return the devices that slices offer on this node, and the pods that use them."""
    users: dict[tuple[str, str, str], list[str]] = {}
    for claim in state.of_kind(ResourceClaim):
        if claim.status.allocation is None:
            continue
        namespace = claim.metadata.namespace
        names = [f"{namespace}/{each.name}" for each in claim.status.reserved_for]
        for result in claim.status.allocation.devices.results:
            place = (result.driver, result.pool, result.device)
            users.setdefault(place, []).extend(names or [f"{namespace}/{claim.metadata.name}"])
    found = []
    for slice_ in state.of_kind(ResourceSlice):
        spec = slice_.spec
        for device in spec.devices:
            if (spec.node_name or device.node_name) != name:
                continue
            found.append(
                {
                    "driver": spec.driver,
                    "pool": spec.pool.name,
                    "name": device.name,
                    "facts": _facts(device),
                    "taints": [f"{each.key}:{each.effect}" for each in device.taints],
                    "usedBy": users.get((spec.driver, spec.pool.name, device.name), []),
                }
            )
    return sorted(found, key=lambda each: (each["driver"], each["pool"], each["name"]))


def _facts(device: Any) -> list[str]:
    """Return attributes and capacities of a device as short texts."""
    facts = []
    for name, value in device.attributes.items():
        values = (value.int_value, value.bool_value, value.string_value, value.version_value)
        shown = next((each for each in values if each is not None), None)
        if shown is not None:
            facts.append(f"{name} {shown}")
    facts += [f"{name} {each.value}" for name, each in device.capacity.items()]
    return facts[:_ATTRIBUTES_SHOWN]


def _volumes(state: PageState, pods: list[Pod]) -> list[dict[str, Any]]:
    """Return the claims that the pods of a node use."""
    used: dict[tuple[str, str], list[str]] = {}
    for pod in pods:
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                claim_name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                claim_name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            place = (namespace, claim_name)
            used.setdefault(place, []).append(f"{namespace}/{pod.metadata.name}")
    if not used:
        return []
    claims = {
        (each.metadata.namespace, each.metadata.name): each
        for each in state.of_kind(PersistentVolumeClaim)
    }
    return [_claim_row(place, claims.get(place), users) for place, users in sorted(used.items())]


def _claim_row(
    place: tuple[str, str], claim: PersistentVolumeClaim | None, users: list[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"name": "/".join(place), "usedBy": users, "phase": "missing"}
    if claim is not None:
        size = claim.status.capacity.get("storage") or claim.spec.resources.requests.get("storage")
        row["phase"] = claim.status.phase or "Pending"
        row["class"] = claim.spec.storage_class_name or ""
        row["size"] = str(size or "")
        row["volume"] = claim.spec.volume_name
    return row


def _volume_limits(state: PageState, name: str) -> list[dict[str, Any]]:
    """Return how many volumes each driver can attach to this node, if it has a limit."""
    limits: Counter[str] = Counter()
    for node in state.of_kind(CSINode):
        if node.metadata.name != name:
            continue
        for driver in node.spec.drivers:
            if driver.allocatable is not None and driver.allocatable.count is not None:
                limits[driver.name] = driver.allocatable.count
    return [{"driver": driver, "limit": limit} for driver, limit in sorted(limits.items())]
