"""Attached volumes and limits per driver and node, as columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import CSINode
from kubesched.framework import Handle, Lister, NodeInfo, NodeView
from kubesched.scheduler.plugins.helpers.node_names import NodeNames
from kubesched.scheduler.plugins.helpers.row_facts import RowFacts
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError, claim_names
from kubesched.scheduler.plugins.node_volume_limits.attachments import Attachments
from kubesched.scheduler.plugins.node_volume_limits.identity import CsiVolumes

__all__ = ["NodeUsage", "VolumeUsage", "limits_of"]


class NodeUsage(NamedTuple):
    """The limits of a node's drivers, and the volumes that count against them."""

    limits: Mapping[str, int]  # driver -> limit
    attached: Mapping[str, str]  # volume of a pod on the node -> driver
    counts: Mapping[str, int]  # driver -> number, including volumes that no pod uses
    error: str = ""

    def has_room(self, new: Mapping[str, str]) -> bool:
        """Whether the node can attach these volumes of an incoming pod."""
        added = Counter(driver for name, driver in new.items() if name not in self.attached)
        return all(
            self.counts.get(driver, 0) + number <= self.limits[driver]
            for driver, number in added.items()
            if driver in self.limits
        )


class VolumeUsage:
    """Caches the volume usage of nodes that have limits."""

    def __init__(self, handle: Handle) -> None:
        self._nodes: Lister[CSINode] = handle.lister(CSINode)
        self._facts: RowFacts[NodeUsage] = RowFacts(self._compute_usage)
        self._limited: set[str] = set()  # nodes with any limit
        self._registered = NodeNames()  # nodes that have a CSINode
        self._nodes_of_claim: dict[str, set[str]] = {}  # claim -> nodes with pods that use it
        self._changed_nodes: set[str] = set()
        self._all_changed = True
        # Driver -> int64[row]: the number of attached volumes, and the limit (-1: no limit).
        self._counts: dict[str, NDArray[np.int64]] = {}
        self._limits: dict[str, NDArray[np.int64]] = {}
        self._drivers_at: dict[int, set[str]] = {}  # row -> drivers with an entry in a column
        self._holders: dict[str, set[int]] = {}  # volume -> rows of pods that use it
        self._errors: dict[int, str] = {}  # rows whose volumes cannot be determined
        # These call their handlers at once for existing objects, so they come last.
        self.volumes = CsiVolumes(handle, self._claim_changed)
        self._attachments = Attachments(handle, self._node_changed)
        self._nodes.follow(self._csi_node_changed)

    @property
    def has_limits(self) -> bool:
        """Whether any node has a limit; without one nothing needs to be counted."""
        return bool(self._limited)

    def registered(self, nodes: NodeView) -> NDArray[np.bool_]:
        """Return the nodes at which CSI drivers are registered."""
        return self._registered.mask(nodes)

    def has_errors(self, nodes: NodeView) -> bool:
        """Whether the attached volumes of some node cannot be determined."""
        self._refresh(nodes)
        return bool(self._errors)

    def of_node(self, node: NodeInfo) -> NodeUsage | None:
        """Return the usage of a node, which may belong to a dry run; None: no limits."""
        csi_node = self._nodes.get(node.name) if node.name in self._limited else None
        if csi_node is None:
            return None
        attached: dict[str, str] = {}
        try:
            for other in node.pods:
                if other.pod.spec.volumes:
                    attached |= self.volumes.of_pod(other.pod, is_new=False, has_drivers=True)
        except VolumeClaimError as exc:
            return NodeUsage(limits_of(csi_node), {}, {}, str(exc))
        counts = Counter(attached.values())
        for name, driver in self._attachments.on_node(node.name).items():
            if name not in attached:
                counts[driver] += 1
        return NodeUsage(limits_of(csi_node), attached, counts)

    def full_for(
        self, new: Mapping[str, str], nodes: NodeView
    ) -> tuple[NDArray[np.bool_], Mapping[int, str]]:
        """Return the nodes without room (bool[row]), and the rows with an error."""
        self._refresh(nodes)
        full = np.zeros(nodes.table.capacity, dtype=bool)
        for driver, number in Counter(new.values()).items():
            limits = self._limits.get(driver)
            if limits is not None:
                full |= (limits >= 0) & (self._counts[driver] + number > limits)
        facts = self._facts.facts
        for name in new:
            for row in self._holders.get(name, ()):
                full[row] = row in facts and not facts[row].has_room(new)
        return full, self._errors

    def _refresh(self, nodes: NodeView) -> None:
        table, facts = nodes.table, self._facts
        if self._all_changed:
            facts.invalidate(nodes.whole.rows.tolist())
            self._all_changed = False
        if self._changed_nodes:
            facts.invalidate(table.rows_of(self._changed_nodes).tolist())
            self._changed_nodes.clear()
        for row, before, after in facts.refresh(nodes):
            self._write(row, before, after, table.capacity)

    def _compute_usage(self, node: NodeInfo) -> NodeUsage | None:
        """Return the usage of a node, and record which claims it depends on."""
        usage = self.of_node(node)
        if usage is not None:
            for other in node.pods:
                if other.pod.spec.volumes:
                    namespace = other.pod.metadata.namespace
                    for name in claim_names(other.pod):
                        self._nodes_of_claim.setdefault(f"{namespace}/{name}", set()).add(node.name)
        return usage

    def _write(
        self, row: int, before: NodeUsage | None, after: NodeUsage | None, capacity: int
    ) -> None:
        """Copy a node's usage into the columns."""
        if before is not None:
            for name in before.attached:
                self._holders[name].discard(row)
                if not self._holders[name]:
                    del self._holders[name]
        for driver in self._drivers_at.pop(row, ()):
            self._limits[driver][row] = -1
            self._counts[driver][row] = 0
        self._errors.pop(row, None)
        if after is None:
            return
        if after.error:
            self._errors[row] = after.error
        for name in after.attached:
            self._holders.setdefault(name, set()).add(row)
        self._drivers_at[row] = set(after.limits)
        for driver, limit in after.limits.items():
            if driver not in self._limits or len(self._limits[driver]) < capacity:
                self._make_column(driver, capacity)
            self._limits[driver][row] = limit
            self._counts[driver][row] = after.counts.get(driver, 0)

    def _make_column(self, driver: str, capacity: int) -> None:
        limits = np.full(capacity, -1, dtype=np.int64)
        counts = np.zeros(capacity, dtype=np.int64)
        old = self._limits.get(driver)
        if old is not None:
            limits[: len(old)] = old
            counts[: len(old)] = self._counts[driver]
        self._limits[driver], self._counts[driver] = limits, counts

    def _claim_changed(self, key: str | None) -> None:
        if key is None:
            self._all_changed = True
        elif nodes := self._nodes_of_claim.pop(key, None):
            self._changed_nodes.update(nodes)  # the next refresh records the users again

    def _node_changed(self, name: str) -> None:
        self._changed_nodes.add(name)

    def _csi_node_changed(self, old: CSINode | None, new: CSINode | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        name = changed.metadata.name
        self._changed_nodes.add(name)
        self._limited.discard(name)
        if new is None:
            self._registered.discard(name)
            return
        self._registered.add(name)
        if limits_of(new):
            self._limited.add(name)


def limits_of(node: CSINode) -> dict[str, int]:
    """Return the limits of a node's drivers, without drivers that have no limit."""
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
