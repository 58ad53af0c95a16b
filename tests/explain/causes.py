"""Pending pods with known causes: a cluster, the pod, and the expected facts.

The tests read the first lines of the printed text; `docs/explain.md` shows some of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kubesched.api import (
    DeviceClass,
    Node,
    Pod,
    ResourceClaim,
    ResourceSlice,
)
from kubesched.testing import (
    make_affinity,
    make_csi_node,
    make_node,
    make_node_selector,
    make_node_term,
    make_owner,
    make_pdb,
    make_pod,
    make_pod_term,
    make_pv,
    make_pvc,
    make_spread,
    make_storage_class,
)

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
ROOM = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "10"}


class Cause(NamedTuple):
    objects: list[Any]
    pod: Pod
    says: tuple[str, ...]  # all of it in the first three lines
    helps: tuple[str, ...] = ()  # the beginnings of some suggestions


def nodes(*names: str, **options: Any) -> list[Node]:
    options.setdefault("allocatable", ROOM)
    return [make_node(name, **options) for name in names]


def running(name: str, node: str, **options: Any) -> Pod:
    options.setdefault("phase", "Running")
    return make_pod(name, node_name=node, namespace="shop", **options)


def waiting(name: str = "web", **options: Any) -> Pod:
    return make_pod(name, namespace="shop", phase="Pending", **options)


def parsed(kind: type[Any], document: dict[str, Any]) -> Any:
    return msgspec.convert(document, kind)


def device_class(name: str) -> DeviceClass:
    return parsed(DeviceClass, {"metadata": {"name": name}})


def slice_of(node: str, *devices: str) -> ResourceSlice:
    return parsed(
        ResourceSlice,
        {
            "metadata": {"name": f"slice-{node}"},
            "spec": {
                "driver": "gpu.example.com",
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": each} for each in devices],
            },
        },
    )


def device_claim(name: str, of_class: str, count: int = 1, device: str = "") -> ResourceClaim:
    request = {
        "name": "r",
        "exactly": {"deviceClassName": of_class, "allocationMode": "ExactCount", "count": count},
    }
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": [request]}},
    }
    if device:
        node = device.partition("-")[0]
        result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": device}
        document["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": [node]}
                            ]
                        }
                    ]
                },
            },
        }
    return parsed(ResourceClaim, document)


def not_started(reason: str, message: str) -> Pod:
    document = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"nodeName": "a", "schedulerName": "default-scheduler", "containers": []},
        "status": {
            "phase": "Pending",
            "containerStatuses": [
                {
                    "name": "web",
                    "ready": False,
                    "restartCount": 0,
                    "image": "web:2",
                    "imageID": "",
                    "state": {"waiting": {"reason": reason, "message": message}},
                }
            ],
        },
    }
    return parsed(Pod, document)


WEB = {"app": "web"}
PAIR = make_affinity(apart=[make_pod_term(HOST, WEB)])

CAUSES: dict[str, Cause] = {
    "not enough free cpu": Cause(
        [
            *nodes("a", "b"),
            running("db", "a", requests={"cpu": "3"}, priority=9),
            running("mq", "b", requests={"cpu": "2"}, priority=9),
        ],
        waiting(requests={"cpu": "2500m"}),
        ("Insufficient cpu", "asks 2.5", "at most 2 is free (on b)", "request cpu <= 2"),
        ("request cpu <= 2", "free 0.5 cpu on b"),
    ),
    "more cpu than any node has": Cause(
        nodes("a", "b"),
        waiting(requests={"cpu": "64"}),
        ("Insufficient cpu", "asks 64", "even the largest node", "has only 4"),
        ("request cpu <= 4",),
    ),
    "not enough free memory": Cause(
        [*nodes("a"), running("db", "a", requests={"memory": "7Gi"}, priority=9)],
        waiting(requests={"memory": "2Gi"}),
        ("Insufficient memory", "asks 2Gi", "at most 1Gi is free (on a)"),
        ("request memory <= 1Gi",),
    ),
    "not enough scratch space": Cause(
        [*nodes("a"), running("db", "a", requests={"ephemeral-storage": "15Gi"}, priority=9)],
        waiting(requests={"ephemeral-storage": "10Gi"}),
        ("Insufficient ephemeral-storage", "asks 10Gi", "at most 5Gi is free (on a)"),
        ("request ephemeral-storage <= 5Gi",),
    ),
    "as many pods as the nodes may run": Cause(
        [*nodes("a", allocatable={**ROOM, "pods": "1"}), running("db", "a", priority=9)],
        waiting(),
        ("Too many pods", "a runs as many as it may, 1"),
        ("free a place for a pod on a",),
    ),
    "a resource that no node offers": Cause(
        nodes("a", allocatable={**ROOM, "nvidia.com/gpu": "2"}),
        waiting(requests={"nvidia.com/gpus": "1"}),
        ("Insufficient nvidia.com/gpus", "no node offers any", "did you mean nvidia.com/gpu?"),
        ("ask for nvidia.com/gpu instead",),
    ),
    "all gpus are taken": Cause(
        [
            *nodes("a", allocatable={**ROOM, "nvidia.com/gpu": "1"}),
            running("train", "a", requests={"nvidia.com/gpu": "1"}, priority=9),
        ],
        waiting(requests={"nvidia.com/gpu": "1"}),
        ("Insufficient nvidia.com/gpu", "asks 1", "none is free"),
        ("free 1 nvidia.com/gpu on a",),
    ),
    "a taint that it does not tolerate": Cause(
        nodes("a", "b", taints=["dedicated=search:NoSchedule"]),
        waiting(),
        ("untolerated taint dedicated=search:NoSchedule", "tolerate dedicated=search:NoSchedule"),
        ("tolerate dedicated=search", "remove taint dedicated=search"),
    ),
    "a toleration with another value": Cause(
        nodes("a", taints=["dedicated=search:NoSchedule"]),
        waiting(tolerations=["dedicated=serach:NoSchedule"]),
        (
            "untolerated taint dedicated=search",
            "tolerates dedicated=serach:NoSchedule",
            "which does not match",
        ),
        ("tolerate dedicated=search",),
    ),
    "cordoned nodes": Cause(
        [
            *nodes(
                "a", "b", unschedulable=True, taints=["node.kubernetes.io/unschedulable:NoSchedule"]
            ),
            *nodes("master", taints=["node-role.kubernetes.io/control-plane:NoSchedule"]),
        ],
        waiting(),
        (
            "a, b are cordoned",
            "kubectl uncordon a",
            "untolerated taint node-role.kubernetes.io/control-plane:NoSchedule",
        ),
        ("uncordon a",),
    ),
    "a node that is not ready": Cause(
        nodes("a", taints=["node.kubernetes.io/not-ready:NoSchedule"], ready=False),
        waiting(),
        ("a is not ready", "repair a"),
        ("repair a",),
    ),
    "a node out of disk": Cause(
        nodes("a", taints=["node.kubernetes.io/disk-pressure:NoSchedule"]),
        waiting(),
        ("a is short of disk space",),
    ),
    "a typo in the node selector": Cause(
        [*nodes("a", "b", labels={"disktype": "ssd"}), *nodes("c", labels={"disktype": "hdd"})],
        waiting(node_selector={"disktype": "sdd"}),
        ("no node has the label disktype=sdd", "did you mean disktype=ssd?", "2 nodes have it"),
        ("use nodeSelector disktype=ssd", "drop nodeSelector disktype=sdd", "label a disktype=sdd"),
    ),
    "a label key that no node has": Cause(
        nodes("a", labels={"disktype": "ssd"}),
        waiting(node_selector={"disk-type": "ssd"}),
        ("no node has the label disk-type=ssd", "did you mean the label disktype?"),
        ("drop nodeSelector disk-type=ssd",),
    ),
    "affinity to an architecture that is not there": Cause(
        nodes("a", "b", labels={"kubernetes.io/arch": "amd64"}),
        waiting(affinity=make_affinity(node=("kubernetes.io/arch", "In", "arm64"))),
        ("no node has the label kubernetes.io/arch=arm64", "amd64"),
        ("drop the required node affinity",),
    ),
    "the nodes that it selects are full": Cause(
        [
            *nodes("a", "b", "c", labels={"pool": "main"}),
            *nodes("gpu-1", labels={"pool": "gpu"}),
            running("train", "gpu-1", requests={"cpu": "3"}, priority=9),
        ],
        waiting(requests={"cpu": "2"}, node_selector={"pool": "gpu"}),
        (
            "gpu-1 is the only node that matches nodeSelector pool=gpu",
            "Insufficient cpu",
            "at most 1 is free",
        ),
        ("request cpu <= 1", "drop nodeSelector pool=gpu"),
    ),
    "the nodes that it selects are tainted": Cause(
        [
            *nodes("a", "b", labels={"pool": "main"}),
            *nodes("gpu-1", labels={"pool": "gpu"}, taints=["nvidia.com/gpu=present:NoSchedule"]),
        ],
        waiting(node_selector={"pool": "gpu"}),
        (
            "gpu-1 is the only node that matches nodeSelector pool=gpu",
            "untolerated taint nvidia.com/gpu=present:NoSchedule",
        ),
        ("tolerate nvidia.com/gpu=present",),
    ),
    "anti-affinity against its own kind": Cause(
        [
            *nodes("a", "b"),
            running("web-1", "a", labels=WEB, priority=9),
            running("web-2", "b", labels=WEB, priority=9),
        ],
        waiting(labels=WEB, affinity=PAIR),
        ("anti-affinity", "one pod with app=web per node", "every node has one"),
        ("drop the required pod anti-affinity", "add one more node like"),
    ),
    "anti-affinity of another pod": Cause(
        [*nodes("a"), running("lonely", "a", affinity=PAIR, priority=9)],
        waiting(labels=WEB),
        ("keep it away by their anti-affinity", "shop/lonely"),
        ("move shop/lonely away", "add one more node like"),
    ),
    "affinity to a pod that does not run": Cause(
        nodes("a", labels={ZONE: "z1"}),
        waiting(affinity=make_affinity(near=[make_pod_term(ZONE, {"app": "cache"})])),
        ("affinity wants a pod with app=cache in the same zone", "no such pod runs anywhere"),
        ("drop the required pod affinity",),
    ),
    "spread, and the zone that has to take it is full": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}),
            running("web-1", "a", labels=WEB, priority=9),
            running("db", "b", requests={"cpu": "3500m"}, priority=9),
        ],
        waiting(labels=WEB, requests={"cpu": "1"}, spread=[make_spread(ZONE, labels=WEB)]),
        (
            "topology spread over zone",
            "maxSkew 1",
            "only zone z2 may take the next pod",
            "Insufficient cpu",
        ),
        ("raise maxSkew", "request cpu <= 500m"),
    ),
    "a host port that is taken everywhere": Cause(
        [
            *nodes("a", "b"),
            running("old-1", "a", host_ports=[80], priority=9),
            running("old-2", "b", host_ports=[80], priority=9),
        ],
        waiting(host_ports=[80]),
        ("host port TCP 80 is taken on every node", "shop/old-1"),
        ("remove host port TCP 80",),
    ),
    "a claim that does not exist": Cause(
        [
            *nodes("a"),
            make_storage_class("fast"),
            make_pvc("data-web", namespace="shop", storage_class="fast"),
        ],
        waiting(pvcs=["data-wep"]),
        ("claim data-wep does not exist in namespace shop", "did you mean data-web?"),
        ("use claim data-web",),
    ),
    "a claim whose class does not exist": Cause(
        [
            *nodes("a"),
            make_storage_class("fast", wait_for_first_consumer=False),
            make_pvc("data", namespace="shop", storage_class="fsat"),
        ],
        waiting(pvcs=["data"]),
        ("claim shop/data is not bound", "StorageClass fsat does not exist", "did you mean fast?"),
    ),
    "a claim that waits for its provisioner": Cause(
        [
            *nodes("a"),
            make_storage_class(
                "fast", wait_for_first_consumer=False, provisioner="ebs.csi.aws.com"
            ),
            make_pvc("data", namespace="shop", storage_class="fast"),
        ],
        waiting(pvcs=["data"]),
        (
            "claim shop/data is not bound",
            "provisioner ebs.csi.aws.com of class fast",
            "has made no volume",
        ),
    ),
    "no local volume left": Cause(
        [
            *nodes("a"),
            make_storage_class("local", provisioner="kubernetes.io/no-provisioner"),
            make_pvc("data", namespace="shop", storage_class="local", size="10Gi"),
        ],
        waiting(pvcs=["data"]),
        ("claim data wants 10Gi of class local", "no volume of it is free"),
        ("create a volume",),
    ),
    "a volume in another zone": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            *nodes("b", labels={ZONE: "z2"}),
            running("db", "a", requests={"cpu": "4"}, priority=9),
            make_pvc("data", namespace="shop", volume_name="pv-1", storage_class="ebs"),
            make_pv(
                "pv-1", storage_class="ebs", node_selector=make_node_selector((ZONE, "In", "z1"))
            ),
        ],
        waiting(requests={"cpu": "1"}, pvcs=["data"]),
        (
            "a is the only node that can reach volume pv-1 of claim data (zone z1)",
            "Insufficient cpu",
            "none is free",
        ),
        ("free 1 cpu on a",),
    ),
    "a volume in a zone without nodes": Cause(
        [
            *nodes("a", labels={ZONE: "z1"}),
            make_pvc("data", namespace="shop", volume_name="pv-1", storage_class="ebs"),
            make_pv(
                "pv-1", storage_class="ebs", node_selector=make_node_selector((ZONE, "In", "z9"))
            ),
        ],
        waiting(pvcs=["data"]),
        ("volume pv-1 of claim data can only be reached from zone z9", "there is no node"),
        ("add a node in zone z9",),
    ),
    "too many volumes on the node": Cause(
        [
            *nodes("a"),
            make_csi_node("a", {"csi.example.com": 1}),
            make_storage_class("fast"),
            make_pvc("one", namespace="shop", volume_name="pv-1", storage_class="fast"),
            make_pvc("two", namespace="shop", volume_name="pv-2", storage_class="fast"),
            make_pv("pv-1", storage_class="fast", volume_handle="h1"),
            make_pv("pv-2", storage_class="fast", volume_handle="h2"),
            running("db", "a", pvcs=["one"], priority=9),
        ],
        waiting(pvcs=["two"]),
        ("a has as many volumes attached as it may", "1 of driver csi.example.com"),
        ("free a volume on a",),
    ),
    "a node that attaches no volumes of the driver": Cause(
        [
            *nodes("a"),
            make_csi_node("a", {"csi.example.com": 0}),
            make_storage_class("fast"),
            make_pvc("two", namespace="shop", volume_name="pv-2", storage_class="fast"),
            make_pv("pv-2", storage_class="fast", volume_handle="h2"),
        ],
        waiting(pvcs=["two"]),
        ("a attaches no volumes of driver csi.example.com: its limit is 0",),
    ),
    "a claim that only one pod may use": Cause(
        [
            *nodes("a", "b"),
            make_pvc(
                "data",
                namespace="shop",
                volume_name="pv-1",
                storage_class="fast",
                access_modes=["ReadWriteOncePod"],
            ),
            make_pv("pv-1", storage_class="fast", access_modes=["ReadWriteOncePod"]),
            running("other", "a", pvcs=["data"], priority=9),
        ],
        waiting(pvcs=["data"]),
        ("claim shop/data may be used by one pod at a time (ReadWriteOncePod)", "shop/other"),
        ("move shop/other away",),
    ),
    "a device claim that does not exist": Cause(
        [*nodes("a"), device_claim("train-gpu", "gpu.example.com")],
        waiting(resource_claims={"gpu": "train-gpus"}),
        ("ResourceClaim train-gpus does not exist in namespace shop", "did you mean train-gpu?"),
    ),
    "a device class that does not exist": Cause(
        [
            *nodes("a"),
            device_class("gpu.example.com"),
            slice_of("a", "a-0"),
            device_claim("gpu", "gpus.example.com"),
        ],
        waiting(resource_claims={"gpu": "gpu"}),
        ("device class gpus.example.com does not exist", "did you mean gpu.example.com?"),
        ("ask for class gpu.example.com",),
    ),
    "all devices are in use": Cause(
        [
            *nodes("a"),
            device_class("gpu.example.com"),
            slice_of("a", "a-0"),
            device_claim("other", "gpu.example.com", device="a-0"),
            device_claim("gpu", "gpu.example.com"),
        ],
        waiting(resource_claims={"gpu": "gpu"}),
        ("asks for 1 x gpu.example.com", "no node has that free", "1 device, 1 in use"),
        ("release claim shop/other", "add one more node like a"),
    ),
    "more devices than a node has": Cause(
        [
            *nodes("a"),
            device_class("gpu.example.com"),
            slice_of("a", "a-0", "a-1"),
            device_claim("gpu", "gpu.example.com", count=3),
        ],
        waiting(resource_claims={"gpu": "gpu"}),
        ("asks for 3 x gpu.example.com", "no node has that free", "most free: 2 on a"),
        ("ask for 2 devices",),
    ),
    "a scheduling gate": Cause(
        nodes("a"),
        waiting(gates=["example.com/quota"]),
        ("held back by the scheduling gate example.com/quota", "The component that set the gate"),
        ("remove the scheduling gate",),
    ),
    "another scheduler's pod": Cause(
        nodes("a"),
        waiting(scheduler_name="default-schedular"),
        (
            "schedulerName is 'default-schedular'",
            "did you mean 'default-scheduler'?",
            "Run a scheduler",
        ),
        ("set schedulerName to 'default-scheduler'",),
    ),
    "it never preempts": Cause(
        [*nodes("a"), running("low", "a", requests={"cpu": "3"}, priority=1)],
        waiting(requests={"cpu": "2"}, priority=10, preemption_policy="Never"),
        ("Insufficient cpu", "preemptionPolicy is Never", "shop/low"),
        ("allow it to preempt",),
    ),
    "all other pods are as important": Cause(
        [*nodes("a"), running("peer", "a", requests={"cpu": "3"}, priority=10)],
        waiting(requests={"cpu": "2"}, priority=10),
        ("Insufficient cpu", "asks 2", "at most 1 is free"),
        ("raise its priority to 11",),
    ),
    "preemption will help in a moment": Cause(
        [
            *nodes("a"),
            running("low", "a", requests={"cpu": "3"}, priority=1, labels=WEB),
            make_pdb("web", namespace="shop", selector=WEB),
        ],
        waiting(requests={"cpu": "2"}, priority=10),
        (
            "Insufficient cpu",
            "Nothing to do: preemption will make room on a",
            "shop/low",
            "budget shop/web",
        ),
    ),
    "it waits for those who were preempted": Cause(
        [
            *nodes("a"),
            running(
                "low",
                "a",
                requests={"cpu": "3"},
                priority=1,
                deletion_timestamp="2026-01-01T00:00:00Z",
            ),
        ],
        waiting(requests={"cpu": "2"}, priority=10, nominated_node_name="a"),
        (
            "preemption makes room for it on a",
            "1 pod there is still terminating (shop/low)",
            "Wait for it",
        ),
    ),
    "the room is kept for another": Cause(
        [
            *nodes("a"),
            make_pod(
                "first",
                namespace="shop",
                requests={"cpu": "3"},
                priority=100,
                nominated_node_name="a",
            ),
        ],
        waiting(requests={"cpu": "2"}, priority=1),
        ("the room on a is kept for shop/first",),
    ),
    "a pod of a daemon on a node that is gone": Cause(
        nodes("a"),
        waiting(
            owner=make_owner("DaemonSet", "logs"),
            affinity=make_affinity(node=make_node_term(fields=[("metadata.name", "In", "gone")])),
        ),
        ("may only run on node gone, which does not exist", "DaemonSet logs"),
    ),
    "every node for another reason": Cause(
        [
            *nodes("full"),
            running("db", "full", requests={"cpu": "4"}, priority=9),
            *nodes("kept", taints=["dedicated=search:NoSchedule"]),
            *nodes("closed", unschedulable=True),
            *nodes("sick", taints=["node.kubernetes.io/not-ready:NoExecute"], ready=False),
        ],
        waiting(requests={"cpu": "1"}),
        ("Insufficient cpu", "none is free", "1 cordoned", "Of 4 nodes"),
        ("uncordon closed", "tolerate dedicated=search"),
    ),
    "no nodes at all": Cause([], waiting(), ("there are no nodes", "Add a node")),
    "its node cannot pull the image": Cause(
        nodes("a"),
        not_started("ImagePullBackOff", "Back-off pulling image"),
        ("has been placed on a", "not to the scheduler", "container web: ImagePullBackOff"),
    ),
    "no scheduler has tried it": Cause(
        nodes("a"),
        waiting(creation_timestamp="2026-01-01T00:00:00Z"),
        ("It fits", "would go to a", "No scheduler has tried it yet"),
    ),
    "it is being deleted": Cause(
        nodes("a"),
        waiting(deletion_timestamp="2026-01-01T00:00:00Z"),
        ("being deleted",),
    ),
}
