"""The number of devices of a class on each node (docs/reference/05 §6.4).

Unlike allocation, the counter uses every slice: pools may be incomplete, and taints are ignored.
"""

from __future__ import annotations

from kubesched.api import DeviceClass, Node
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import DeviceInventory
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import (
    DeviceSelectorError,
    DeviceSelectors,
)
from kubesched.scheduler.plugins.dynamic_resources.slice_records import SliceRecord

__all__ = ["InventoryDeviceCounter"]

log = get_logger(__name__)

_MAX_CLASSES = 256


class _ClassCounts:
    """Cached counts of one class, by node."""

    __slots__ = ("by_node", "device_class")

    def __init__(self, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self.by_node: dict[str, tuple[Node, tuple[int, int]]] = {}


class InventoryDeviceCounter:
    """Counts devices per class and node, cached until the node's devices change."""

    def __init__(self, inventory: DeviceInventory, *, list_attributes: bool) -> None:
        self._inventory = inventory
        self._selectors = DeviceSelectors(list_attributes=list_attributes)
        self._by_class: dict[str, _ClassCounts] = {}
        self._shared_version = -1
        inventory.listeners.append(self._invalidate)

    def count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """Return how many devices of the class the node has, and how many are in use."""
        if self._shared_version != self._inventory.shared_version:
            self._by_class.clear()
            self._shared_version = self._inventory.shared_version
        counts = self._by_class.get(device_class.metadata.name)
        if counts is None or counts.device_class is not device_class:
            if len(self._by_class) >= _MAX_CLASSES:
                self._by_class.clear()
            counts = self._by_class[device_class.metadata.name] = _ClassCounts(device_class)
        cached = counts.by_node.get(node.metadata.name)
        if cached is None or (cached[0] is not node and self._inventory.reads_labels):
            try:
                counted = self._count(device_class, node)
            except DeviceSelectorError as exc:
                log.error("Cannot count devices", exc=exc, node=node.metadata.name)
                counted = (0, 0)
            cached = counts.by_node[node.metadata.name] = (node, counted)
        return cached[1]

    def _invalidate(self, node_name: str | None) -> None:
        if node_name is None:
            self._by_class.clear()
        for counts in self._by_class.values():
            counts.by_node.pop(node_name or "", None)

    def _count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        expressions = [
            selector.cel.expression
            for selector in device_class.spec.selectors
            if selector.cel is not None
        ]
        total = in_use = 0
        for record in self._inventory.slices_for(node.metadata.name):
            usage = self._inventory.allocated.usage(record.pool_id)
            consumers = () if usage is None else usage.consumers
            for name in _devices_on(record, node, expressions, self._selectors):
                total += 1
                in_use += name in consumers
        return total, in_use


def _devices_on(
    record: SliceRecord, node: Node, expressions: list[str], selectors: DeviceSelectors
) -> list[str]:
    """Return the names of a slice's devices on the node that match the class."""
    selection = record.selection
    if record.is_per_device:
        mask = record.devices_for(node)
    elif selection.is_empty or selection.matches(node):
        mask = (True,) * len(record.devices.entries)
    else:
        return []
    return [
        name
        for (name, content), is_here in zip(record.devices.entries, mask, strict=True)
        if is_here and all(selectors.matches(each, content) for each in expressions)
    ]
