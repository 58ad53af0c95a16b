"""How many devices of a class each node has (docs/reference/05 §6.4).

Unlike allocation this looks at every slice: pools need not be complete, taints do not matter.
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

_CLASSES_KEPT = 256


class _OfClass:
    """The counts for one class, by node."""

    __slots__ = ("by_node", "device_class")

    def __init__(self, device_class: DeviceClass) -> None:
        self.device_class = device_class
        self.by_node: dict[str, tuple[Node, tuple[int, int]]] = {}


class InventoryDeviceCounter:
    """Counts once per class and node, until something of that node's devices changes."""

    def __init__(self, inventory: DeviceInventory, *, list_attributes: bool) -> None:
        self._inventory = inventory
        self._selectors = DeviceSelectors(list_attributes=list_attributes)
        self._kept: dict[str, _OfClass] = {}
        self._shared_version = -1
        inventory.listeners.append(self._forget)

    def count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """How many devices of the class the node has, and how many of those are in use."""
        if self._shared_version != self._inventory.shared_version:
            self._kept.clear()
            self._shared_version = self._inventory.shared_version
        kept = self._kept.get(device_class.metadata.name)
        if kept is None or kept.device_class is not device_class:
            if len(self._kept) >= _CLASSES_KEPT:
                self._kept.clear()
            kept = self._kept[device_class.metadata.name] = _OfClass(device_class)
        known = kept.by_node.get(node.metadata.name)
        if known is None or (known[0] is not node and self._inventory.reads_labels):
            try:
                counted = self._count(device_class, node)
            except DeviceSelectorError as exc:
                log.error("Devices cannot be counted", exc=exc, node=node.metadata.name)
                counted = (0, 0)
            known = kept.by_node[node.metadata.name] = (node, counted)
        return known[1]

    def _forget(self, node_name: str | None) -> None:
        if node_name is None:
            self._kept.clear()
        for kept in self._kept.values():
            kept.by_node.pop(node_name or "", None)

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
    """Names of the devices of a slice that are for the node and of the class."""
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
