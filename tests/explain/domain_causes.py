"""Pending pods that lack a domain of their own, a suitable volume, or a node by name."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import CSIDriver, CSIStorageCapacity, PersistentVolumeClaim, Pod, StorageClass
from kubesched.api.runtime_class import RuntimeClass
from kubesched.testing import (
    make_affinity,
    make_node_selector,
    make_node_term,
    make_pod_term,
    make_pv,
    make_spread,
    make_storage_class,
)
from tests.explain.causes import WEB, ZONE, Cause, nodes, parsed, running, waiting

MANUAL = make_storage_class("manual", provisioner="kubernetes.io/no-provisioner")
ON_A = make_node_selector(("kubernetes.io/hostname", "In", "a"))
KATA = parsed(
    RuntimeClass,
    {
        "metadata": {"name": "kata"},
        "handler": "kata",
        "scheduling": {"nodeSelector": {"kata": "yes"}},
    },
)


def claim(size: str = "10Gi", mode: str = "ReadWriteOnce", **spec: object) -> PersistentVolumeClaim:
    document = {
        "metadata": {"name": "data", "namespace": "shop", "uid": "data"},
        "spec": {
            "storageClassName": "manual",
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
            **spec,
        },
    }
    made: PersistentVolumeClaim = parsed(PersistentVolumeClaim, document)
    return made


def in_class(pod: Pod, name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, runtime_class_name=name))


def class_in(zone: str) -> StorageClass:
    requirement = {"key": ZONE, "values": [zone]}
    document = {
        "metadata": {"name": "manual"},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [requirement]}],
    }
    made: StorageClass = parsed(StorageClass, document)
    return made


DOMAINS: dict[str, Cause] = {
    "anti-affinity over zones, and a pod in each": Cause(
        [
            *nodes("a", "b", labels={ZONE: "z1"}),
            *nodes("c", labels={ZONE: "z2"}),
            running("web-1", "a", labels=WEB, priority=9),
            running("web-2", "c", labels=WEB, priority=9),
        ],
        waiting(labels=WEB, affinity=make_affinity(apart=[make_pod_term(ZONE, WEB)])),
        ("one pod with app=web per zone", "every zone has one"),
        ("add a node like c in another zone (topology.kubernetes.io/zone)",),
    ),
    "other pods' anti-affinity over zones": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            running("db", "a", affinity=make_affinity(apart=[make_pod_term(ZONE, WEB)])),
        ],
        waiting(labels=WEB),
        ("pods that run there keep it away by their anti-affinity", "shop/db"),
        ("add a node like a in another zone (topology.kubernetes.io/zone)",),
    ),
    "fewer zones than minDomains": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}),
            running("web-1", "a", labels=WEB, priority=9),
            running("web-2", "b", labels=WEB, priority=9),
        ],
        waiting(labels=WEB, spread=[make_spread(ZONE, labels=WEB, min_domains=3)]),
        ("fewer than minDomains 3",),
        (
            "lower minDomains over topology.kubernetes.io/zone from 3 to 2",
            "spread over topology.kubernetes.io/zone only if possible (ScheduleAnyway)",
            "add a node like b in another zone",
        ),
    ),
    "a node by name that does not exist": Cause(
        nodes("a", "b"),
        waiting(affinity=make_affinity(node=make_node_term(fields=[("metadata.name", "In", "z")]))),
        ("it may only run on node z, which does not exist",),
        ("drop the required node affinity metadata.name In [z]",),
    ),
    "a claim that selects volumes by labels": Cause(
        [
            *nodes("a"),
            MANUAL,
            make_pv("pv-1", storage_class="manual", size="10Gi", node_selector=ON_A),
            claim(selector={"matchLabels": {"tier": "gold"}}),
        ],
        waiting(pvcs=["data"]),
        ("1 volume of it is free", "none with the labels of the claim's selector tier=gold"),
        ("label volume pv-1 tier=gold", "recreate claim shop/data without its selector"),
    ),
    "volumes that are too small, or have another access mode": Cause(
        [
            *nodes("a"),
            MANUAL,
            make_pv("pv-1", storage_class="manual", size="5Gi", node_selector=ON_A),
            make_pv("pv-2", storage_class="manual", size="20Gi", node_selector=ON_A),
            claim(mode="ReadWriteMany"),
        ],
        waiting(pvcs=["data"]),
        (
            "2 volumes of it are free, none that is suitable otherwise with the access modes "
            "ReadWriteMany (but ReadWriteOnce)",
        ),
    ),
    "a volume for a block device": Cause(
        [
            *nodes("a"),
            MANUAL,
            make_pv("pv-1", storage_class="manual", size="10Gi", node_selector=ON_A),
            claim(volumeMode="Block"),
        ],
        waiting(pvcs=["data"]),
        ("1 volume of it is free, none with the volumeMode Block (but Filesystem)",),
    ),
    "only a smaller volume is free": Cause(
        [
            *nodes("a"),
            MANUAL,
            make_pv("pv-1", storage_class="manual", size="5Gi", node_selector=ON_A),
            claim(),
        ],
        waiting(pvcs=["data"]),
        ("the largest, pv-1, has only 5Gi",),
        ("recreate claim shop/data with 5Gi (asks 10Gi)",),
    ),
    "a class that makes volumes in another zone only": Cause(
        [*nodes("a", labels={ZONE: "z1"}), class_in("z3"), claim()],
        waiting(pvcs=["data"]),
        ("class manual makes the volume of claim data only in zone z3", "where there is no node"),
        ("add a node in zone z3, where class manual makes volumes",),
    ),
    "less capacity than the claim asks for": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            make_storage_class("manual", provisioner="csi.example.com"),
            parsed(
                CSIDriver,
                {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}},
            ),
            parsed(
                CSIStorageCapacity,
                {
                    "metadata": {"name": "z1", "namespace": "storage"},
                    "storageClassName": "manual",
                    "nodeTopology": {"matchLabels": {ZONE: "z1"}},
                    "capacity": "6Gi",
                },
            ),
            claim(),
        ],
        waiting(pvcs=["data"]),
        ("no node has 10Gi of class manual left for claim data (at most 6Gi)",),
        ("recreate claim shop/data with 6Gi (asks 10Gi)",),
    ),
    "the nodes of its runtime class are cordoned": Cause(
        [KATA, *nodes("a"), *nodes("b", labels={"kata": "yes"}, unschedulable=True)],
        in_class(waiting(node_selector={"kata": "yes"}), "kata"),
        ("b is the only node that matches nodeSelector kata=yes", "cordoned"),
        ("uncordon b",),
    ),
}
