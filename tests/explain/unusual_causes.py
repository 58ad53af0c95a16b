"""Pending pods with unusual causes."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubesched.api import Pod, PodCondition, ResourceSlice
from kubesched.testing import (
    make_affinity,
    make_container,
    make_csi_node,
    make_node_selector,
    make_pdb,
    make_pod,
    make_pod_term,
    make_pv,
    make_pvc,
    make_spread,
    make_storage_class,
)
from tests.explain.causes import (
    HOST,
    ROOM,
    WEB,
    ZONE,
    Cause,
    device_claim,
    device_class,
    nodes,
    parsed,
    running,
    waiting,
)

SMALL = {"cpu": "1", "memory": "1Gi", "pods": "10"}
DOWN = ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"]
CREATED = "2026-01-01T00:00:00Z"


def tainted_slice(node: str, *devices: str) -> ResourceSlice:
    taint = {"key": "example.com/unhealthy", "value": "ecc", "effect": "NoSchedule"}
    document: dict[str, Any] = {
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": each, "taints": [taint]} for each in devices],
        },
    }
    made: ResourceSlice = parsed(ResourceSlice, document)
    return made


def told(pod: Pod, message: str) -> Pod:
    """Return a pod with this condition, as written by a scheduler."""
    condition = PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message=message
    )
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


def finalized(pod: Pod, *finalizers: str) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, finalizers=finalizers))


def leaving(each: Any) -> Any:
    return replace(each, metadata=replace(each.metadata, deletion_timestamp=CREATED))


UNUSUAL: dict[str, Cause] = {
    "two causes on two groups of nodes": Cause(
        [
            *nodes("cpu-1", "cpu-2", "cpu-3", taints=["batch=yes:NoSchedule"]),
            *nodes("big-1", "big-2", allocatable=SMALL),
        ],
        waiting(requests={"cpu": "2"}),
        ("Insufficient cpu", "asks 2", "untolerated taint batch=yes", "3"),
        ("tolerate batch=yes:NoSchedule",),
    ),
    "two gates": Cause(
        nodes("a"),
        waiting(gates=["example.com/quota", "kueue.x-k8s.io/admission"]),
        ("scheduling gates example.com/quota, kueue.x-k8s.io/admission", "remove them"),
    ),
    "a gate, and no node behind it either": Cause(
        nodes("a"),
        waiting(gates=["example.com/quota"], requests={"cpu": "64"}),
        ("scheduling gate example.com/quota", "Once that is solved", "Insufficient cpu"),
    ),
    "a misspelt extended resource": Cause(
        nodes("a", allocatable={**ROOM, "nvidia.com/gpu": "8"}),
        waiting(requests={"nvidia.com/gpus": "1"}),
        ("Insufficient nvidia.com/gpus", "no node offers any", "did you mean nvidia.com/gpu?"),
        ("ask for nvidia.com/gpu instead",),
    ),
    "the key of the selector is wrong, the value is not": Cause(
        nodes("a", "b", labels={"disk-type": "ssd"}),
        waiting(node_selector={"disktype": "ssd"}),
        ("no node has the label disktype=ssd", "did you mean the label disk-type"),
        ("use nodeSelector disk-type=ssd",),
    ),
    "selectors that exclude each other": Cause(
        [
            *nodes("a", labels={"pool": "gpu", ZONE: "z1"}),
            *nodes("b", labels={"pool": "main", ZONE: "z2"}),
        ],
        waiting(node_selector={"pool": "gpu", ZONE: "z2"}),
        ("no node", "pool=gpu", "z2"),
    ),
    "affinity to a pod that is itself pending": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            waiting("cache", labels={"app": "cache"}, requests={"cpu": "64"}),
        ],
        waiting(affinity=make_affinity(near=[make_pod_term(ZONE, {"app": "cache"})])),
        ("affinity wants a pod with app=cache", "shop/cache is pending as well"),
    ),
    "affinity to a pod of another namespace": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            make_pod(
                "cache", namespace="infra", node_name="a", labels={"app": "cache"}, phase="Running"
            ),
        ],
        waiting(affinity=make_affinity(near=[make_pod_term(ZONE, {"app": "cache"})])),
        (
            "affinity wants a pod with app=cache",
            "namespaces that the term looks into",
            "infra/cache",
        ),
    ),
    "a scheduler that does not run": Cause(
        nodes("a"),
        waiting(scheduler_name="volcano"),
        ("schedulerName is 'volcano'", "Run a scheduler that is called 'volcano'"),
    ),
    "a pod on a node that was deleted": Cause(
        nodes("a"),
        make_pod("web", namespace="shop", node_name="gone", phase="Pending"),
        ("placed on gone", "there is no such node any more"),
    ),
    "all nodes are not ready": Cause(
        nodes("a", "b", "c", taints=DOWN, ready=False),
        waiting(),
        ("a, b, c are unreachable", "their kubelets do not answer"),
        ("repair a",),
    ),
    "a volume in one zone, the selector in another": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}),
            make_pvc("data", namespace="shop", volume_name="pv-1", storage_class="ebs"),
            make_pv(
                "pv-1", storage_class="ebs", node_selector=make_node_selector((ZONE, "In", "z1"))
            ),
        ],
        waiting(pvcs=["data"], node_selector={ZONE: "z2"}),
        ("zone=z2", "volume pv-1 of claim data can only be reached from zone z1"),
        ("drop nodeSelector topology.kubernetes.io/zone=z2",),
    ),
    "the volume limit of every node": Cause(
        [
            *nodes("a", "b"),
            make_csi_node("a", {"csi.example.com": 1}),
            make_csi_node("b", {"csi.example.com": 1}),
            make_storage_class("fast"),
            *(
                make_pvc(f"c{n}", namespace="shop", volume_name=f"pv-{n}", storage_class="fast")
                for n in range(3)
            ),
            *(make_pv(f"pv-{n}", storage_class="fast", volume_handle=f"h{n}") for n in range(3)),
            running("db-0", "a", pvcs=["c0"], priority=9),
            running("db-1", "b", pvcs=["c1"], priority=9),
        ],
        waiting(pvcs=["c2"]),
        ("as many volumes attached as", "1 of driver csi.example.com"),
    ),
    "a device that is tainted": Cause(
        [
            *nodes("a"),
            device_class("gpu.example.com"),
            tainted_slice("a", "a-0"),
            device_claim("gpu", "gpu.example.com"),
        ],
        waiting(resource_claims={"gpu": "gpu"}),
        ("asks for 1 x gpu.example.com", "1 free device with taint example.com/unhealthy=ecc"),
        ("tolerate device taint example.com/unhealthy=ecc:NoSchedule",),
    ),
    "spread over a zone that has no room and one that is empty": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}, unschedulable=True),
            running("web-1", "a", labels=WEB, priority=9),
        ],
        waiting(labels=WEB, spread=[make_spread(ZONE, labels=WEB)]),
        ("topology spread over zone", "only zone z2 may take the next pod", "cordoned"),
        ("uncordon b",),
    ),
    "nodes without the label that is spread over": Cause(
        nodes("a", "b"),
        waiting(labels=WEB, spread=[make_spread(ZONE, labels=WEB)]),
        ("topology spread", "no node has the label topology.kubernetes.io/zone"),
        ("spread over topology.kubernetes.io/zone only if possible",),
    ),
    "more priority, and a budget that does not matter": Cause(
        [
            *nodes("a"),
            running("low", "a", requests={"cpu": "3"}, priority=1, labels=WEB),
            make_pdb("web", namespace="shop", selector=WEB),
        ],
        waiting(requests={"cpu": "2"}, priority=1),
        ("Insufficient cpu", "asks 2", "at most 1 is free"),
        ("raise its priority to 2",),
    ),
    "a claim that waits for another volume to be bound": Cause(
        [
            *nodes("a"),
            make_storage_class(
                "slow", wait_for_first_consumer=False, provisioner="nfs.example.com"
            ),
            make_pvc("data", namespace="shop", storage_class="slow"),
        ],
        waiting(pvcs=["data"]),
        ("claim shop/data is not bound", "nfs.example.com", "class slow"),
    ),
    "a claim without a class and no default": Cause(
        [*nodes("a"), make_pvc("data", namespace="shop", storage_class="")],
        waiting(pvcs=["data"]),
        ("claim shop/data is not bound",),
    ),
    "a claim that is being deleted": Cause(
        [
            *nodes("a"),
            leaving(make_pvc("data", namespace="shop", storage_class="fast", volume_name="pv-1")),
            make_pv("pv-1", storage_class="fast"),
        ],
        waiting(pvcs=["data"]),
        ("claim shop/data is being deleted",),
    ),
    "a claim whose volume is gone": Cause(
        [*nodes("a"), make_pvc("data", namespace="shop", storage_class="fast", volume_name="pv-1")],
        waiting(pvcs=["data"]),
        ("claim shop/data is bound to volume pv-1", "does not exist"),
    ),
    "scheduled by hand to a node that is full": Cause(
        [*nodes("a"), running("db", "a", requests={"cpu": "4"}, priority=9)],
        waiting(requests={"cpu": "1"}, node_selector={HOST: "a"}),
        ("Insufficient cpu", "a"),
    ),
    "the default scheduler is down": Cause(
        nodes("a"),
        waiting(creation_timestamp=CREATED),
        ("It fits", "No scheduler has tried it yet", "is one running"),
    ),
    "the room came free after the last attempt": Cause(
        nodes("a"),
        told(waiting(creation_timestamp=CREATED), "0/1 nodes are available: 1 Insufficient cpu."),
        ("It fits", "last said '0/1 nodes are available", "tried again"),
    ),
    "sums of init containers": Cause(
        nodes("a", allocatable=SMALL),
        waiting(
            requests={"cpu": "500m"},
            init_containers=[make_container("migrate", requests={"cpu": "2"})],
        ),
        ("Insufficient cpu", "asks 2 (for init container migrate alone)"),
    ),
    "overhead of a runtime class": Cause(
        nodes("a", allocatable=SMALL),
        waiting(requests={"cpu": "900m"}, overhead={"cpu": "250m"}),
        ("Insufficient cpu", "asks 1.15 (0.25 of it overhead of its runtime class)"),
    ),
    "it is already running": Cause(
        nodes("a"),
        running("web", "a"),
        ("runs on a",),
    ),
    "it is being deleted and has a finalizer": Cause(
        nodes("a"),
        finalized(waiting(deletion_timestamp=CREATED), "example.com/backup"),
        ("being deleted", "finalizers", "example.com/backup"),
    ),
    "a hostname that is not the node's name": Cause(
        nodes("ip-10-0-0-1", labels={HOST: "ip-10-0-0-1.internal"}),
        waiting(node_selector={HOST: "ip-10-0-0-1"}),
        (
            "no node has the label kubernetes.io/hostname=ip-10-0-0-1",
            "there is kubernetes.io/hostname=ip-10-0-0-1.internal",
        ),
    ),
}
