"""The oracle of volumes and devices: a bound pod owns them, and its node can reach them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import convert

from kubesched.api import NodeSelector, Pod
from kubesched.api.node_selector import NodeMatcher
from kubesched.cluster.apiserver import Store

__all__ = ["allocated_devices", "device_violations", "volume_violations"]

Json = dict[str, Any]
_CLAIMS = "resourceclaims.resource.k8s.io"
_ONE_POD = "ReadWriteOncePod"


def volume_violations(store: Store, pod: Json, known: Iterable[Pod]) -> Iterator[str]:
    """Return what is wrong with the volumes of a pod; `known` are pods that its scheduler has."""
    node_name = pod["spec"]["nodeName"]
    node = store.find("nodes", node_name)
    for volume in pod["spec"].get("volumes", ()):
        wanted = volume.get("persistentVolumeClaim")
        if wanted is None:
            continue
        claim = store.find("persistentvolumeclaims", f"default/{wanted['claimName']}")
        if claim is None or not claim["spec"].get("volumeName"):
            yield f"its claim {wanted['claimName']} has no volume"
            continue
        if _ONE_POD in claim["spec"].get("accessModes", ()):
            for name in _other_users(pod, known, wanted["claimName"]):
                yield f"its claim {wanted['claimName']} is for one pod, and {name} uses it"
        found = store.find("persistentvolumes", claim["spec"]["volumeName"])
        affinity = None if found is None else found["spec"].get("nodeAffinity")
        if affinity is not None and node is not None:
            labels = node["metadata"].get("labels", {})
            if not _selects(affinity["required"], labels, node_name):
                yield f"its volume {claim['spec']['volumeName']} is on another node"


def _other_users(pod: Json, known: Iterable[Pod], claim: str) -> Iterator[str]:
    """Return the names of other known pods that use a claim."""
    for other in known:
        if other.metadata.uid != pod["metadata"]["uid"] and any(
            each.persistent_volume_claim is not None
            and each.persistent_volume_claim.claim_name == claim
            for each in other.spec.volumes
        ):
            yield other.metadata.name


def device_violations(store: Store, pod: Json) -> Iterator[str]:
    """Return what is wrong with the devices of a pod."""
    metadata = pod["metadata"]
    node = store.find("nodes", pod["spec"]["nodeName"])
    for claim_name in _claim_names(pod):
        claim = store.find(_CLAIMS, f"default/{claim_name}")
        status = {} if claim is None else claim.get("status", {})
        users = [each["uid"] for each in status.get("reservedFor", ())]
        if metadata["uid"] not in users:
            yield f"its claim {claim_name} is not reserved for it"
        allocation = status.get("allocation")
        if allocation is None:
            yield f"its claim {claim_name} has no devices"
        elif node is not None:
            selector = allocation.get("nodeSelector")
            labels = node["metadata"].get("labels", {})
            homes = {
                _home_of(store, driver, pool) for driver, pool, _ in allocated_devices(allocation)
            }
            if (
                selector is not None and not _selects(selector, labels, pod["spec"]["nodeName"])
            ) or not homes <= {None, pod["spec"]["nodeName"]}:
                yield f"devices of its claim {claim_name} are on another node"


def _home_of(store: Store, driver: str, pool: str) -> str | None:
    """Return the node of a pool's devices; None if there are several or none."""
    homes = {
        each["spec"].get("nodeName")
        for each in store.all("resourceslices.resource.k8s.io")
        if (each["spec"]["driver"], each["spec"]["pool"]["name"]) == (driver, pool)
    }
    return homes.pop() if len(homes) == 1 else None


def _selects(selector: Json, labels: Json, name: str) -> bool:
    return NodeMatcher.parse(convert(selector, NodeSelector)).matches(labels, name)


def _claim_names(pod: Json) -> Iterable[str]:
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    # The scheduler creates a claim for extended resources that devices serve.
    if extended := pod.get("status", {}).get("extendedResourceClaimStatus"):
        yield extended["resourceClaimName"]
    for each in pod["spec"].get("resourceClaims", ()):
        name = each.get("resourceClaimName") or made.get(each["name"])
        if name:
            yield name


def allocated_devices(allocation: Json) -> Iterator[tuple[str, str, str]]:
    """Return driver, pool and name of each device of an allocation."""
    for result in allocation.get("devices", {}).get("results", ()):
        yield result["driver"], result["pool"], result["device"]
