"""The snapshot of the nodes that one scheduling attempt reads (docs/reference/04 §6).

The reference copies changed nodes under a lock. Here a scheduling cycle never awaits, so nothing
changes while it runs: the snapshot is the node table, updated when the attempt begins, and the
NodeInfos of its rows.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import CacheError
from kubesched.framework import NodeInfo, NodeView, PodIndex, PodInfo
from kubesched.framework.engine import NodeTable
from kubesched.scheduler.backend.node_tree import NodeTree

__all__ = ["ClusterSnapshot"]


class ClusterSnapshot:
    """All nodes and the pods on them. Only the cache writes it, when an attempt begins."""

    def __init__(self, table: NodeTable, tree: NodeTree) -> None:
        self.table = table
        self.pod_index = PodIndex(table)
        self.infos: list[NodeInfo | None] = []  # NodeInfo[row]
        self._tree = tree
        # The list of nodes as of the last update that added or removed some.
        self._listing = tree.listing()
        self._view: NodeView | None = None
        self._order: NDArray[np.intp] | None = None
        self._pvc_users: Counter[str] = Counter()
        # The nodes that a pod group is tried on; None: all nodes. Only searches are restricted.
        self.placement: NodeView | None = None

    def __len__(self) -> int:
        return len(self.table.row_of)

    @property
    def nodes(self) -> NodeView:
        """All nodes, in table order."""
        if self._view is None:
            self._view = NodeView(self.pod_index, self.infos, self.table.live_rows)
        return self._view

    @property
    def candidates(self) -> NodeView:
        """The nodes that a search may choose from."""
        return self.nodes if self.placement is None else self.placement

    @contextlib.contextmanager
    def restricted_to(self, placement: NodeView) -> Iterator[None]:
        """Restrict searches to some nodes while the block runs.

        A placement that has all nodes is no restriction.
        """
        assert self.placement is None, "placements are not nested"
        if len(placement) < len(self):
            # A view of its own: the generator's may store amounts, which change with each member.
            self.placement = NodeView(placement.pods, self.infos, placement.rows)
        try:
            yield
        finally:
            self.placement = None

    @property
    def order(self) -> NDArray[np.intp]:
        """Rows in the order of the node list; it changes when nodes are added or removed."""
        if self._order is None:
            row_of = self.table.row_of
            rows = [row_of[name] for name in self._listing.names() if name in row_of]
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
        """Add a row for a node and return it; the caller shows the node's pods one by one."""
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
        """Update the order: the set of nodes has changed.

        The order is that of the tree at this moment. A node that changes its zone later keeps its
        position until the set of nodes changes again.
        """
        self._listing = self._tree.listing()
        self._order = None

    def rows_moved(self) -> None:
        """Invalidate the rows of the order: the same nodes have other rows.

        A node that was removed and added again has the same position in the order.
        """
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
        """Update a pod whose labels have changed."""
        self.pod_index.relabel(row, pod_info)
        self.table.pod_changes.append(row)
