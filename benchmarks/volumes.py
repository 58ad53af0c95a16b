"""Claims and volumes for the benchmarks' pods, and their updates when a pod is placed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from kubesched.api.codec import from_builtins
from kubesched.api.kinds import by_api_version_kind
from kubesched.framework import CycleState

__all__ = ["volume_objects", "written_objects"]

_PER_NODE = 2


def volume_objects(kind: str, nodes: int, pods: int) -> Iterator[Any]:
    """Make a storage class, a claim for each pod and, for the local kind, volumes on nodes."""
    is_local = kind == "local-pv"
    provisioner = "kubernetes.io/no-provisioner" if is_local else "csi.example.com"
    yield _object(
        "storage.k8s.io/v1",
        "StorageClass",
        {"name": kind},
        provisioner=provisioner,
        volumeBindingMode="WaitForFirstConsumer",
    )
    for number in range(pods):
        name = f"claim-{number:07d}"
        yield _object(
            "v1",
            "PersistentVolumeClaim",
            {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"},
            spec={
                "storageClassName": kind,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "10Gi"}},
            },
            status={"phase": "Pending"},
        )
    for number in range(nodes * _PER_NODE if is_local else 0):
        yield _local_volume(number // _PER_NODE, number % _PER_NODE)


def _local_volume(node: int, number: int) -> Any:
    node_name = f"node-{node:06d}"
    name = f"local-{node:06d}-{number}"
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return _object(
        "v1",
        "PersistentVolume",
        {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        spec={
            "capacity": {"storage": f"{10 + number}Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local-pv",
            "local": {"path": f"/mnt/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        },
        status={"phase": "Available"},
    )


def _object(api_version: str, kind: str, metadata: dict[str, Any], **parts: Any) -> Any:
    found = by_api_version_kind(api_version, kind)
    assert found is not None
    document = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}
    return from_builtins(document, found.type)


def written_objects(state: CycleState, next_version: Callable[[], str]) -> Iterator[Any]:
    """Volumes and claims as the API server has them once PreBind has written them."""
    reservation = state.read("VolumeBinding").reservation
    if reservation is None:
        return
    for changed in (*(volume for volume, _ in reservation.volumes), *reservation.claims):
        metadata = replace(changed.metadata, resource_version=next_version())
        yield replace(changed, metadata=metadata)
