"""What a pod requests, by the names of resources."""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.api.pod_requests import fit_requested
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY

__all__ = ["requested_amounts"]


def requested_amounts(pod: Pod) -> dict[str, int]:
    """The amounts that a node needs to have for the pod, without zeros."""
    wanted = fit_requested(pod)
    amounts = {
        CPU: wanted.milli_cpu,
        MEMORY: wanted.memory,
        EPHEMERAL_STORAGE: wanted.ephemeral_storage,
        **wanted.scalar,
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}
