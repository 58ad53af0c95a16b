"""Nodes by region and zone, and what the network costs between these.

A place is a region with a zone. Nodes are many and places are few, so links are computed between
places and gathered for nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.labels import Selector
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_LABEL,
    WORKLOAD_LABEL,
    WorkloadDependency,
)
from kubesched.contrib.network_aware.network_costs import REGION, ZONE, NetworkCosts
from kubesched.framework import NodeView
from kubesched.framework.pod_query import PodQuery

__all__ = ["Distances", "Links", "NodePlaces", "pods_of"]

SAME_ZONE_COST: Final = 1
UNKNOWN_COST: Final = 100
# The largest maxNetworkCost that is too small; by it a link is near, far, or not classified.
_ALWAYS_NEAR: Final = -1
_NEVER_NEAR: Final = 2**62
_NOT_JUDGED: Final = -2
_MOST_LINKS: Final = 4_000_000
_NOWHERE: Final = ("", "")  # nodes without both labels: nothing is known of their network

Ints = NDArray[np.int64]


class Distances(NamedTuple):
    """By row: how the pods that a pod depends on would be."""

    excess: Ints  # how many more of them are too far than near
    cost: Ints  # the sum of the costs to them


class Links(NamedTuple):
    """From every place to one place."""

    cost: Ints
    needed: Ints  # the smallest maxNetworkCost with which the link is near, or a constant above

    def are_far(self, max_cost: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.needed > max_cost
        return found

    def are_near(self, max_cost: int) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = (self.needed <= max_cost) & (self.needed != _NOT_JUDGED)
        return found


def pods_of(app_group: str, workload: str) -> PodQuery:
    """Return the query for the pods of a workload, in any namespace."""
    labels = {APP_GROUP_LABEL: app_group, WORKLOAD_LABEL: workload}
    return PodQuery([(None, Selector.from_map(labels))])


class NodePlaces:
    """The places of the rows of a node table, and the links between them."""

    def __init__(self) -> None:
        self._table: object = None
        self._version: Hashable = None
        self._costs = NetworkCosts()
        self._links: dict[int, Links] = {}
        self._shares: dict[tuple[int, int], Ints] = {}  # by place and maxNetworkCost
        self.place_of: NDArray[np.intp] = np.empty(0, dtype=np.intp)  # intp[row]
        self.names: list[tuple[str, str]] = []  # region and zone, by place
        self._is_nowhere: NDArray[np.bool_] = np.empty(0, dtype=bool)  # bool[place]

    def update(self, nodes: NodeView, costs: NetworkCosts) -> None:
        """Read labels that have changed. Call this before anything else in an attempt."""
        table = nodes.table
        regions, zones = (table.label_column(key) for key in (REGION, ZONE))
        version = regions.version, zones.version, table.capacity
        if version == self._version and costs is self._costs and table is self._table:
            return
        self._table, self._version, self._costs = table, version, costs
        self._links, self._shares = {}, {}
        width = len(zones.values) + 1
        codes = (regions.ids.astype(np.int64) + 1) * width + zones.ids + 1
        found, self.place_of = np.unique(codes, return_inverse=True)
        region_texts, zone_texts = regions.texts, zones.texts
        self.names = [
            (region_texts[code // width - 1], zone_texts[code % width - 1])
            for code in found.tolist()
        ]
        self._is_nowhere = np.array([name == _NOWHERE for name in self.names])

    def links_to(self, place: int) -> Links:
        """Return the links from all places to one."""
        links = self._links.get(place)
        if links is None:
            if len(self._links) * len(self.names) > _MOST_LINKS:
                self._links = {}
            pairs = [self._link(each, self.names[place]) for each in self.names]
            columns = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)
            links = self._links[place] = Links(columns[:, 0], columns[:, 1])
        return links

    def _link(self, origin: tuple[str, str], destination: tuple[str, str]) -> tuple[int, int]:
        """Return the cost of a link, and the maxNetworkCost that it needs."""
        if destination == _NOWHERE:
            return UNKNOWN_COST, _NEVER_NEAR
        if origin == destination:
            return SAME_ZONE_COST, _ALWAYS_NEAR
        same_region = origin[0] == destination[0]
        costs = self._costs.zones if same_region else self._costs.regions
        start, end = (each[1] if same_region else each[0] for each in (origin, destination))
        cost = costs.get(start, {}).get(end) if start else None
        return (UNKNOWN_COST, _NOT_JUDGED) if cost is None else (cost, cost)

    def _share(self, place: int, max_cost: int) -> Ints:
        """Return what a pod in a place adds to the distances of all places: int64[2, place]."""
        key = place, max_cost
        share = self._shares.get(key)
        if share is None:
            if len(self._shares) * len(self.names) > _MOST_LINKS:
                self._shares = {}
            links = self.links_to(place)
            excess = links.are_far(max_cost).astype(np.int64) - links.are_near(max_cost)
            share = self._shares[key] = np.stack([excess, links.cost])
        return share

    def distances(
        self, nodes: NodeView, app_group: str, dependencies: Sequence[WorkloadDependency]
    ) -> Distances | None:
        """Return the distances of every row to the pods of the dependencies; None without pods."""
        by_place = np.zeros((2, len(self.names)), dtype=np.int64)
        on_rows = []
        for dependency in dependencies:
            counts = nodes.pods.count(pods_of(app_group, dependency.workload))
            if counts.total:
                rows = np.flatnonzero(counts.column)
                pods = counts.column[rows]
                on_rows.append((rows, pods))
                totals = np.bincount(self.place_of[rows], weights=pods)
                for place in np.flatnonzero(totals).tolist():
                    by_place += int(totals[place]) * self._share(place, dependency.max_cost)
        if not on_rows:
            return None
        excess, cost = by_place.take(self.place_of, axis=1)
        for rows, pods in on_rows:
            # Pods on the node itself are near, and without a cost.
            is_nowhere = self._is_nowhere[self.place_of[rows]]
            excess[rows] -= 2 * pods * is_nowhere
            cost[rows] -= pods * np.where(is_nowhere, UNKNOWN_COST, SAME_ZONE_COST)
        return Distances(excess, cost)
