"""NodeResourceTopology objects, and the resources of NUMA zones as columns.

A zone is a NUMA node; zones are numbered as the kubelet numbers NUMA nodes, up to eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, parse_milli_value, parse_value
from kubesched.api.custom_kinds import CustomObject, custom_resource

__all__ = [
    "CONTAINER_SCOPE",
    "FAR",
    "MOST_COLUMNS",
    "NODE_TOPOLOGIES",
    "NODE_TOPOLOGY_KIND",
    "NO_ALIGNMENT",
    "POD_SCOPE",
    "RESTRICTED",
    "SINGLE_NUMA_NODE",
    "ZONES",
    "Amounts",
    "NodeTopology",
    "ZoneColumns",
    "amount_of",
    "read_topology",
]

NODE_TOPOLOGIES: Final = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"
ZONES: Final = 8
NO_ALIGNMENT: Final = "none"
SINGLE_NUMA_NODE: Final = "single-numa-node"
RESTRICTED: Final = "restricted"
CONTAINER_SCOPE: Final = "container"
POD_SCOPE: Final = "pod"

FAR: Final = 255  # the distance if the object has none
# Columns of other resources are stored no longer than until there are so many.
MOST_COLUMNS: Final = 64
_ABSENT: Final = -1
# The deprecated names in `topologyPolicies`: policy and scope.
_OLD_POLICIES: Final = {
    "SingleNUMANode": (SINGLE_NUMA_NODE, CONTAINER_SCOPE),
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER_SCOPE),
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD_SCOPE),
    "Restricted": (RESTRICTED, CONTAINER_SCOPE),
    "RestrictedContainerLevel": (RESTRICTED, CONTAINER_SCOPE),
    "RestrictedPodLevel": (RESTRICTED, POD_SCOPE),
    "BestEffort": ("best-effort", CONTAINER_SCOPE),
    "BestEffortContainerLevel": ("best-effort", CONTAINER_SCOPE),
    "BestEffortPodLevel": ("best-effort", POD_SCOPE),
}
_POLICIES: Final = (NO_ALIGNMENT, "best-effort", RESTRICTED, SINGLE_NUMA_NODE)

Amounts = Mapping[str, int]
Ints = NDArray[np.int64]


class _NodeResourceTopology(CustomObject):
    """The resource has no `spec` or `status`: its fields are at the top level."""

    zones: list[dict[str, Any]] = []
    topology_policies: list[str] = []
    attributes: list[dict[str, Any]] = []


NODE_TOPOLOGY_KIND: Final = custom_resource(
    NODE_TOPOLOGIES, "NodeResourceTopology", _NodeResourceTopology, namespaced=False
)


class NodeTopology(msgspec.Struct, frozen=True):
    """The settings of a node's topology manager, and the available resources of its zones."""

    policy: str
    scope: str
    available: dict[int, dict[str, int]]  # by zone and resource
    allocatable: dict[int, dict[str, int]]  # the same without any pods
    costs: dict[int, dict[int, int]]  # distances between zones

    def left(self, reserved: Amounts) -> dict[int, dict[str, int]]:
        """Return the available resources; `reserved` is subtracted from every zone."""
        return {
            zone: {name: max(amount - reserved.get(name, 0), 0) for name, amount in amounts.items()}
            for zone, amounts in self.available.items()
        }

    def distance(self, zone: int, other: int) -> int:
        return self.costs.get(zone, {}).get(other, FAR)


def amount_of(name: str, raw: Any) -> int:
    """Return an amount in the unit of zones: cpu in thousandths, all others in units."""
    return parse_milli_value(raw) if name == CPU else parse_value(raw)


def read_topology(found: CustomObject) -> NodeTopology:
    """Parse an object. Values that its schema does not allow count as absent."""
    policies: list[str] = getattr(found, "topology_policies", [])
    policy, scope = _OLD_POLICIES.get(policies[0] if policies else "", (NO_ALIGNMENT, "container"))
    for attribute in getattr(found, "attributes", ()):
        value = attribute.get("value")
        if attribute.get("name") == "topologyManagerPolicy" and value in _POLICIES:
            policy = str(value)
        elif attribute.get("name") == "topologyManagerScope" and value in ("container", "pod"):
            scope = str(value)
    available: dict[int, dict[str, int]] = {}
    allocatable: dict[int, dict[str, int]] = {}
    costs: dict[int, dict[int, int]] = {}
    for zone in getattr(found, "zones", ()):
        number = _number(zone.get("name"))
        if zone.get("type") == "Node" and number is not None:
            resources = zone.get("resources") or ()
            allocatable[number] = _amounts(resources, "allocatable")
            # Exporters that do not measure usage omit `available`.
            available[number] = allocatable[number] | _amounts(resources, "available")
            distances = ((_number(each.get("name")), each) for each in zone.get("costs") or ())
            costs[number] = {
                other: int(each.get("value", FAR)) for other, each in distances if other is not None
            }
    return NodeTopology(policy, scope, available, allocatable, costs)


