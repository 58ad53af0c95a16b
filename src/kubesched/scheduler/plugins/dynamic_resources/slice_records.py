"""A ResourceSlice, parsed for the allocator (docs/reference/08 §2.3, §8.1)."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api import Node, NodeSelector, ResourceSlice
from kubesched.api.node_selector import NodeMatcher
from kubesched.api.quantity import Quantity, quantity_from_json
from kubesched.errors import QuantityError
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolId
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContents, DeviceList

__all__ = ["SliceRecord"]


class SliceRecord:
    """The parts of a slice that allocation uses, parsed once."""

    __slots__ = (
        "counters",
        "devices",
        "duplicate_counter_set",
        "generation",
        "is_per_device",
        "name",
        "node_name",
        "pool_id",
        "problem",
        "selection",
        "slice_count",
        "source",
    )

    def __init__(self, source: ResourceSlice, contents: DeviceContents) -> None:
        spec = source.spec
        self.source = source
        self.name = source.metadata.name
        self.pool_id: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.slice_count = spec.pool.resource_slice_count
        self.node_name = spec.node_name or ""
        self.is_per_device = bool(spec.per_device_node_selection)
        self.selection = _Selection(spec.node_name, spec.all_nodes, spec.node_selector)
        self.devices: DeviceList = contents.of_devices(spec.driver, spec.devices)
        self.problem = ""
        # Counter set -> counter -> value; of sets with the same name only the first.
        self.counters: Mapping[str, Mapping[str, Quantity]] = {}
        self.duplicate_counter_set = ""
        self._read_counters(source)

    def _read_counters(self, source: ResourceSlice) -> None:
        counters: dict[str, Mapping[str, Quantity]] = {}
        try:
            for counter_set in source.spec.shared_counters:
                if counter_set.name in counters:
                    self.duplicate_counter_set = counter_set.name
                    continue
                counters[counter_set.name] = {
                    name: quantity_from_json(counter.value)
                    for name, counter in counter_set.counters.items()
                }
        except QuantityError as exc:
            self.problem = str(exc)
        self.counters = counters

    @property
    def has_counters(self) -> bool:
        return bool(self.source.spec.shared_counters)

    @property
    def is_for_every_node(self) -> bool:
        """Whether all nodes see the slice: by its selection, or because it has counters."""
        return self.has_counters or (not self.node_name and self.selection.all_nodes)

    @property
    def selects_nodes(self) -> bool:
        """Whether a node's labels decide if it sees the slice."""
        return not self.has_counters and not self.node_name and not self.selection.all_nodes

    def is_relevant(self, node: Node) -> bool:
        """Whether the slice is for this node."""
        if self.has_counters:
            return True
        if not self.selection.is_empty:
            return self.selection.matches(node)
        return self.is_per_device and any(self.devices_for(node))

    def devices_for(self, node: Node) -> tuple[bool, ...]:
        """For each device, whether it selects this node; for per-device node selection."""
        return tuple(
            _Selection(
                content.device.node_name, content.device.all_nodes, content.device.node_selector
            ).matches(node)
            for _, content in self.devices.entries
        )


class _Selection:
    """A selection of nodes: one by name, all, or those that a selector matches."""

    __slots__ = ("all_nodes", "node_name", "node_selector")

    def __init__(
        self, node_name: str | None, all_nodes: bool | None, node_selector: NodeSelector | None
    ) -> None:
        self.node_name = node_name or ""
        self.all_nodes = bool(all_nodes)
        self.node_selector = node_selector

    @property
    def is_empty(self) -> bool:
        return not self.node_name and not self.all_nodes and self.node_selector is None

    def matches(self, node: Node) -> bool:
        if self.node_name:
            return self.node_name == node.metadata.name
        if self.all_nodes:
            return True
        if self.node_selector is None:
            return False
        # An invalid term matches no node; no server stores one.
        return NodeMatcher.parse(self.node_selector).matches_node(node)
