"""The nodes as one scheduling attempt sees them (docs/reference/04 §6).

The reference copies changed nodes under a lock. Here a scheduling cycle never awaits, so
nothing changes under it: the snapshot is the node table brought up to date when the attempt
begins, and the NodeInfos beside it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import CacheError
from kubesched.framework import NodeInfo, NodeView, PodIndex, PodInfo
from kubesched.framework.engine import NodeTable
from kubesched.scheduler.backend.node_tree import NodeTree

__all__ = ["ClusterSnapshot"]


class ClusterSnapshot:
    """Written by the cache only, when an attempt begins."""

    def __init__(self, table: NodeTable, tree: NodeTree) -> None:
        self.table = table
        self.pod_index = PodIndex(table)
        self.infos: list[NodeInfo | None] = []  # NodeInfo[row]
        self._tree = tree
        self._view: NodeView | None = None
        self._order_names: list[str] | None = None
        self._order: NDArray[np.intp] | None = None
        self._pvc_users: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nodes(self) -> NodeView:
        """All nodes, in table order."""
        if self._view is None:
            self._view = NodeView(self.pod_index, self.infos, self.table.live_rows)
        return self._view

    @property
    def order(self) -> NDArray[np.intp]:
        """Rows in the order in which nodes are listed; it changes when nodes come or go."""
        if self._order is None:
            if self._order_names is None:
                self._order_names = self._tree.names()
            row_of = self.table.row_of
            rows = [row_of[name] for name in self._order_names if name in row_of]
            if len(rows) != len(row_of):
                raise CacheError(
                    "snapshot state is not consistent, length of NodeInfoList="
                    f"{len(rows)} not equal to length of nodes in tree={len(self._tree)}"
                )
            self._order = np.asarray(rows, dtype=np.intp)
        return self._order

    def get(self, name: str) -> NodeInfo | None:
        row = self.table.row_of.get(name)
        return None if row is None else self.infos[row]

    def has_pvc_in_use(self, key: str) -> bool:
        return key in self._pvc_users

    def show_node(self, name: str, info: NodeInfo) -> int:
        """Give a node that appeared a row; its pods are shown one by one afterwards."""
        row = self.table.add_row(name)
        while len(self.infos) <= row:
            self.infos.append(None)
        self.infos[row] = info
        self._view = None
        return row

    def hide_node(self, name: str) -> None:
        self.infos[self.table.row_of[name]] = None
        self.table.remove_row(name)
        self._view = None

    def nodes_changed(self) -> None:
        """Another set of nodes: list them anew when next asked."""
        self._order = self._order_names = None

    def rows_moved(self) -> None:
        """The same nodes under other rows: a node that came back keeps its place."""
        self._order = None

    def show_pod(self, row: int, pod_info: PodInfo) -> None:
        self.pod_index.add(row, pod_info)
        for key in pod_info.claim_keys:
            self._pvc_users[key] += 1

    def hide_pod(self, row: int, pod_info: PodInfo) -> None:
        self.pod_index.remove(row, pod_info)
        for key in pod_info.claim_keys:
            self._pvc_users[key] -= 1
            if self._pvc_users[key] <= 0:
                del self._pvc_users[key]

    def relabel_pod(self, row: int, pod_info: PodInfo) -> None:
        """The pod is a newer version of itself, with other labels."""
        self.pod_index.relabel(row, pod_info)
        self.table.pod_changes.append(row)
