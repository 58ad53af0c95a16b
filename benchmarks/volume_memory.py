"""The memory that a scheduler needs for volumes and claims.

    python -m benchmarks.volume_memory [--volumes 50000]

Bound pairs of a CSI driver, as a server sends them, go through the client's decoders and the
informers' stores into a scheduler with the default profile. Prints one JSON line: resident memory
before and after.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from typing import Any

import click

from benchmarks.measuring import rss_mib, write_line
from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.api.codec import decode_list
from kubesched.api.sharing import ClaimSharing, VolumeSharing
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["claim_json", "measure", "volume_json"]

_PAGE = 500
Json = dict[str, Any]


def volume_json(number: int) -> Json:
    """A volume that a CSI driver made, with its claim."""
    claim = f"data-app-{number // 3}-{number % 3}"
    zone = {"key": "topology.example.com/zone", "operator": "In", "values": [f"z{number % 3}"]}
    return {
        "metadata": {
            "name": f"pvc-60000000-0000-4000-8000-{number:012d}",
            "uid": f"70000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "annotations": {
                "pv.kubernetes.io/provisioned-by": "csi.example.com",
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "capacity": {"storage": "10Gi"},
            "csi": {
                "driver": "csi.example.com",
                "fsType": "ext4",
                "volumeHandle": f"vol-{number:017x}",
                "volumeAttributes": {
                    "storage.kubernetes.io/csiProvisionerIdentity": "1700000000-csi.example.com"
                },
            },
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": f"team-{number % 50}",
                "name": claim,
                "uid": f"60000000-0000-4000-8000-{number:012d}",
                "resourceVersion": str(900 + number),
            },
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
        },
        "status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"},
    }


def claim_json(number: int) -> Json:
    """The claim of that volume, made by a StatefulSet."""
    return {
        "metadata": {
            "name": f"data-app-{number // 3}-{number % 3}",
            "namespace": f"team-{number % 50}",
            "uid": f"60000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(5000 + number),
            "creationTimestamp": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "labels": {"app": f"app-{number // 3}"},
            "annotations": {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.beta.kubernetes.io/storage-provisioner": "csi.example.com",
                "volume.kubernetes.io/selected-node": f"node-{number % 5000:06d}",
                "volume.kubernetes.io/storage-provisioner": "csi.example.com",
            },
            "finalizers": ["kubernetes.io/pvc-protection"],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "volumeName": f"pvc-60000000-0000-4000-8000-{number:012d}",
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
        },
        "status": {
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
        },
    }


def measure(volumes: int) -> dict[str, Any]:
    clock = RealClock()
    scheduler = Scheduler(LocalApi(Store(derive(0, "store")), clock), clock, share_parts=True)
    gc.collect()
    before_mib = rss_mib()
    kinds: tuple[tuple[type[Any], Callable[[int], Json], Callable[[Any, Any], Any]], ...] = (
        (PersistentVolume, volume_json, VolumeSharing().share),
        (PersistentVolumeClaim, claim_json, ClaimSharing().share),
    )
    for kind, make, share in kinds:
        informer = scheduler.informers.informer(kind)
        listed: list[Any] = []
        for start in range(0, volumes, _PAGE):
            items = [make(number) for number in range(start, min(start + _PAGE, volumes))]
            page = json.dumps({"metadata": {"resourceVersion": "9"}, "items": items}).encode()
            listed += (share(each, None) for each in decode_list(page, kind).items)
        informer.store.replace(listed)
        del listed
    gc.collect()
    after_mib = rss_mib()
    return {
        "benchmark": "volume_memory",
        "volumes": volumes,
        "rss_before_mib": before_mib,
        "rss_after_mib": after_mib,
        "more_mib": round(after_mib - before_mib, 1),
    }


@click.command(help=__doc__)
@click.option("--volumes", default=50_000, show_default=True, help="And as many claims.")
def main(volumes: int) -> None:
    write_line(measure(volumes))


if __name__ == "__main__":
    main()
