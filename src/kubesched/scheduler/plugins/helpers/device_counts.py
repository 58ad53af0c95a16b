"""Devices per class and node, for plugins that score by resources.

docs/reference/05 §6.4.

DynamicResources counts the devices. It shares its counter with the other plugins through
`Handle.shared`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.api import DeviceClass, Node
from kubesched.framework import Handle, NodeInfo, NodeView
from kubesched.scheduler.plugins.helpers.device_classes import (
    DeviceClassResolver,
    is_served_by_devices,
)

__all__ = ["DEVICE_COUNTS", "DeviceCounter", "ServedAmounts"]

# The key of the counter in `Handle.shared`.
DEVICE_COUNTS = "device-counts"


class DeviceCounter(Protocol):
    """Counts devices of a class on a node."""

    def count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """Return how many devices of the class the node has, and how many are in use."""
        ...


class ServedAmounts:
    """Amounts of extended resources that devices provide on nodes."""

    def __init__(self, handle: Handle | None, names: tuple[str, ...]) -> None:
        self._handle = handle
        self._classes = DeviceClassResolver(handle)
        self._names = frozenset(name for name in names if is_served_by_devices(name))

    @property
    def may_count(self) -> bool:
        """Whether devices can provide one of the configured resources."""
        return self._handle is not None and bool(self._names)

    def of_node(self, name: str, node: NodeInfo) -> tuple[int, int]:
        """Return the amount of a resource that devices provide, and its usage.

        Call it only for a node whose own allocatable amount is 0.
        """
        counter, device_class = self._find(name)
        if counter is None or device_class is None or node.node is None:
            return 0, 0
        return counter.count(device_class, node.node)

    def of_nodes(
        self, name: str, nodes: NodeView, lacking: NDArray[np.bool_]
    ) -> NDArray[np.int64] | None:
        """Return `of_node` for the nodes that lack the resource, int64[2, node].

        None means that no device class serves the resource.
        """
        counter, device_class = self._find(name)
        if counter is None or device_class is None or not lacking.any():
            return None
        amounts = np.zeros((2, len(nodes)), dtype=np.int64)
        rows = nodes.rows
        for index in np.flatnonzero(lacking).tolist():
            node = nodes.info_at(int(rows[index])).node
            if node is not None:
                amounts[:, index] = counter.count(device_class, node)
        return amounts

    def _find(self, name: str) -> tuple[DeviceCounter | None, DeviceClass | None]:
        if self._handle is None or name not in self._names:
            return None, None
        counter: DeviceCounter | None = self._handle.shared.find(DEVICE_COUNTS)
        return counter, self._classes.class_for(name)
