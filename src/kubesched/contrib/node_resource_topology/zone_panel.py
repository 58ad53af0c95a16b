"""The panel of NUMA nodes on the page: their free resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubesched.api import CPU
from kubesched.contrib.amounts import shown
from kubesched.contrib.node_resource_topology.topology_cache import TopologyCache
from kubesched.contrib.node_resource_topology.zones import NodeTopology
from kubesched.framework import MOST_PANEL_ROWS, Panel, PanelMeter, PanelRow

__all__ = ["zone_panel"]

_MOST_METERS: Final = 64  # of a node


def zone_panel(cache: TopologyCache, nodes: Iterable[str]) -> Panel:
    """Return a row for each node that has a NodeResourceTopology."""
    names = sorted(nodes)
    known = [(name, found) for name in names if (found := cache.topology_of(name)) is not None]
    if not known:
        return Panel("NUMA nodes", "No node has a NodeResourceTopology.", "warm")
    summary = f"{len(known)} of {len(names)} nodes have a NodeResourceTopology."
    rows = tuple(_row(cache, name, topology) for name, topology in known[:MOST_PANEL_ROWS])
    return Panel("NUMA nodes", summary, rows=rows, more=len(known) - len(rows))


def _row(cache: TopologyCache, name: str, topology: NodeTopology) -> PanelRow:
    reserved = cache.reserved_on(name)
    held = ", ".join(
        f"{shown(each, amount)} {each}" for each, amount in sorted(reserved.items()) if amount > 0
    )
    meters: list[PanelMeter] = []
    for zone, left in sorted(topology.left(reserved).items()):
        most = topology.allocatable.get(zone, {})
        # Only cpu and devices: memory is rarely scarce.
        for each in sorted(left, key=lambda each: (each != CPU, each)):
            if each == CPU or "/" in each:
                whole = max(most.get(each, 0), left[each])
                used = whole - left[each]
                if len(meters) >= _MOST_METERS:
                    break
                meters.append(
                    PanelMeter(
                        f"{zone}: {each}",
                        used / whole if whole else 0.0,
                        f"{shown(each, left[each])} of {shown(each, whole)} left",
                    )
                )
    return PanelRow(
        name,
        state=topology.policy,
        text=f"scope {topology.scope}" + (f"; reserved, not reported yet: {held}" if held else ""),
        meters=tuple(meters),
        node=name,
    )
