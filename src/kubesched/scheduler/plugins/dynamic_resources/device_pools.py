"""Pools of devices, from the point of view of nodes (docs/reference/08 §8.2).

A pool consists of slices, and each node sees the slices that select it. These decide whether the
pool is complete and valid for the node, and which devices it has. Nodes that see the same slices
share one `PoolView`.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kubesched.api import Node
from kubesched.api.quantity import Quantity
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolId, PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_content import (
    AttributeValue,
    DeviceContent,
    value_of,
)
from kubesched.scheduler.plugins.dynamic_resources.slice_records import SliceRecord

__all__ = ["Pool", "PoolState", "PoolView", "ViewedDevice"]

CounterKey = tuple[str, str]  # counter set, counter

_numbers = itertools.count(1)
# Claims name attributes, so a pool caches the values of no more than these.
_MOST_ATTRIBUTES = 64


class PoolState(enum.Enum):
    """Whether a node can use the devices of a pool."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"  # slices are missing: the driver is updating the pool
    INVALID = "invalid"  # the slices contradict each other


class ViewedDevice(NamedTuple):
    """A device of a pool in the view of some nodes."""

    name: str
    content: DeviceContent
    slice: SliceRecord
    is_for_node: bool  # False: for another node, in a slice with per-device node selection


class PoolView:
    """A pool as some nodes see it."""

    __slots__ = (
        "_index",
        "_known",
        "_values",
        "devices",
        "has_conditions",
        "is_plain",
        "key",
        "number",
        "pool",
        "slices",
        "state",
    )

    def __init__(
        self,
        pool: Pool,
        state: PoolState,
        slices: tuple[SliceRecord, ...],
        devices: tuple[ViewedDevice, ...],
    ) -> None:
        self.number = next(_numbers)
        self.pool = pool
        self.state = state
        self.slices = slices
        self.devices = devices  # none unless the pool is complete
        self.has_conditions = any(device.content.has_conditions for device in devices)
        self.is_plain = all(device.content.is_plain for device in self.devices)
        self._index: dict[str, int] | None = None
        self._values: dict[str, tuple[AttributeValue | None, ...]] = {}
        self._known: dict[str, frozenset[AttributeValue]] = {}
        # Equal for pools with equal devices that differ only in their name and node.
        self.key = (
            pool.pool_id[0],
            state,
            tuple(each.content.number for each in self.devices),
            _counters_key(slices),
        )

    @property
    def order(self) -> tuple[bool, str, str]:
        """The sort key: pools whose devices have binding conditions come last."""
        return (self.has_conditions, *self.pool.pool_id)

    @property
    def index(self) -> Mapping[str, int]:
        """The positions of the devices by name."""
        if self._index is None:
            self._index = {device.name: place for place, device in enumerate(self.devices)}
        return self._index

    def values_of(self, attribute: str) -> frozenset[AttributeValue]:
        """Return the values that the devices have of an attribute, without unknown types."""
        found = self._known.get(attribute)
        if found is None:
            values = frozenset(self.values_by_device(attribute))
            if len(self._known) >= _MOST_ATTRIBUTES:
                self._known.clear()
            found = self._known[attribute] = frozenset(v for v in values if v is not None)
        return found

    def values_by_device(self, attribute: str) -> tuple[AttributeValue | None, ...]:
        """Return the value of an attribute for each device; None: it has no known value."""
        found = self._values.get(attribute)
        if found is None:
            if len(self._values) >= _MOST_ATTRIBUTES:
                self._values.clear()
            attributes = (device.content.attribute(attribute) for device in self.devices)
            found = self._values[attribute] = tuple(
                None if each is None else value_of(each) for each in attributes
            )
        return found

    def has_values_of(self, attribute: str) -> bool:
        """Whether the values of an attribute are cached."""
        return attribute in self._values

    def usage_key(self, usage: PoolUsage | None) -> object:
        """Return a key that is equal for usages with the same effect on an allocation."""
        if usage is None:
            return 0
        index = self.index
        mask = 0
        for name in usage.dedicated:
            place = index.get(name)
            if place is not None:
                mask |= 1 << place
        if not usage.has_parts:
            return mask
        shared = [
            (
                index[name],
                usage.has_capacity_entry(name),
                tuple(sorted((n, q.nanos) for n, q in usage.consumed_capacity(name).items())),
            )
            for name in {*usage.shared, *usage.with_capacity}
            if name in index
        ]
        return (mask, tuple(sorted(shared))) if shared else mask


def _counters_key(slices: Iterable[SliceRecord]) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        (set_name, name, amount.nanos)
        for each in slices
        for set_name, counters in each.counters.items()
        for name, amount in counters.items()
    )