def _number(name: Any) -> int | None:
    """Return the number of a zone from its name, such as `node-1`."""
    prefix, _, number = str(name).rpartition("-")
    is_zone = prefix == "node" and number.isdecimal() and int(number) < ZONES
    return int(number) if is_zone else None


def _amounts(resources: Iterable[Mapping[str, Any]], field: str) -> dict[str, int]:
    amounts = {}
    for resource in resources:
        name, raw = str(resource.get("name")), resource.get(field)
        try:
            if raw is not None:
                amounts[name] = amount_of(name, raw)
        except (ValueError, TypeError):
            continue
    return amounts


class ZoneColumns:
    """The zones of many nodes: int64[zone, node] for each resource, -1 where it is absent.

    The column of a resource is filled when it is first read. Topologies may name thousands of
    resources, and pods request few of them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.is_known = np.zeros(count, dtype=bool)
        self.is_single = np.zeros(count, dtype=bool)  # the policy is single-numa-node
        self.is_restricted = np.zeros(count, dtype=bool)
        self.is_pod_scope = np.zeros(count, dtype=bool)
        self.exists = np.zeros((ZONES, count), dtype=bool)
        self.costs: Ints = np.full((ZONES, ZONES, count), FAR, dtype=np.int64)
        self._of_rows: dict[int, tuple[NodeTopology, Amounts]] = {}  # with the reservations
        self._available: dict[str, Ints] = {}
        self._allocatable: dict[str, Ints] = {}

    def put(self, row: int, topology: NodeTopology | None, reserved: Amounts) -> None:
        """Set the zones of a node; `reserved` is subtracted from every zone."""
        self.exists[:, row] = False
        self.costs[:, :, row] = FAR
        self._of_rows.pop(row, None)
        for column in (*self._available.values(), *self._allocatable.values()):
            column[:, row] = _ABSENT
        self.is_known[row] = topology is not None
        self.is_single[row] = topology is not None and topology.policy == SINGLE_NUMA_NODE
        self.is_restricted[row] = topology is not None and topology.policy == RESTRICTED
        self.is_pod_scope[row] = topology is not None and topology.scope == POD_SCOPE
        if topology is None:
            return
        self._of_rows[row] = topology, dict(reserved)
        for name, column in self._available.items():
            _fill(column, name, row, topology.available, reserved.get(name, 0))
        for name, column in self._allocatable.items():
            _fill(column, name, row, topology.allocatable, 0)
        for zone in topology.available:
            self.exists[zone, row] = True
            for other, cost in topology.costs.get(zone, {}).items():
                self.costs[zone, other, row] = cost

    def available(self, name: str) -> Ints:
        found = self._available.get(name)
        if found is None:
            found = self._new_column(self._available, name)
            for row, (topology, reserved) in self._of_rows.items():
                _fill(found, name, row, topology.available, reserved.get(name, 0))
        return found

    def allocatable(self, name: str) -> Ints:
        found = self._allocatable.get(name)
        if found is None:
            found = self._new_column(self._allocatable, name)
            for row, (topology, _) in self._of_rows.items():
                _fill(found, name, row, topology.allocatable, 0)
        return found

    def _new_column(self, columns: dict[str, Ints], name: str) -> Ints:
        if len(columns) >= MOST_COLUMNS:
            columns.clear()
        found = columns[name] = np.full((ZONES, self.count), _ABSENT, dtype=np.int64)
        return found

    def at(self, rows: NDArray[np.intp], names: Iterable[str]) -> ZoneColumns:
        """Return copies of the columns of some nodes, for these resources only."""
        found = ZoneColumns(0)
        found.count = len(rows)
        for attribute in ("is_known", "is_single", "is_restricted", "is_pod_scope"):
            setattr(found, attribute, getattr(self, attribute)[rows])
        found.exists = self.exists[:, rows]
        found.costs = self.costs[:, :, rows]
        for name in names:
            found._available[name] = self.available(name)[:, rows]
            found._allocatable[name] = self.allocatable(name)[:, rows]
        return found


def _fill(column: Ints, name: str, row: int, zones: Mapping[int, Amounts], reserved: int) -> None:
    for zone, resources in zones.items():
        if name in resources:
            column[zone, row] = max(resources[name] - reserved, 0)
