"""The devices of the cluster by node, and which nodes have equivalent devices.

Slices form pools, nodes see pools, and usage records which devices of a pool are free. Nodes that
see the same devices, equally free, share one `EquivalentNodes`: a search result for one of them
holds for all of them. When a slice or the usage changes, the inventory marks the nodes that the
change concerns; it recomputes their devices on the next request. A change of the usage moves a node
to another group, and leaves the pools that it sees.

Pools that are local to one node differ between nodes by name only, so their content and usage
are part of the key of the group. A pool that several nodes see is one object for all of them:
the key has its number, and its usage is read on request.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kubesched.api import Node, ResourceSlice
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import AllocatedDevices, PoolId
from kubesched.scheduler.plugins.dynamic_resources.device_content import (
    DeviceContent,
    DeviceContents,
)
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_pools import Pool, PoolState, PoolView
from kubesched.scheduler.plugins.dynamic_resources.slice_records import SliceRecord

__all__ = ["DeviceInventory", "EquivalentNodes", "NodeDevices"]

# For a group with more shared pools, any change of a shared pool counts as a change of the group.
_FEW_POOLS = 16


class EquivalentNodes:
    """A group of nodes that see the same devices, equally free."""

    __slots__ = ("holders", "key", "number", "shared")

    def __init__(self, number: int, key: object, shared: tuple[PoolView, ...]) -> None:
        self.number = number  # unique; never reused
        self.key = key
        self.shared = shared  # views of pools that several nodes see
        self.holders = 0


class NodeDevices(NamedTuple):
    """The pools that one node sees."""

    node: Node
    views: tuple[PoolView, ...]  # in the order of the search
    group: EquivalentNodes


class DeviceInventory:
    """Pools, nodes and groups, updated by changes of slices and usage."""

    def __init__(self, features: DeviceFeatures) -> None:
        self._features = features
        self._contents = DeviceContents()
        self.allocated = AllocatedDevices(
            consumable_capacity=features.consumable_capacity, on_change=self._usage_changed
        )
        self._slices: dict[str, SliceRecord] = {}
        self._slices_of_node: dict[str, dict[str, SliceRecord]] = {}  # "": without node name
        self._of_pool: dict[PoolId, dict[str, SliceRecord]] = {}
        self._pools: dict[PoolId, Pool] = {}
        self._pools_of_node: dict[str, set[PoolId]] = {}
        # Pools with node selectors, and pools of which every node sees a part.
        self._selecting: dict[PoolId, Pool] = {}
        self._seen_by_all: dict[PoolId, PoolView] = {}
        self._nodes: dict[str, NodeDevices] = {}
        # Nodes of which the usage changed: they see the same pools, perhaps in another group.
        self._regrouped: set[str] = set()
        self._groups: dict[object, EquivalentNodes] = {}
        self._group_numbers = itertools.count(1)
        self.few_pools = _FEW_POOLS
        self.shared_version = 0  # grows when the usage of a shared pool changes
        # Called with the name of each node whose group may have changed; None: all nodes.
        self.listeners: list[Callable[[str | None], None]] = []

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Apply an added, changed or deleted slice."""
        touched: dict[PoolId, Pool | None] = {}
        for gone in (old, new):
            record = None if gone is None else self._slices.pop(gone.metadata.name, None)
            if record is not None:
                touched[record.pool_id] = self._pools.get(record.pool_id)
                del self._of_pool[record.pool_id][record.name]
                del self._slices_of_node[record.node_name][record.name]
                if not self._slices_of_node[record.node_name]:
                    del self._slices_of_node[record.node_name]
        if new is not None and self._is_supported(new):
            record = SliceRecord(new, self._contents)
            touched.setdefault(record.pool_id, self._pools.get(record.pool_id))
            self._slices[record.name] = record
            self._of_pool.setdefault(record.pool_id, {})[record.name] = record
            self._slices_of_node.setdefault(record.node_name, {})[record.name] = record
        for pool_id, before in touched.items():
            self._rebuild(pool_id, before)

    def _is_supported(self, new: ResourceSlice) -> bool:
        return self._features.partitionable_devices or not (
            new.spec.per_device_node_selection or new.spec.shared_counters
        )

    def _rebuild(self, pool_id: PoolId, before: Pool | None) -> None:
        records = self._of_pool[pool_id]
        was_wide = pool_id in self._selecting or pool_id in self._seen_by_all
        for name in before.named_nodes if before is not None else ():
            self._pools_of_node[name].discard(pool_id)
            if not self._pools_of_node[name]:
                del self._pools_of_node[name]
        self._pools.pop(pool_id, None)
        self._selecting.pop(pool_id, None)
        self._seen_by_all.pop(pool_id, None)
        after: Pool | None = None
        if records:
            after = self._pools[pool_id] = Pool(pool_id, records.values())
            for name in after.named_nodes:
                self._pools_of_node.setdefault(name, set()).add(pool_id)
            self._index_wide(after)
        else:
            del self._of_pool[pool_id]
        if was_wide or pool_id in self._selecting or pool_id in self._seen_by_all:
            self._nodes.clear()
            self._regrouped.clear()
            self._groups.clear()
            self._notify(None)
            return
        for pool in (before, after):
            for name in pool.named_nodes if pool is not None else ():
                self._invalidate(name)

    def _index_wide(self, pool: Pool) -> None:
        """Index a pool that is not limited to named nodes."""
        if pool.selects_nodes:
            self._selecting[pool.pool_id] = pool
            return
        view = pool.view_of_other_nodes()
        # A pool without devices affects other nodes only if it is incomplete or invalid.
        if view is not None and (view.devices or view.state is not PoolState.COMPLETE):
            self._seen_by_all[pool.pool_id] = view

    def slices_for(self, node_name: str) -> Iterable[SliceRecord]:
        """Yield the slices that name the node, and those that name no node."""
        for name in (node_name, ""):
            yield from self._slices_of_node.get(name, {}).values()

    def _usage_changed(self, pool_id: PoolId) -> None:
        pool = self._pools.get(pool_id)
        if pool is None:
            return
        if pool.only_node:
            self._regrouped.add(pool.only_node)
            self._notify(pool.only_node)
        else:
            self.shared_version += 1

    def _invalidate(self, node_name: str) -> None:
        self._regrouped.discard(node_name)
        cached = self._nodes.pop(node_name, None)
        if cached is not None:
            self._release(cached.group)
        self._notify(node_name)

    def _release(self, group: EquivalentNodes) -> None:
        group.holders -= 1
        if not group.holders:
            self._groups.pop(group.key, None)

    def _notify(self, node_name: str | None) -> None:
        for listener in self.listeners:
            listener(node_name)

    @property
    def reads_labels(self) -> bool:
        """Whether the labels of nodes decide which devices they see."""
        return bool(self._selecting)

    def of_node(self, node: Node) -> NodeDevices:
        """Return the pools that the node sees, and its group."""
        name = node.metadata.name
        cached = self._nodes.get(name)
        views: tuple[PoolView, ...] | None = None
        if cached is not None and (
            cached.node is node
            or not self._selecting
            or cached.node.metadata.labels == node.metadata.labels
        ):
            if name not in self._regrouped:
                return cached
            views = cached.views
        self._regrouped.discard(name)
        if views is None:
            views = self._views_of(node)
        group = self._group_of(views)
        if cached is not None and views is cached.views and group is cached.group:
            return cached
        group.holders += 1  # before the release, because both may be the same group
        if cached is not None:
            self._release(cached.group)
        found = self._nodes[name] = NodeDevices(node, views, group)
        return found

    def content_of(self, driver: str, pool: str, device: str) -> DeviceContent | None:
        """Return the content of a device in the latest generation of its pool."""
        published = self._pools.get((driver, pool))
        return None if published is None else published.content_of(device)

    def remove_node(self, name: str) -> None:
        """Drop the entry of a deleted node."""
        self._regrouped.discard(name)
        cached = self._nodes.pop(name, None)
        if cached is not None:
            self._release(cached.group)

    def _views_of(self, node: Node) -> tuple[PoolView, ...]:
        local = self._pools_of_node.get(node.metadata.name, ())
        pools: Iterable[Pool] = [self._pools[pool_id] for pool_id in local]
        if self._selecting:
            pools = {pool.pool_id: pool for pool in (*pools, *self._selecting.values())}.values()
        views = [view for pool in pools if (view := pool.view_of(node)) is not None]
        if self._seen_by_all:
            own = {view.pool.pool_id for view in views}
            views += [
                view
                for pool_id, view in self._seen_by_all.items()
                if pool_id not in own and pool_id not in local
            ]
        views.sort(key=_order)
        return tuple(views)

    def _group_of(self, views: tuple[PoolView, ...]) -> EquivalentNodes:
        parts: list[object] = []
        shared = []
        for view in views:
            if view.pool.only_node:
                usage = self.allocated.usage(view.pool.pool_id)
                parts.append((view.key, view.usage_key(usage)))
            else:
                parts.append(view.number)
                shared.append(view)
        key = tuple(parts)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = EquivalentNodes(
                next(self._group_numbers), key, tuple(shared)
            )
        return group

    def usage_versions(self, group: EquivalentNodes) -> tuple[int, ...]:
        """Return a value that changes with the usage of the pools that a group shares."""
        if len(group.shared) > self.few_pools:
            return (self.shared_version,)
        return tuple(
            0 if (usage := self.allocated.usage(view.pool.pool_id)) is None else usage.version
            for view in group.shared
        )


def _order(view: PoolView) -> tuple[bool, str, str]:
    return view.order
