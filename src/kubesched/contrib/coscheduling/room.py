"""Whether the free resources of the nodes suffice for a group: a necessary condition.

The check counts resources only. A group that passes may still not fit, because of taints, affinity
or other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, EPHEMERAL_STORAGE, MEMORY, Resources
from kubesched.framework import NodeView, PodInfo

__all__ = ["missing_resources", "places_for", "smallest_requests"]


def smallest_requests(pods: Iterable[PodInfo]) -> dict[str, int]:
    """Return the minimum over all pods for each resource that all pods request."""
    found: dict[str, int] | None = None
    for pod in pods:
        amounts = _amounts(pod.requested)
        if found is None:
            found = amounts
        else:
            found = {
                name: min(amount, amounts[name])
                for name, amount in found.items()
                if name in amounts
            }
    return found or {}


def places_for(nodes: NodeView, request: Mapping[str, int], *, evicting: bool) -> int:
    """Return how many pods with this request fit on the nodes.

    With `evicting`, pods on the nodes do not count, because some may be evicted.
    """
    places = nodes.allowed_pods - (0 if evicting else nodes.pod_count)
    for name, amount in request.items():
        if amount > 0:
            places = np.minimum(places, _free(nodes, name, evicting=evicting) // amount)
    return int(np.maximum(places, 0).sum())


def missing_resources(
    nodes: NodeView, needed: Resources, used: Resources, *, evicting: bool
) -> dict[str, int]:
    """Return how much the nodes lack of an amount; the group itself already uses a part of it."""
    missing = {}
    for name, amount in _amounts(needed).items():
        free = np.maximum(_free(nodes, name, evicting=evicting), 0).sum(dtype=np.float64)
        lacking = amount - int(free) - (0 if evicting else used.amount(name))
        if lacking > 0:
            missing[name] = lacking
    return missing


def _free(nodes: NodeView, name: str, *, evicting: bool) -> NDArray[np.int64]:
    allocatable = nodes.allocatable(name)
    return allocatable if evicting else allocatable - nodes.requested(name)


def _amounts(resources: Resources) -> dict[str, int]:
    return {
        CPU: resources.milli_cpu,
        MEMORY: resources.memory,
        EPHEMERAL_STORAGE: resources.ephemeral_storage,
        **resources.scalar,
    }
