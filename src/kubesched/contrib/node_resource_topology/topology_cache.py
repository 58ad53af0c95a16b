"""The topology of nodes, minus reservations that the topology does not include yet.

An exporter on the node updates the topology some time after the kubelet has allocated resources to
a pod. Until then the zone of the pod is unknown. Its requests are therefore subtracted from every
zone, so that no resource is allocated twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.node_resource_topology.pod_needs import PodNeeds
from kubesched.contrib.node_resource_topology.zones import (
    NODE_TOPOLOGY_KIND,
    NodeTopology,
    ZoneColumns,
    read_topology,
)
from kubesched.framework import Handle, NodeView

__all__ = ["TopologyCache"]

_MOST_ANSWERS: Final = 64
_LONGEST_LOG: Final = 100_000
_NOTHING: Final[Counter[str]] = Counter()


class TopologyCache:
    """Topologies by node, and the reservations made since."""

    def __init__(self, handle: Handle | None, *, reserves: bool, discards: bool) -> None:
        self._reserves, self._discards = reserves, discards
        self._topologies: dict[str, NodeTopology] = {}
        self._reserved: dict[str, Counter[str]] = {}  # by node
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}  # by uid: node and requests
        self._running: dict[str, set[str]] = {}  # by node: pods that the next topology will include
        self._unbound: dict[str, str] = {}  # by uid: the node of a pod that is being bound
        self._columns: ZoneColumns | None = None
        self._version: tuple[int, int] = (0, 0)
        self._changed: set[str] = set()
        # Number of changes that affect answers but are not changes of the node or its pods.
        self.version = 0
        self._log: list[int] = []  # rows whose zones changed, in order
        # By key: the version of the nodes, the position in the log, and a value for each row.
        self._answers: dict[Hashable, tuple[tuple[int, ...], int, NDArray[np.int64]]] = {}
        if handle is not None:
            handle.lister(NODE_TOPOLOGY_KIND.type).follow(self._topology_changed)
            handle.lister(Pod).follow(self._pod_changed)

    def _topology_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        changed = new if new is not None else old
        assert changed is not None, "a change has an object"
        node = changed.metadata.name
        self.version += 1
        if new is None:
            self._topologies.pop(node, None)
        else:
            self._topologies[node] = read_topology(new)
            if old is not None:
                for uid in self._running.pop(node, ()):
                    self._release(uid)
        self._changed.add(node)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        assert pod is not None, "a change has an object"
        uid = pod.metadata.uid
        if (new is None or new.spec.node_name) and self._unbound.pop(uid, ""):
            self.version += 1
        if uid not in self._pods:
            return
        if new is None or new.status.phase in ("Succeeded", "Failed"):
            self._release(uid)
        elif new.status.phase == "Running":
            self._running.setdefault(self._pods[uid][0], set()).add(uid)

    def reserve(self, pod: Pod, node: str) -> None:
        if self._discards:
            self._unbound[pod.metadata.uid] = node
        if self._reserves and pod.metadata.uid not in self._pods:
            amounts = PodNeeds.of(pod).whole
            self._pods[pod.metadata.uid] = node, amounts
            self._reserved.setdefault(node, Counter()).update(amounts)
        self._changed.add(node)

    def unreserve(self, pod: Pod) -> None:
        self._unbound.pop(pod.metadata.uid, None)
        self._release(pod.metadata.uid)
        self.version += 1

    def _release(self, uid: str) -> None:
        found = self._pods.pop(uid, None)
        if found is not None:
            node, amounts = found
            self._reserved[node].subtract(amounts)
            self._running.get(node, set()).discard(uid)
            self._changed.add(node)
            self.version += 1

    def topology_of(self, node: str) -> NodeTopology | None:
        return self._topologies.get(node)

    def reserved_on(self, node: str) -> Mapping[str, int]:
        """Return the reservations that the topology of the node does not include yet."""
        return self._reserved.get(node, _NOTHING)

    def columns(self, nodes: NodeView) -> ZoneColumns:
        """Return the zones of all rows of the table; only changed nodes are updated."""
        table = nodes.table
        version = table.membership_version, table.capacity
        if self._columns is None or version != self._version:
            self._columns, self._version = ZoneColumns(table.capacity), version
            self._changed = set(self._topologies)
        for node in self._changed:
            row = table.row_of.get(node)
            if row is not None:
                reserved = self._reserved.get(node, _NOTHING)
                self._columns.put(row, self._topologies.get(node), reserved)
                self._log.append(row)
        self._changed.clear()
        return self._columns

    def answers(
        self, key: Hashable, nodes: NodeView, compute: Callable[[NodeView], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return `compute` for these nodes; nodes that did not change are not computed again.

        The answer for a node may depend on the key, the node, and its zones.
        """
        self.columns(nodes)
        table = nodes.table
        version = table.node_version, table.membership_version, table.capacity
        if len(self._answers) > _MOST_ANSWERS or len(self._log) > _LONGEST_LOG:
            self._answers.clear()
            self._log.clear()
        found = self._answers.get(key)
        if found is None or found[0] != version:
            values, rows = np.zeros(table.capacity, dtype=np.int64), nodes.whole.rows
        else:
            values, rows = found[2], np.unique(np.array(self._log[found[1] :], dtype=np.intp))
        if len(rows):
            values[rows] = compute(nodes.at_rows(rows))
        self._answers[key] = version, len(self._log), values
        return nodes.at(values)

    def is_discarded(self, node: str) -> bool:
        """Whether the node is rejected because another pod is being bound to it."""
        return node in self._unbound.values()

    def discarded(self, nodes: NodeView) -> NDArray[np.bool_] | None:
        """Return a mask of the nodes to which a pod is being bound, which are rejected; or None."""
        if not self._unbound:
            return None
        rows = [nodes.table.row_of.get(node, -1) for node in self._unbound.values()]
        return np.isin(nodes.rows, rows)
