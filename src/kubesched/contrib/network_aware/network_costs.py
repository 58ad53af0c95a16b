"""NetworkTopologies of networktopology.diktyo.x-k8s.io/v1alpha1: what the network costs from one
region or zone to another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kubesched.api.custom_kinds import CustomObject, custom_resource
from kubesched.framework import Handle

__all__ = [
    "NETWORK_TOPOLOGIES",
    "NETWORK_TOPOLOGY_KIND",
    "REGION",
    "ZONE",
    "NetworkCosts",
    "NetworkTopologies",
    "network_topologies",
    "read_costs",
]

NETWORK_TOPOLOGIES: Final = "networktopologies.v1alpha1.networktopology.diktyo.x-k8s.io"
NETWORK_TOPOLOGY_KIND: Final = custom_resource(NETWORK_TOPOLOGIES, "NetworkTopology")
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"

# By origin, then by destination.
_Costs = Mapping[str, Mapping[str, int]]


class NetworkCosts(msgspec.Struct, frozen=True):
    """The costs between regions, and between the zones of a region."""

    regions: _Costs = {}
    zones: _Costs = {}


_NO_COSTS: Final = NetworkCosts()


class NetworkTopologies:
    """The costs in all NetworkTopologies, by the name of the weights."""

    def __init__(self, handle: Handle) -> None:
        self._costs: dict[tuple[str, str], dict[str, NetworkCosts]] = {}
        self.version = 0
        handle.lister(NETWORK_TOPOLOGY_KIND.type).follow(self._topology_changed)

    def _topology_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        self.version += 1
        if old is not None:
            self._costs.pop((old.metadata.namespace, old.metadata.name), None)
        if new is not None:
            self._costs[new.metadata.namespace, new.metadata.name] = read_costs(new)

    def find(self, name: str, namespaces: Sequence[str], weights: str) -> NetworkCosts:
        """Return the costs of the NetworkTopology in the first namespace that has it."""
        for namespace in namespaces:
            if (by_weights := self._costs.get((namespace, name))) is not None:
                return by_weights.get(weights, _NO_COSTS)
        return _NO_COSTS


def network_topologies(handle: Handle) -> NetworkTopologies:
    """Return the NetworkTopologies that all profiles share."""
    return handle.shared.get("network-aware costs", lambda: NetworkTopologies(handle))


def read_costs(stored: CustomObject) -> dict[str, NetworkCosts]:
    """Read the costs by the name of their weights.

    What the schema of the resource would refuse counts as absent.
    """
    found: dict[str, dict[str, dict[str, dict[str, int]]]] = {}
    for weights in _entries(stored.spec.get("weights")):
        by_key = found.setdefault(str(weights.get("name", "")), {REGION: {}, ZONE: {}})
        for topology in _entries(weights.get("topologyList")):
            by_origin = by_key.get(str(topology.get("topologyKey", "")))
            if by_origin is not None:
                for origin in _entries(topology.get("originList")):
                    costs = by_origin.setdefault(str(origin.get("origin", "")), {})
                    costs.update(_costs(origin.get("costList")))
    return {name: NetworkCosts(costs[REGION], costs[ZONE]) for name, costs in found.items()}


def _costs(given: Any) -> dict[str, int]:
    return {
        str(each.get("destination", "")): each.get("networkCost", 0)
        for each in _entries(given)
        if isinstance(each.get("networkCost", 0), int)
    }


def _entries(given: Any) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
