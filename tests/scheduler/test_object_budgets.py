"""The cost of one object in calls, for every list and map of each watched kind.

A cluster has one object of each kind, and pods that need them: a bound and an unbound volume, a
device, a budget, namespaces by their labels. A watch returns one of the objects with `n` items in a
list, and a pod is placed. The cost may be linear in the size of an object, but not quadratic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster.apiserver.largest_objects import fillable_fields
from tests.counted_calls import Growth, counted
from tests.fuzz.service import KINDS
from tests.scheduler.hostile_object_harness import GROUPS, HostileObjectHarness, run_steps

Json = dict[str, Any]

SIZE = 100
CALLS_PER_ITEM = 1_500
"""For two events about an object, and two attempts of a pod that needs it."""

HOSTNAME = "kubernetes.io/hostname"
DRIVER = "d.example.com"
STORAGE = {"storage": "1Gi"}
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": STORAGE}}
REQUEST = {"name": "r", "exactly": {"deviceClassName": "dc"}}
HERE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]}]}
BASES: dict[str, Json] = {
    "StorageClass": {
        "metadata": {"name": "sc"},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    "CSIDriver": {"metadata": {"name": DRIVER}, "spec": {"storageCapacity": True}},
    "CSINode": {
        "metadata": {"name": "n0"},
        "spec": {
            "drivers": [
                {
                    "name": DRIVER,
                    "nodeID": "n0",
                    "topologyKeys": [HOSTNAME],
                    "allocatable": {"count": 5},
                }
            ]
        },
    },
    "CSIStorageCapacity": {
        "metadata": {"name": "capacity"},
        "storageClassName": "sc",
        "capacity": "100Gi",
        "nodeTopology": {"matchExpressions": [{"key": HOSTNAME, "operator": "Exists"}]},
    },
    "PersistentVolume": {
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": STORAGE,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "sc",
            "csi": {"driver": DRIVER, "volumeHandle": "h"},
            "claimRef": {"namespace": "default", "name": "bound", "uid": "u"},
            "nodeAffinity": {"required": HERE},
        },
    },
    "PersistentVolumeClaim": {
        "metadata": {"name": "bound", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {**CLAIM, "storageClassName": "sc", "volumeName": "pv"},
    },
    "VolumeAttachment": {
        "metadata": {"name": "va"},
        "spec": {"attacher": DRIVER, "nodeName": "n0", "source": {"persistentVolumeName": "pv"}},
    },
    "DeviceClass": {
        "metadata": {"name": "dc"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver != ''"}}]},
    },
    "ResourceSlice": {
        "metadata": {"name": "slice"},
        "spec": {
            "driver": DRIVER,
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n0",
            "devices": [{"name": f"d{number}"} for number in range(3)],
        },
    },
    "ResourceClaim": {
        "metadata": {"name": "rc"},
        "spec": {"devices": {"requests": [REQUEST]}},
    },
    "PodDisruptionBudget": {
        "metadata": {"name": "pdb"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
    },
    "PodGroup": {
        "metadata": {"name": "group"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
    },
    "Namespace": {"metadata": {"name": "other"}},
    "Node": {"metadata": {"name": "n0"}},
    "Service": {
        "metadata": {"name": "svc"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 1}]},
    },
}
"""One object of each kind that the scheduler watches, besides pods."""

TO_BE_BOUND = {"metadata": {"name": "wanted"}, "spec": {**CLAIM, "storageClassName": "sc"}}


def near(**selector: Any) -> Json:
    term = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchLabels": {"a": "z"}},
        "namespaceSelector": selector,
    }
    return {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }


def volume(claim: str) -> Json:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


DEVICES: Json = {"resourceClaims": [{"name": "r", "resourceClaimName": "rc"}]}
NEEDS: dict[str, Json] = {
    "StorageClass": {"volumes": [volume("wanted")]},
    "CSIStorageCapacity": {"volumes": [volume("wanted")]},
    "CSIDriver": {"volumes": [volume("bound"), volume("wanted")]},
    "CSINode": {"volumes": [volume("bound"), volume("wanted")]},
    "VolumeAttachment": {"volumes": [volume("bound")]},
    "PersistentVolume": {"volumes": [volume("bound"), volume("wanted")]},
    "PersistentVolumeClaim": {"volumes": [volume("bound")]},
    "DeviceClass": DEVICES,
    "ResourceSlice": DEVICES,
    "ResourceClaim": DEVICES,
    "Namespace": {"affinity": near(matchLabels={"team": "x"})},
    "PodDisruptionBudget": {
        "priority": 10,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}],
    },
    "PodGroup": {"schedulingGroup": {"podGroupName": "group"}},
    "Node": {"tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}]},
}
"""The fields of a pod that make its attempt read an object of the kind."""


def create(harness: HostileObjectHarness, kind: str, document: Json) -> None:
    resource = KINDS[kind]
    namespace = "default" if resource.namespaced else None
    harness.network.store.create(resource, namespace, document, harness.network.store._now_ns)


def gates_of(kind: str) -> Mapping[str, bool]:
    """Return the feature gates with which the scheduler watches a kind."""
    return GROUPS if kind == "PodGroup" else {}


async def furnish(harness: HostileObjectHarness) -> None:
    for kind, document in BASES.items():
        if kind != "Node":
            create(harness, kind, document)
    create(harness, "PersistentVolumeClaim", TO_BE_BOUND)
    harness.lies["bound"] = {"metadata": {"uid": "u"}, "status": {"phase": "Bound"}}
    harness.lies["pv"] = {"status": {"phase": "Bound"}}
    for number in range(3):
        labels = {"a": "b"}
        await harness.add_pod(
            f"victim{number}", node_name=f"n{number}", labels=labels, requests={"cpu": "5"}
        )
    await asyncio.sleep(1)


def show(harness: HostileObjectHarness, kind: str, lie: Json) -> None:
    """Deliver a false object through a watch."""
    resource, name = KINDS[kind], BASES[kind]["metadata"]["name"]
    if name in ("bound", "pv"):
        lie = {**lie, "status": {**lie.get("status", {}), "phase": "Bound"}}
    if name == "bound":
        lie = {**lie, "metadata": {**lie.get("metadata", {}), "uid": "u"}}
    harness.lies[name] = lie
    store = harness.network.store
    patch = {"metadata": {"annotations": {"seen": str(harness.ticket())}}}
    namespace = "default" if resource.namespaced else None
    store.patch(resource, namespace, name, patch, store._now_ns, patch_type="merge")


async def attempt(harness: HostileObjectHarness, kind: str, lie: Json) -> None:
    show(harness, kind, lie)
    await asyncio.sleep(0.5)
    name = f"needs{harness.ticket()}"
    await harness.add_pod(name, {"spec": NEEDS.get(kind, {}), "metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(3)
    show(harness, kind, lie)
    await asyncio.sleep(2)
    await harness.delete_pod(name)
    show(harness, kind, {})
    await asyncio.sleep(30)  # all retries have ended


@pytest.mark.parametrize("kind", BASES)
def test_every_list_of_every_kind_costs_no_more_than_its_items(kind: str) -> None:
    resource = KINDS[kind]

    async def steps(harness: HostileObjectHarness) -> None:
        await furnish(harness)
        for place in fillable_fields(resource):

            def lie(count: int, place: Any = place) -> Json:
                made = place.filled(count, BASES[kind]["metadata"]["name"])
                made["metadata"].pop("name")
                return made

            await attempt(harness, kind, lie(4 * SIZE))  # fills the caches
            small, middle, large = [
                await counted(attempt(harness, kind, lie(times * SIZE))) for times in (1, 2, 4)
            ]
            growth = Growth((middle - small) / SIZE, (large - middle) / (2 * SIZE))
            # A loop in a loop has 300 calls an item among few, and 600 among many.
            assert growth.among_many <= 1.5 * max(0, growth.among_few) + 20, (str(place), growth)
            assert growth.among_many <= CALLS_PER_ITEM, (str(place), growth)

    run_steps(steps, gates_of(kind))
