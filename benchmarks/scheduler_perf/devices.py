"""Stand-ins for a device driver and for the claim controller.

A driver publishes the devices of its nodes. Claims of templates are created for each pod, and
deleted with it. Claims may also be allocated in advance: with the first free device if a driver
published devices, otherwise by the scheduler's own search, as in the reference's runner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from benchmarks.scheduler_perf.allocating import allocate_by_search
from benchmarks.scheduler_perf.cluster import Cluster
from benchmarks.scheduler_perf.templates import Json

__all__ = ["DeviceDriver", "allocate_claims", "create_claims", "delete_claims"]

API_VERSION = "resource.k8s.io/v1"


class DeviceDriver:
    """Equal devices on every node whose name matches."""

    def __init__(self, name: str, nodes: str, devices_per_node: int) -> None:
        self.name = name
        self._nodes = nodes
        self._devices_per_node = devices_per_node
        self._free: Iterator[tuple[str, str]] | None = None

    def slices(self, cluster: Cluster) -> Iterator[Json]:
        devices = [{"name": device} for device in self._device_names()]
        for node in self._node_names(cluster):
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            yield {
                "apiVersion": API_VERSION,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-{self.name}"},
                "spec": {"driver": self.name, "nodeName": node, "pool": pool, "devices": devices},
            }

    def take(self, cluster: Cluster) -> tuple[str, str] | None:
        """The node and the name of a device that is free until now."""
        if self._free is None:
            self._free = product(self._node_names(cluster), self._device_names())
        return next(self._free, None)

    def _node_names(self, cluster: Cluster) -> list[str]:
        names = (record.data["metadata"]["name"] for record in cluster.records("v1", "Node"))
        return [name for name in names if fnmatchcase(name, self._nodes)]

    def _device_names(self) -> list[str]:
        return [f"instance-{number:02d}" for number in range(self._devices_per_node)]


def allocate_claims(cluster: Cluster, drivers: Sequence[DeviceDriver], namespace: str) -> None:
    """Allocate a device to every claim of the namespace."""
    if not drivers:
        allocate_by_search(cluster, namespace)
        return
    for record in cluster.records(API_VERSION, "ResourceClaim", namespace):
        claim = record.data
        if claim.get("status", {}).get("allocation"):
            continue
        allocation = _allocation(cluster, drivers, claim)
        document = {"apiVersion": API_VERSION, "kind": "ResourceClaim", **claim}
        document["status"] = {"allocation": allocation}
        cluster.replace(document, namespace, ("status",))


def _allocation(cluster: Cluster, drivers: Sequence[DeviceDriver], claim: Json) -> Json:
    for driver in drivers:
        found = driver.take(cluster)
        if found is None:
            continue
        node, device = found
        results = [
            {"request": request["name"], "driver": driver.name, "pool": node, "device": device}
            for request in claim["spec"]["devices"]["requests"][:1]
        ]
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        }
    raise ValueError(f"no device is left for claim {claim['metadata']['name']}")


def create_claims(cluster: Cluster, pod: Json) -> None:
    """The claims that a pod names by template, and their names in the pod's status."""
    metadata = pod["metadata"]
    namespace = metadata["namespace"]
    statuses: list[dict[str, Any]] = []
    for claim in pod["spec"]["resourceClaims"]:
        template_name = claim.get("resourceClaimTemplateName")
        if not template_name:
            continue
        template = next(
            record.data
            for record in cluster.records(API_VERSION, "ResourceClaimTemplate", namespace)
            if record.data["metadata"]["name"] == template_name
        )
        owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
        owner |= {"name": metadata["name"], "uid": metadata["uid"]}
        stored = cluster.create(
            {
                "apiVersion": API_VERSION,
                "kind": "ResourceClaim",
                "metadata": {
                    "generateName": f"{metadata['name']}-{claim['name']}-",
                    "ownerReferences": [owner],
                },
                "spec": template["spec"]["spec"],
            },
            namespace,
        )
        statuses.append({"name": claim["name"], "resourceClaimName": stored["metadata"]["name"]})
    if statuses:
        document = {"apiVersion": "v1", "kind": "Pod", **pod}
        document["status"] = {**pod.get("status", {}), "resourceClaimStatuses": statuses}
        cluster.replace(document, namespace, ("status",))


def delete_claims(cluster: Cluster, namespace: str) -> None:
    """Return the claims of deleted pods."""
    uids = {record.data["metadata"]["uid"] for record in cluster.records("v1", "Pod", namespace)}
    for record in cluster.records(API_VERSION, "ResourceClaim", namespace):
        owners = record.data["metadata"].get("ownerReferences", ())
        if not owners or any(owner["uid"] in uids for owner in owners):
            continue
        document = {"apiVersion": API_VERSION, "kind": "ResourceClaim", **record.data}
        if document["metadata"].get("finalizers"):
            metadata = {**document["metadata"], "finalizers": []}
            cluster.replace({**document, "metadata": metadata}, namespace, ("",))
        cluster.delete(document, namespace)
