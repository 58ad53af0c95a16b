"""Taints in explanations: which of them reject a pod, and how to uncordon a node."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from kubesched.api import Node, Pod, Taint
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, UNSCHEDULABLE_TAINT, is_tolerated
from kubesched.framework.explaining import (
    Remedy,
)

__all__ = ["HEALTH", "uncordon_remedy", "untolerated"]


_KEEPS_AWAY = (NO_SCHEDULE, NO_EXECUTE)

# What the node controller means by its taints.
HEALTH: Final = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable (its kubelet does not answer)",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk space",
    "node.kubernetes.io/pid-pressure": "short of process ids",
    "node.kubernetes.io/network-unavailable": "without network",
    "node.kubernetes.io/out-of-service": "out of service",
    "node.cloudprovider.kubernetes.io/uninitialized": "not yet set up by the cloud provider",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
}


def untolerated(pod: Pod, node: Node) -> list[Taint]:
    """Return the taints of the node that the pod does not tolerate."""
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in _KEEPS_AWAY and not is_tolerated(taint, pod.spec.tolerations)
    ]


def uncordon_remedy(pod: Pod, node: Node) -> Remedy:
    """Return the remedy that makes a cordoned node schedulable."""
    taints = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE_TAINT.key)
    return Remedy(
        f"uncordon {node.metadata.name}",
        1.0,
        pod,
        (replace(node, spec=replace(node.spec, unschedulable=False, taints=taints)),),
        command=f"kubectl uncordon {node.metadata.name}",
        node=node.metadata.name,
    )
