"""How many devices of a class a node has, for plugins that score by resources.

docs/reference/05 §6.4. What counts them is the plugin that knows the devices; it leaves the counter
where others find it.
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

# The name under which plugins share the counter.
DEVICE_COUNTS = "device-counts"


class DeviceCounter(Protocol):
    def count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """How many devices of the class the node has, and how many of those are in use."""
        ...


class ServedAmounts:
    """Amounts of extended resources that nodes have as devices and not as a number of their own."""

    def __init__(self, handle: Handle | None, names: tuple[str, ...]) -> None:
        self._handle = handle
        self._classes = DeviceClassResolver(handle)
        self._names = frozenset(name for name in names if is_served_by_devices(name))

    @property
    def may_count(self) -> bool:
        """Whether a resource is configured that devices might serve."""
        return self._handle is not None and bool(self._names)

    def of_node(self, name: str, node: NodeInfo) -> tuple[int, int]:
        """What there is of a resource that the node itself has nothing of, and what is taken."""
        counter, device_class = self._find(name)
        if counter is None or device_class is None or node.node is None:
            return 0, 0
        return counter.count(device_class, node.node)

    def of_nodes(
        self, name: str, nodes: NodeView, lacking: NDArray[np.bool_]
    ) -> NDArray[np.int64] | None:
        """The same for the nodes that lack it, int64[2, node]; None: no device serves it."""
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
