"""Nodes and pods that the benchmarks share, as plain API objects."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.codec import from_builtins

__all__ = [
    "CONTRIB_KINDS",
    "DEVICES",
    "ENGINE_KINDS",
    "GANGS",
    "KINDS",
    "SHAPES",
    "VOLUME_KINDS",
    "make_node",
    "make_pod",
]

KINDS = ("basic", "spread", "affinity", "hetero", "mixed")
DEVICES = "dra"
"""Pods with claims for devices: `benchmarks.devices`, by the engine alone."""
VOLUME_KINDS = ("volumes", "local-pv")
"""Pods with claims for volumes, made for them or on nodes: `benchmarks.volumes`."""
GANGS = "gangs"
"""Gangs of 64 pods: `benchmarks.gangs`, by the engine alone."""
ENGINE_KINDS = (DEVICES, *VOLUME_KINDS, GANGS)
CONTRIB_KINDS = ("coscheduling", "capacity", "load", "numa", "network")
"""Pods for the plugins of `kubesched.contrib`: `benchmarks.contrib`, by the whole scheduler."""
_MIX = ("basic", "spread", "affinity", "hetero")
SHAPES = 500
_ZONES = 10


def make_node(number: int) -> Node:
    """Make a node in one of ten zones, with 4 CPUs, 32 GiB, and room for 110 pods."""
    name = f"node-{number:06d}"
    amounts = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
        "topology.kubernetes.io/region": "r",
    }
    return from_builtins(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )


def make_pod(number: int, kind: str, shapes: int = SHAPES) -> Pod:
    """Make a pod of 100m and 500Mi with the features of its kind."""
    if kind == "mixed":
        kind = _MIX[number % len(_MIX)]
    requests = {"cpu": "100m", "memory": "500Mi"}
    labels = {"app": "bench"}
    spec: dict[str, Any] = {"schedulerName": "default-scheduler"}
    if kind == "spread":
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 5,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": labels},
            }
        ]
    elif kind == "affinity":
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": labels},
        }
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 10, "podAffinityTerm": term}
                ]
            }
        }
    elif kind in VOLUME_KINDS:
        claim = {"claimName": f"claim-{number:07d}"}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    elif kind == "hetero":
        shape = random.Random(number).randrange(shapes)
        labels["shape"] = str(shape)
        requests = {"cpu": f"{50 + shape % 25 * 10}m", "memory": f"{100 + shape // 25 * 20}Mi"}
    spec["containers"] = [
        {"name": "c", "image": "registry.example/pause:3", "resources": {"requests": requests}}
    ]
    name = f"pod-{number:07d}"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return from_builtins(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, Pod
    )