class Pool:
    """All slices of one driver's pool.

    It is immutable: a changed slice makes a new pool.
    """

    def __init__(self, pool_id: PoolId, slices: Iterable[SliceRecord]) -> None:
        self.pool_id = pool_id
        self.slices: tuple[SliceRecord, ...] = tuple(sorted(slices, key=lambda each: each.name))
        self.named_nodes: frozenset[str] = frozenset(
            each.node_name for each in self.slices if each.node_name
        )
        self.selects_nodes = any(each.selects_nodes for each in self.slices)
        # The only node that sees devices of this pool, or "".
        self.only_node = ""
        if len(self.named_nodes) == 1 and all(each.node_name for each in self.slices):
            (self.only_node,) = self.named_nodes
        self._views: dict[tuple[object, ...], PoolView | None] = {}
        self._counters: dict[int, tuple[int, Mapping[CounterKey, Quantity]]] = {}

    def view_of_other_nodes(self) -> PoolView | None:
        """Return the view of a node that no slice names or selects.

        The result is None if the node sees nothing.
        """
        relevant = [each for each in self.slices if each.is_for_every_node]
        return self._view(relevant, {}) if relevant else None

    def view_of(self, node: Node) -> PoolView | None:
        """Return the view of this node; None: it sees nothing."""
        relevant = [each for each in self.slices if each.is_relevant(node)]
        if not relevant:
            return None
        masks = {each.name: each.devices_for(node) for each in relevant if each.is_per_device}
        return self._view(relevant, masks)

    def _view(
        self, relevant: list[SliceRecord], masks: Mapping[str, tuple[bool, ...]]
    ) -> PoolView | None:
        key = (*(each.name for each in relevant), *masks.values())
        if key not in self._views:
            self._views[key] = self._build(relevant, masks)
        return self._views[key]

    def _build(
        self, relevant: list[SliceRecord], masks: Mapping[str, tuple[bool, ...]]
    ) -> PoolView | None:
        generation = max(each.generation for each in relevant)
        seen = tuple(each for each in relevant if each.generation == generation)
        state = PoolState.COMPLETE
        if len(seen) != seen[0].slice_count:
            if any(each.generation > generation for each in self.slices):
                return None  # outdated
            count = sum(each.generation == generation for each in self.slices)
            if count != seen[0].slice_count:
                state = PoolState.INCOMPLETE
        if state is PoolState.COMPLETE and not self._is_valid(seen, generation):
            state = PoolState.INVALID
        devices: tuple[ViewedDevice, ...] = ()
        if state is PoolState.COMPLETE:
            devices = tuple(
                ViewedDevice(name, content, each, is_for_node)
                for each in seen
                for (name, content), is_for_node in zip(
                    each.devices.entries,
                    masks.get(each.name) or itertools.repeat(True),
                    strict=False,
                )
            )
        return PoolView(self, state, seen, devices)

    def _is_valid(self, seen: Collection[SliceRecord], generation: int) -> bool:
        names: set[str] = set()
        for name in (name for each in seen for name, _ in each.devices.entries):
            if name in names:
                return False
            names.add(name)
        counters: dict[str, Mapping[str, Quantity]] = {}
        for each in seen:
            if each.problem or each.duplicate_counter_set:
                return False
            for set_name, values in each.counters.items():
                if set_name in counters:
                    return False
                counters[set_name] = values
        return all(
            consumption.counter_set in counters
            and all(name in counters[consumption.counter_set] for name in consumption.counters)
            for _, content in self._devices_of(generation)
            for consumption in content.device.consumes_counters
        )

    def _devices_of(self, generation: int) -> Iterator[tuple[str, DeviceContent]]:
        """Yield the devices of all slices of a generation, for any node."""
        for each in self.slices:
            if each.generation == generation:
                yield from each.devices.entries

    def content_of(self, device: str) -> DeviceContent | None:
        """Return the content of a device in the latest generation."""
        latest = max(each.generation for each in self.slices)
        return next((found for name, found in self._devices_of(latest) if name == device), None)

    def available_counters(
        self, view: PoolView, usage: PoolUsage | None
    ) -> Mapping[CounterKey, Quantity]:
        """Return the counters minus those of devices in use; a value may be negative."""
        version = 0 if usage is None else usage.version
        cached = self._counters.get(view.number)
        if cached is not None and cached[0] == version and usage is not None:
            return cached[1]
        available = {
            (set_name, name): amount
            for each in view.slices
            for set_name, counters in each.counters.items()
            for name, amount in counters.items()
        }
        if usage is not None:
            in_use = usage.consumers
            for device, content in self._devices_of(view.slices[0].generation):
                if device in in_use:
                    for key, amount in content.consumed_counters.items():
                        if key in available:
                            available[key] -= amount
            self._counters[view.number] = (version, available)
        return available
