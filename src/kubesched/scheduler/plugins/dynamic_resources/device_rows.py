"""The devices of the node in each row, with a log of changed rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.framework import NodeView
from kubesched.framework.engine import ChangeLog
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import (
    DeviceInventory,
    EquivalentNodes,
    NodeDevices,
)
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    SearchBudget,
    SearchPausedError,
)

__all__ = ["DeviceRows"]


class DeviceRows:
    """The inventory by row, updated for nodes that changed or whose devices changed."""

    def __init__(self, inventory: DeviceInventory, nodes: NodeView) -> None:
        self.table = nodes.table
        self._inventory = inventory
        self._position = -1
        self._stale: set[str] = set()
        self._all_stale = True
        self.devices: list[NodeDevices | None] = []
        self.changes = ChangeLog(self.table.capacity)
        self.numbers = np.zeros(0, dtype=np.int64)  # number of the group, int64[row]; 0: no node
        # Number -> (group, number of rows), for groups that share pools with other nodes.
        self._shared: dict[int, tuple[EquivalentNodes, int]] = {}
        inventory.listeners.append(self._mark_stale)

    def close(self) -> None:
        """Stop listening to the inventory."""
        self._inventory.listeners.remove(self._mark_stale)

    def _mark_stale(self, node_name: str | None) -> None:
        if node_name is None:
            self._all_stale = True
        else:
            self._stale.add(node_name)

    @property
    def capacity(self) -> int:
        return len(self.devices)

    @property
    def has_shared(self) -> bool:
        """Whether some node sees a pool that other nodes see too."""
        return bool(self._shared)

    def shared_versions(self) -> dict[int, tuple[int, ...]]:
        """Return the usage versions of shared pools, by number of the group."""
        return {
            number: self._inventory.usage_versions(group)
            for number, (group, _) in self._shared.items()
        }

    def sample_of(self, number: int) -> NodeDevices:
        """Return the devices of one node of a group."""
        devices = self.devices[int(np.flatnonzero(self.numbers == number)[0])]
        assert devices is not None
        return devices

    def live(self) -> Sequence[int]:
        return [row for row, devices in enumerate(self.devices) if devices is not None]

    def refresh(self, nodes: NodeView, budget: SearchBudget | None = None) -> None:
        """Update the changed rows; `nodes` is any view of the table.

        Raises:
            SearchPausedError: the budget is used up; the next call continues.
        """
        table = self.table
        if len(self.devices) != table.capacity:
            self.devices += [None] * (table.capacity - len(self.devices))
            self.changes.grow(table.capacity)
            self.numbers = np.pad(self.numbers, (0, table.capacity - len(self.numbers)))
        changed = None if self._all_stale else table.changes.since(self._position)
        if changed is None:
            rows = list(table.row_of.values())
            gone = [row for row in self.live() if not table.is_live[row]]
            self._all_stale = False
        else:
            rows, gone = [], []
            for row in changed.tolist():
                (rows if table.is_live[row] else gone).append(row)
            rows += [table.row_of[name] for name in self._stale if name in table.row_of]
        self._stale.clear()
        for row in gone:
            self._clear(row)
        self._position = table.changes.position
        for place, row in enumerate(rows):
            steps = self._update(row, nodes)
            if steps and budget is not None:
                budget.charge(steps)
                try:
                    budget.check()
                except SearchPausedError:
                    self._stale.update(nodes.info_at(each).name for each in rows[place + 1 :])
                    raise

    def _update(self, row: int, nodes: NodeView) -> int:
        """Update a row; return the number of steps that this took, 0 if nothing changed."""
        node = nodes.info_at(row).node
        if node is None:
            self._clear(row)
            return 0
        old = self.devices[row]
        if old is not None and old.node.metadata.name != node.metadata.name:
            self._clear(row)
            old = None
        found = self._inventory.of_node(node)
        if found is old:
            return 0
        self.devices[row] = found
        if old is None or old.group is not found.group:
            if old is not None:
                self._leave(old.group)
            self._enter(found.group)
            self.numbers[row] = found.group.number
            self.changes.append(row)
        if found.group.shared:  # the first node has prepared the devices
            return len(found.views)
        return sum(len(view.devices) for view in found.views)

    def _enter(self, group: EquivalentNodes) -> None:
        if group.shared:
            _, count = self._shared.get(group.number, (group, 0))
            self._shared[group.number] = (group, count + 1)

    def _leave(self, group: EquivalentNodes) -> None:
        if group.shared:
            _, count = self._shared.pop(group.number)
            if count > 1:
                self._shared[group.number] = (group, count - 1)

    def _clear(self, row: int) -> None:
        old = self.devices[row]
        if old is None:
            return
        self.devices[row] = None
        self.numbers[row] = 0
        self._leave(old.group)
        self.changes.append(row)
        name = old.node.metadata.name
        if name not in self.table.row_of:
            self._inventory.remove_node(name)
