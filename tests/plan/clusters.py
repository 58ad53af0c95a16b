"""Clusters for the tests of `kubesched plan`: ReplicaSets with pods on nodes that accept them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from kubesched.api import (
    DaemonSet,
    Node,
    NodeSelector,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
)
from kubesched.api.codec import from_builtins
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.verdicts import find_all_verdicts
from kubesched.foundation.util.clock import ManualClock
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.framework import PodInfo
from kubesched.testing import make_pv, make_pvc
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    allocated,
    claim,
    device_class,
    exactly,
    slice_of,
)

Json = dict[str, Any]

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DEVICE = "example.com/gpu"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def node(name: str, cpu: int = 8, memory_gi: int = 16, zone: str = "z1", **fields: Any) -> Node:
    labels = {HOSTNAME: name, ZONE: zone, **fields.pop("labels", {})}
    amounts = {"cpu": str(cpu), "memory": f"{memory_gi}Gi", "pods": str(fields.pop("pods", 110))}
    if devices := fields.pop("devices", 0):
        amounts[DEVICE] = str(devices)
    ready = {"type": "Ready", "status": "True"}
    return from_builtins(
        {
            "metadata": {"name": name, "labels": labels, "uid": f"node-{name}"},
            "spec": fields,
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
        },
        Node,
    )


def replica_set(
    name: str,
    replicas: int,
    cpu: str = "1",
    memory: str = "1Gi",
    namespace: str = "default",
    **spec: Any,
) -> ReplicaSet:
    """A ReplicaSet whose pods have the label `app`."""
    labels = {"app": name, **spec.pop("labels", {})}
    requests = {"cpu": cpu, "memory": memory}
    devices = {DEVICE: str(spec.pop("devices"))} if "devices" in spec else {}
    resources = {"requests": requests | devices, "limits": devices}
    container: Json = {"name": "main", "image": "pause", "resources": resources}
    if ports := spec.pop("host_ports", ()):
        container["ports"] = [{"hostPort": port, "containerPort": port} for port in ports]
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return from_builtins(
        {
            "metadata": {"name": name, "namespace": namespace, "uid": f"rs-{name}"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
            "status": {"replicas": replicas, "readyReplicas": replicas},
        },
        ReplicaSet,
    )


def pod_of(owner: ReplicaSet, number: int | str, node_name: str = "", **metadata: Any) -> Pod:
    template = owner.spec.template
    name = f"{owner.metadata.name}-{number}"
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }
    document = {
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "uid": f"pod-{name}",
            "labels": template.metadata.labels,
            "ownerReferences": [reference],
            **metadata,
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    pod = from_builtins(document, Pod)
    return replace(pod, spec=replace(template.spec, node_name=node_name))


def budget(app: str, namespace: str = "default", **spec: Any) -> PodDisruptionBudget:
    return from_builtins(
        {
            "metadata": {"name": app, "namespace": namespace, "uid": f"pdb-{app}"},
            "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
        },
        PodDisruptionBudget,
    )


def apart(app: str, key: str = HOSTNAME) -> Json:
    """The affinity of pods that exclude pods of an app from their node or zone."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def near(app: str, key: str = HOSTNAME) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(app: str, key: str = ZONE, skew: int = 1) -> list[Json]:
    return [
        {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def model_of(objects: Sequence[Any]) -> ClusterModel:
    return ClusterModel(objects, ManualClock(DEFAULT_START_NS))


def accepting_nodes(model: ClusterModel, pod: Pod) -> list[str]:
    """The nodes where the scheduler's filters accept the pod, by name."""
    view = model.snapshot.nodes
    found = find_all_verdicts(model.framework_of(pod), PodInfo(pod), view)
    return [
        name for name, count in zip(view.names, found.rejection_counts(), strict=True) if not count
    ]


def random_cluster(seed: int, nodes: int = 8, pods: int = 24) -> list[Any]:
    """A small cluster with all rules, at random; every pod was accepted by its node."""
    rng, more = random.Random(seed), random.Random(f"more {seed}")
    objects: list[Any] = []
    for number in range(rng.randint(3, nodes)):
        taints = []
        if rng.random() < 0.15:
            taints.append({"key": "pool", "value": "special", "effect": "NoSchedule"})
        labels = {"disk": rng.choice(["ssd", "hdd"])}
        if more.random() < 0.3:
            labels["agent"] = "yes"
        name, zone = f"n{number}", f"z{number % 3 + 1}"
        cpu = rng.choice([4, 8, 8])
        fields = {"devices": more.choice([0, 0, 2, 4]), "pods": more.choice([5, 110, 110, 110])}
        objects.append(node(name, cpu, 2 * cpu, zone, taints=taints, labels=labels, **fields))
    claims = _ClaimedDevices(objects)
    objects += [*_agents(objects), *claims.objects]
    model = model_of(objects)
    left = rng.randint(4, pods)
    number = 0
    while left > 0:
        name = f"w{number}"
        number += 1
        count = min(left, rng.randint(1, 5))
        left -= count
        spec, metadata, others = _random_workload(rng, name, number), {}, list[Any]()
        _add_selection(more, spec)
        kind = more.random()
        if kind < 0.1 and "volumes" not in spec:
            others = zonal_claim(name, more.choice(["z1", "z2", "z3"]))
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        elif kind < 0.15:
            metadata["annotations"] = {SAFE_TO_EVICT: "false"}
        elif kind < 0.2:
            metadata["ownerReferences"] = []
        elif kind < 0.35:
            spec["devices"] = more.choice([1, 1, 2])
        elif kind < 0.42:
            others = claims.allocate(more, name)
            spec["resourceClaims"] = [{"name": "device", "resourceClaimName": name}]
        for each in others:
            model.objects.put(each)
        owner = replica_set(name, count, **spec)
        placed = _placed(model, owner, count, rng, metadata)
        owner = replace(owner, spec=replace(owner.spec, replicas=len(placed)))
        objects += [*others, *placed]
        if "ownerReferences" in metadata:
            continue  # a ReplicaSet would adopt its pods
        objects.append(owner)
        if placed and rng.random() < 0.3:
            objects.append(budget(name, **rng.choice([*_BUDGETS, {"maxUnavailable": 0}])))
    return objects


def _add_selection(rng: random.Random, spec: Json) -> None:
    """Add a node affinity to some workloads, and variants to spread constraints."""
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint["maxSkew"] = rng.choice([1, 1, 2])
        if constraint["topologyKey"] == ZONE and rng.random() < 0.3:
            constraint["minDomains"] = rng.choice([3, 4])
    if rng.random() < 0.1:
        operator = rng.choice(["In", "NotIn"])
        expression = {"key": ZONE, "operator": operator, "values": [rng.choice(["z1", "z2"])]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        own = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        spec["affinity"] = {**spec.get("affinity", {}), **own}


class _ClaimedDevices:
    """Two devices on each node with the disk `ssd`; a claim takes one of them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        names = [each.metadata.name for each in nodes if each.metadata.labels["disk"] == "ssd"]
        self._free = [(name, device) for name in names for device in ("d0", "d1")]
        self.objects: list[Any] = [
            device_class(),
            *(slice_of("d0", "d1", pool=name, node=name) for name in names),
        ]

    def allocate(self, rng: random.Random, name: str) -> list[Any]:
        """Return a claim with a free device; without one, a claim that waits for a device."""
        made = claim(name, exactly(1))
        if not self._free:
            return [made]
        node_name, found = self._free.pop(rng.randrange(len(self._free)))
        return [allocated(made, {"device": found, "pool": node_name}, node=node_name)]


_BUDGETS: Sequence[Mapping[str, Any]] = (
    {"maxUnavailable": 1},
    {"minAvailable": 1},
    {"maxUnavailable": "50%"},
)


def _random_workload(rng: random.Random, name: str, number: int) -> Json:
    spec: Json = {
        "cpu": rng.choice(["250m", "500m", "1", "1500m", "2", "3"]),
        "memory": rng.choice(["256Mi", "1Gi", "2Gi", "5Gi"]),
    }
    kind = rng.random()
    other = f"w{rng.randrange(number)}"
    if kind < 0.15:
        spec["affinity"] = apart(name, rng.choice([HOSTNAME, HOSTNAME, ZONE]))
    elif kind < 0.22:
        spec["affinity"] = apart(other)
    elif kind < 0.32:
        spec["affinity"] = near(other, rng.choice([HOSTNAME, ZONE]))
    elif kind < 0.45:
        spec["topologySpreadConstraints"] = spread(name, rng.choice([HOSTNAME, ZONE]))
    elif kind < 0.52:
        spec["host_ports"] = [rng.choice([80, 81])]
    elif kind < 0.62:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.2:
        spec["tolerations"] = [{"key": "pool", "operator": "Exists"}]
    if rng.random() < 0.06:
        spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    return spec


def _agents(nodes: Sequence[Node]) -> list[Any]:
    """A DaemonSet with a pod on each node that has the label `agent`."""
    template = replica_set(
        "agent",
        1,
        "250m",
        "256Mi",
        nodeSelector={"agent": "yes"},
        tolerations=[{"operator": "Exists"}],
    ).spec.template
    owner = from_builtins(
        {
            "metadata": {"name": "agent", "namespace": "default", "uid": "ds-agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}},
        },
        DaemonSet,
    )
    owner = replace(owner, spec=replace(owner.spec, template=template))
    reference = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "agent",
        "uid": "ds-agent",
        "controller": True,
    }
    like = replica_set("agent", 1)
    like = replace(like, spec=replace(like.spec, template=template))
    return [
        owner,
        *(
            pod_of(like, each.metadata.name, each.metadata.name, ownerReferences=[reference])
            for each in nodes
            if "agent" in each.metadata.labels
        ),
    ]


def zonal_claim(name: str, zone: str) -> list[Any]:
    """A claim that many pods may use, and its volume, which only a zone can reach."""
    claim = make_pvc(
        name, volume_name=f"pv-{name}", access_modes=["ReadWriteMany"], uid=f"pvc-{name}"
    )
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    selector = from_builtins({"nodeSelectorTerms": [term]}, NodeSelector)
    volume = make_pv(
        f"pv-{name}", claim=claim, node_selector=selector, access_modes=["ReadWriteMany"]
    )
    return [claim, volume]


def _placed(
    model: ClusterModel, owner: ReplicaSet, count: int, rng: random.Random, metadata: Json
) -> list[Pod]:
    placed: list[Pod] = []
    for number in range(count):
        pod = pod_of(owner, number, **metadata)
        names = accepting_nodes(model, pod)
        if not names:
            break
        there = replace(pod, spec=replace(pod.spec, node_name=rng.choice(names)))
        model.objects.put(there)
        placed.append(there)
    return placed


_SIZES = (100, 250, 500, 500, 1000, 1000, 2000, 3000, 4000, 6000)


def mixed_cluster(
    seed: int, count: int, fill: float = 0.55, sizes_of_pods: Sequence[int] = _SIZES
) -> list[Any]:
    """A large cluster of several pools, filled at random to a share of its cpu."""
    rng = random.Random(seed)
    objects: list[Any] = []
    sizes = []
    for number in range(count):
        cpu = rng.choice([8, 8, 16, 32])
        sizes.append(cpu)
        objects.append(node(f"n{number:05}", cpu, cpu * 4, f"z{number % 3 + 1}"))
    free_cpu = np.array(sizes) * 1000
    free_memory = np.array(sizes) * 4 * 1024
    wanted = fill * free_cpu.sum()
    used, number = 0, 0
    while used < wanted:
        name = f"w{number}"
        number += 1
        cpu = rng.choice(sizes_of_pods)
        memory = int(cpu * rng.choice([1, 2, 4, 6]))
        replicas = rng.choice([1, 2, 3, 5, 8, 12, 20])
        spec: Json = {}
        kind = rng.random()
        if kind < 0.12:
            spec["affinity"] = apart(name)
        elif kind < 0.25:
            spec["topologySpreadConstraints"] = spread(name)
        elif kind < 0.28:
            spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
        namespace = f"team-{number // 10}"
        owner = replica_set(name, replicas, f"{cpu}m", f"{memory}Mi", namespace, **spec)
        taken: set[int] = set()
        for copy in range(replicas):
            fits = np.flatnonzero((free_cpu >= cpu) & (free_memory >= memory))
            if kind < 0.12:
                fits = fits[~np.isin(fits, list(taken))]
            elif kind < 0.25:
                fits = fits[fits % 3 == copy % 3]
            place = int(rng.choice(fits.tolist()))
            taken.add(place)
            free_cpu[place] -= cpu
            free_memory[place] -= memory
            used += cpu
            objects.append(pod_of(owner, copy, f"n{place:05}"))
        objects.append(owner)
        if replicas > 1 and rng.random() < 0.6:
            objects.append(budget(name, namespace, **rng.choice(_BUDGETS)))
    return objects
