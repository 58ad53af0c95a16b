"""Counts of the devices that one request admits: of its class, excluded, closed, in use, free.

Explanations use them. Nodes with equal devices are counted once and multiplied, as for the
search (`DeviceInventory`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kubesched.api import Node
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContent
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import DeviceInventory
from kubesched.scheduler.plugins.dynamic_resources.device_pools import (
    PoolState,
    PoolView,
    ViewedDevice,
)
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ResolvedDeviceRequest
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import (
    DeviceSelectorError,
    DeviceSelectors,
)
from kubesched.scheduler.plugins.dynamic_resources.device_taints import are_tolerated

__all__ = ["DeviceTally", "tally_devices"]


class DeviceTally:
    """The devices of some nodes, counted for one request."""

    def __init__(self) -> None:
        self.published = 0
        self.drivers: Counter[str] = Counter()  # of all devices
        self.of_class = 0
        # Selector of the request -> how many devices of the class it excludes.
        self.excluded: Counter[str] = Counter()
        self.matching = 0
        self.in_use = 0
        self.free = 0
        # `key=value:effect` of a taint that the request does not tolerate -> unused devices.
        self.closed: Counter[str] = Counter()
        self.incomplete: set[str] = set()  # pools of which slices are missing
        self.problem = ""  # why a selector fails on a device
        # The most on one node, with the name of the node.
        self.most_free: tuple[int, str] = (0, "")
        self.most_matching: tuple[int, str] = (0, "")
        self.of_the_class: Counter[DeviceContent] = Counter()  # for the values of attributes

    def add(self, other: DeviceTally) -> None:
        """Add the counts of another tally, without the largest numbers of nodes."""
        self.published += other.published
        self.of_class += other.of_class
        self.matching += other.matching
        self.in_use += other.in_use
        self.free += other.free
        self.drivers.update(other.drivers)
        self.excluded.update(other.excluded)
        self.closed.update(other.closed)
        self.of_the_class.update(other.of_the_class)
        self.incomplete |= other.incomplete
        self.problem = self.problem or other.problem


def tally_devices(
    inventory: DeviceInventory,
    nodes: Iterable[Node],
    request: ResolvedDeviceRequest,
    selectors: DeviceSelectors,
) -> DeviceTally:
    """Count the devices that the nodes see, each device once."""
    counter = _PoolCounter(inventory, request, selectors)
    total = DeviceTally()
    shared: set[int] = set()
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        free = matching = 0
        for view in inventory.of_node(node).views:
            found = counter.tally(view)
            free += found.free
            matching += found.matching
            if view.pool.only_node or view.number not in shared:
                total.add(found)
                shared.add(view.number)
        name = node.metadata.name
        if free > total.most_free[0] or not total.most_free[1]:
            total.most_free = (free, name)
        if matching > total.most_matching[0]:
            total.most_matching = (matching, name)
    return total


class _PoolCounter:
    """Counts the devices of a pool for one request; equal pools once."""

    def __init__(
        self,
        inventory: DeviceInventory,
        request: ResolvedDeviceRequest,
        selectors: DeviceSelectors,
    ) -> None:
        self._inventory, self._request, self._selectors = inventory, request, selectors
        self._found: dict[object, DeviceTally] = {}

    def tally(self, view: PoolView) -> DeviceTally:
        """Return the counts of a pool in one view."""
        usage = self._inventory.allocated.usage(view.pool.pool_id)
        key: object = view.number
        if view.pool.only_node and view.state is PoolState.COMPLETE:
            key = (view.key, view.usage_key(usage))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._count(view, usage)
        return found

    def _count(self, view: PoolView, usage: PoolUsage | None) -> DeviceTally:
        tally = DeviceTally()
        if view.state is PoolState.INCOMPLETE:
            tally.incomplete.add(view.pool.pool_id[1])
        for device in view.devices:
            if device.is_for_node:
                self._classify(tally, device, usage)
        return tally

    def _classify(self, tally: DeviceTally, device: ViewedDevice, usage: PoolUsage | None) -> None:
        content, request = device.content, self._request
        tally.published += 1
        tally.drivers[content.driver] += 1
        if self._excluding(tally, request.class_selectors, content):
            return
        tally.of_class += 1
        tally.of_the_class[content] += 1
        if excluding := self._excluding(tally, request.selectors, content):
            tally.excluded.update(excluding)
            return
        tally.matching += 1
        if not request.admin_access and usage is not None and usage.is_dedicated(device.name):
            tally.in_use += 1
            return
        closing = list(_closing(content, request))
        tally.closed.update(closing)
        tally.free += not closing

    def _excluding(
        self, tally: DeviceTally, expressions: Iterable[str], content: DeviceContent
    ) -> list[str]:
        """Return the expressions that do not match a device; one that fails does not match."""
        found = []
        for each in expressions:
            try:
                if self._selectors.matches(each, content):
                    continue
            except DeviceSelectorError as error:
                tally.problem = tally.problem or str(error)
            found.append(each)
        return found


def _closing(content: DeviceContent, request: ResolvedDeviceRequest) -> Iterator[str]:
    """Yield the taints of a device that the request does not tolerate."""
    for taint in content.blocking_taints:
        if not are_tolerated((taint,), request.tolerations):
            value = f"={taint.value}" if taint.value else ""
            yield f"{taint.key}{value}:{taint.effect}"
