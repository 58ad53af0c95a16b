"""Objects generated from numbers: nodes, pods with many features, volumes and devices."""

from __future__ import annotations

import json
import random
from typing import Any

from msgspec.structs import replace

from kubesched.api import Container, Node, PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.pod import ContainerPort, ResourceRequirements
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.testing import (
    make_affinity,
    make_node,
    make_node_selector,
    make_pod,
    make_pod_term,
    make_pv,
    make_pvc,
    make_spread,
)
from tests.fault_injection.plan import Plan

__all__ = [
    "DRIVER",
    "FOO",
    "HOSTNAME",
    "SERVED",
    "ZONE",
    "cluster_claims",
    "cluster_node",
    "cluster_pod",
]

ZONES = ("a", "b", "c")
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
DRIVER = "gpu.example.com"
FOO = "example.com/foo"  # the resource that the extender manages
SERVED = "served.example.com/"  # prefix of extended resources that only devices serve
SECOND_PROFILE = "packing"
# Priority classes by name. The class `polite` has the preemption policy Never.
PRIORITIES = {"middle": 10, "high": 100, "polite": 50}


def cluster_node(plan: Plan, number: int) -> Node:
    rng = random.Random(f"node/{plan.seed}/{number}")
    notes = {}
    if plan.devices and rng.random() < 0.7:
        notes[DEVICES] = json.dumps([{"driver": DRIVER, "count": rng.randint(1, 3)}])
    node = make_node(
        f"n{number}",
        cpu=str(rng.choice([2, 3, 4, 8])),
        pods=rng.choice([4, 20, 110]),
        zone=rng.choice(ZONES),
        labels={"disk": rng.choice(["ssd", "hdd"])},
        taints=["dedicated=x:NoSchedule"] if rng.random() < 0.3 else [],
        images={"i:latest": 800 << 20} if rng.random() < 0.5 else {},
    )
    # As in the reference, the hint about nodes does not take the extender's resource into account.
    amounts = {**node.status.allocatable, FOO: "100"} if plan.extender else node.status.allocatable
    return replace(
        node,
        metadata=replace(node.metadata, annotations=notes),
        status=replace(node.status, allocatable=amounts, capacity=amounts),
    )


def local_volume(node: str, number: int) -> PersistentVolume:
    """Make a volume that only one node can reach."""
    selector = make_node_selector((HOSTNAME, "In", node))
    return make_pv(f"disk-{node}-{number}", storage_class="local", node_selector=selector)


def cluster_pod(plan: Plan, name: str, number: int) -> Pod:
    """Make a pod with some of the features that plugins filter and score by."""
    rng = random.Random(f"pod/{number}")
    app = rng.choice(["web", "db", "batch"])
    labels = {"app": app}
    affinity: Any = None
    roll = rng.random()
    if roll < 0.12:
        affinity = make_affinity(apart=[make_pod_term(HOSTNAME, labels)])
    elif roll < 0.2:
        affinity = make_affinity(near=[make_pod_term(ZONE, labels)])
    elif roll < 0.3:
        affinity = make_affinity(apart_preferred=[(10, make_pod_term(ZONE, labels))])
    spread = [make_spread(ZONE, labels=labels, max_skew=2)] if rng.random() < 0.15 else []
    if plan.workload and app == "web":
        # As in the reference, such a pod could endlessly evict pods that a controller replaces.
        spread = []
    amounts = {"cpu": rng.choice(["100m", "500m", "1500m", "3"]), "memory": "64Mi"}
    selector = {"disk": "ssd"} if rng.random() < 0.15 else None
    tolerations = ["dedicated=x:NoSchedule"] if rng.random() < 0.3 else []
    ports = [8000 + rng.randrange(3)] if rng.random() < 0.15 else []
    gates = ["example.com/later"] if rng.random() < 0.04 else []
    if plan.extender and rng.random() < 0.4:
        amounts[FOO] = "1"
    claims = []
    if plan.volumes and (roll := rng.random()) < 0.4:
        claims = [f"{name}-{'local' if roll < 0.25 else 'standard'}"]
    notes = {"kubesched.io/run-duration": f"{rng.choice([5, 60])}s"} if roll > 0.93 else {}
    extended = {key: value for key, value in amounts.items() if "/" in key}
    container = Container(
        name="c",
        image="i",
        ports=tuple(ContainerPort(container_port=port, host_port=port) for port in ports),
        resources=ResourceRequirements(requests=amounts, limits=extended),
    )
    pod = make_pod(
        name,
        labels=labels,
        annotations=notes,
        containers=[container],
        affinity=affinity,
        spread=spread,
        node_selector=selector,
        tolerations=tolerations,
        gates=gates,
        scheduler_name=_profile(plan, rng),
        pvcs=claims,
        termination_grace_period_seconds=rng.choice([0, 1, 5]),
    )
    if not plan.preempts:
        return pod
    importance = rng.choice(["", "", *PRIORITIES, *PRIORITIES])
    return replace(pod, spec=replace(pod.spec, priority_class_name=importance))


def _profile(plan: Plan, rng: random.Random) -> str:
    roll = rng.random()
    if roll < 0.02:
        return "nobody"
    return SECOND_PROFILE if plan.profiles > 1 and roll < 0.4 else "default-scheduler"


def with_devices(plan: Plan, document: dict[str, Any], number: int) -> dict[str, Any]:
    """Add a claim of devices to some of the pods: by template, or a shared claim."""
    rng = random.Random(f"devices/{number}")
    roll = rng.random()
    if not plan.devices or roll > 0.4:
        return document
    reference = (
        {"resourceClaimTemplateName": "one"} if roll < 0.3 else {"resourceClaimName": "shared"}
    )
    spec = document["spec"]
    container = spec["containers"][0]
    resources = {**container["resources"], "claims": [{"name": "gpu"}]}
    spec = {
        **spec,
        "containers": [{**container, "resources": resources}],
        "resourceClaims": [{"name": "gpu", **reference}],
    }
    return {**document, "spec": spec}


def cluster_claims(pod: Pod) -> list[PersistentVolumeClaim]:
    """Make the claims that a pod's volumes refer to."""
    names = [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
    return [make_pvc(name, storage_class=name.rpartition("-")[2]) for name in names]
